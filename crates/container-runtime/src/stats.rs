//! What containers and pods use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use container::cgroup::{Cgroup, Stall, Usage};
use container::disk_usage::{self, DiskUsage};
use parking_lot::Mutex;

use crate::Inner;
use crate::cgroups::{self, Memory};
use crate::pods::{Container, Sandbox};
use crate::spec::files;
use crate::status::selects;

/// How long who asks waits for files to be counted.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// What was measured last, for what was used since.
#[derive(Default)]
pub struct Cache {
    /// By container or sandbox: when, and the processor time until then, both in nanoseconds. Held for a few instructions.
    last: Mutex<BTreeMap<String, (i64, u64)>>,
    disk: DiskUsage,
}

impl Cache {
    /// Billionths of a processor since the last time.
    fn rate(&self, id: &str, now: i64, cpu: u64) -> Option<u64> {
        let (then, before) = self.last.lock().insert(id.to_owned(), (now, cpu))?;
        let took = u128::try_from(now.checked_sub(then)?).ok().filter(|took| *took > 0)?;
        u64::try_from(u128::from(cpu.checked_sub(before)?) * 1_000_000_000 / took).ok()
    }

    pub fn forget(&self, id: &str) {
        self.last.lock().remove(id);
    }

    /// What each of them wrote to its root and to the volumes of its image; `None`: nothing is known yet.
    pub fn written(
        &self,
        containers: &[Arc<Container>],
        patience: Duration,
    ) -> Vec<Option<disk_usage::Usage>> {
        let parts =
            |container: &Arc<Container>| ["upper", "volumes"].map(|part| container.directory.join(part));
        let places: Vec<PathBuf> = containers.iter().flat_map(parts).collect();
        let counted = self.disk.of(&places, patience);
        let sum = |parts: &[Option<disk_usage::Usage>]| {
            parts.iter().flatten().copied().reduce(disk_usage::Usage::plus)
        };
        counted.chunks(2).map(sum).collect()
    }
}

impl Inner {
    pub fn container_stats(&self, filter: Option<cri::ContainerStatsFilter>) -> Vec<cri::ContainerStats> {
        self.container_stats_within(filter, PATIENCE)
    }

    fn container_stats_within(
        &self,
        filter: Option<cri::ContainerStatsFilter>,
        patience: Duration,
    ) -> Vec<cri::ContainerStats> {
        let filter = filter.unwrap_or_default();
        let all: Vec<Arc<Container>> = self.pods.lock().containers.values().cloned().collect();
        let wanted = all.into_iter().filter(|container| {
            (filter.id.is_empty() || filter.id == container.id)
                && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == container.sandbox.record.id)
                && container.phase.borrow().is_running()
                && container
                    .record
                    .lock()
                    .config
                    .as_ref()
                    .is_some_and(|config| selects(&filter.label_selector, &config.labels))
        });
        let wanted: Vec<Arc<Container>> = wanted.collect();
        let written = self.stats.written(&wanted, patience);
        // The files of a sandbox belong to all of its containers: the first is told to have written them.
        let mut sandboxes = BTreeSet::new();
        let stats = wanted.iter().zip(written).map(|(container, written)| {
            let sandbox = &container.sandbox;
            let own = sandboxes.insert(sandbox.record.id.as_str()).then(|| files::usage(&sandbox.directory));
            self.stats_of(container, written.into_iter().chain(own).reduce(disk_usage::Usage::plus))
        });
        stats.collect()
    }

    fn stats_of(&self, container: &Container, written: Option<disk_usage::Usage>) -> cri::ContainerStats {
        let now = self.now();
        let path = self.cgroup_of(container);
        let group = Cgroup::at_host(&path);
        let usage = group.usage();
        let config = container.record.lock().config.clone().unwrap_or_default();
        let limit =
            config.linux.and_then(|linux| linux.resources).map_or(0, |limits| limits.memory_limit_in_bytes);
        let mountpoint = self.settings.directory.to_string_lossy().into_owned();
        cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes {
                id: container.id.clone(),
                metadata: config.metadata,
                labels: config.labels,
                annotations: config.annotations,
            }),
            cpu: Some(self.cpu(&container.id, now, &usage, Some(&group))),
            memory: Some(cri::MemoryUsage {
                psi: pressure(Some(&group), "memory"),
                ..memory(now, &usage, cgroups::memory(&path), limit)
            }),
            writable_layer: Some(cri::FilesystemUsage {
                timestamp: now,
                fs_id: Some(cri::FilesystemIdentifier { mountpoint }),
                used_bytes: written.and_then(|written| value(written.bytes)),
                inodes_used: written.and_then(|written| value(written.inodes)),
            }),
            swap: group.swap().map(|(used, limit)| cri::SwapUsage {
                timestamp: now,
                swap_available_bytes: limit.and_then(|limit| value(limit.saturating_sub(used))),
                swap_usage_bytes: value(used),
            }),
            io: io(Some(&group), now),
        }
    }

    fn sum(&self, sandbox: &str) -> Usage {
        let containers = self.pods.lock().containers_of(sandbox);
        let usages = containers.iter().map(|one| Cgroup::at_host(&self.cgroup_of(one)).usage());
        usages.fold(Usage::default(), |sum, one| Usage {
            cpu_nanos: sum.cpu_nanos + one.cpu_nanos,
            memory: sum.memory + one.memory,
            working_set: sum.working_set + one.working_set,
            processes: sum.processes + one.processes,
        })
    }

    fn cpu(&self, id: &str, now: i64, usage: &Usage, group: Option<&Cgroup>) -> cri::CpuUsage {
        cri::CpuUsage {
            timestamp: now,
            usage_core_nano_seconds: value(usage.cpu_nanos),
            usage_nano_cores: self.stats.rate(id, now, usage.cpu_nanos).and_then(value),
            psi: pressure(group, "cpu"),
        }
    }

    pub fn sandbox_stats(&self, filter: Option<cri::PodSandboxStatsFilter>) -> Vec<cri::PodSandboxStats> {
        let filter = filter.unwrap_or_default();
        let all: Vec<Arc<Sandbox>> = self.pods.lock().sandboxes.values().cloned().collect();
        let wanted = all.into_iter().filter(|sandbox| {
            (filter.id.is_empty() || filter.id == sandbox.record.id)
                && sandbox.state.lock().ready
                && selects(&filter.label_selector, &sandbox.record.config().labels)
        });
        let wanted: Vec<Arc<Sandbox>> = wanted.collect();
        let ids: BTreeSet<&str> = wanted.iter().map(|sandbox| sandbox.record.id.as_str()).collect();
        let containers: Vec<Arc<Container>> = self.pods.lock().containers.values().cloned().collect();
        let is_wanted = |container: &Arc<Container>| {
            container.phase.borrow().is_running() && ids.contains(container.sandbox.record.id.as_str())
        };
        let containers: Vec<Arc<Container>> = containers.into_iter().filter(is_wanted).collect();
        // Waited for once, and not again for each sandbox.
        self.stats.written(&containers, PATIENCE);
        wanted.iter().map(|sandbox| self.stats_of_sandbox(sandbox)).collect()
    }

    fn stats_of_sandbox(&self, sandbox: &Sandbox) -> cri::PodSandboxStats {
        let id = &sandbox.record.id;
        let now = self.now();
        let config = sandbox.record.config();
        let by_sandbox = cri::ContainerStatsFilter { pod_sandbox_id: id.clone(), ..Default::default() };
        let containers = self.container_stats_within(Some(by_sandbox), Duration::ZERO);
        let group = match sandbox.record.cgroup_parent() {
            "" => None,
            parent => Some(Cgroup::at_host(Path::new(parent))),
        };
        // Without a group of its own it is the sum of its containers.
        let usage = group.as_ref().map_or_else(|| self.sum(id), Cgroup::usage);
        let of_group = cgroups::memory(Path::new(sandbox.record.cgroup_parent()));
        cri::PodSandboxStats {
            attributes: Some(cri::PodSandboxAttributes {
                id: id.clone(),
                metadata: config.metadata,
                labels: config.labels,
                annotations: config.annotations,
            }),
            linux: Some(cri::LinuxPodSandboxStats {
                cpu: Some(self.cpu(id, now, &usage, group.as_ref())),
                memory: Some(cri::MemoryUsage {
                    psi: pressure(group.as_ref(), "memory"),
                    ..memory(now, &usage, of_group, 0)
                }),
                network: network(sandbox, now),
                process: Some(cri::ProcessUsage { timestamp: now, process_count: value(usage.processes) }),
                containers,
                io: io(group.as_ref(), now),
            }),
        }
    }
}

/// Of `cpu`, `memory` or `io`, where the kernel counts it.
fn pressure(group: Option<&Cgroup>, resource: &str) -> Option<cri::PsiStats> {
    let pressure = group?.pressure(resource)?;
    let data = |stall: Stall| {
        let Stall { total_micros: total, avg10, avg60, avg300 } = stall;
        Some(cri::PsiData { total, avg10, avg60, avg300 })
    };
    Some(cri::PsiStats { full: data(pressure.full), some: data(pressure.some) })
}

fn io(group: Option<&Cgroup>, now: i64) -> Option<cri::IoUsage> {
    pressure(group, "io").map(|psi| cri::IoUsage { timestamp: now, psi: Some(psi) })
}

fn value(value: u64) -> Option<cri::UInt64Value> {
    Some(cri::UInt64Value { value })
}

fn memory(now: i64, usage: &Usage, more: Memory, limit: i64) -> cri::MemoryUsage {
    let available = u64::try_from(limit).ok().filter(|limit| *limit > 0);
    cri::MemoryUsage {
        timestamp: now,
        working_set_bytes: value(usage.working_set),
        available_bytes: available.map(|limit| limit.saturating_sub(usage.working_set)).and_then(value),
        usage_bytes: value(usage.memory),
        rss_bytes: value(more.resident),
        page_faults: value(more.faults),
        major_page_faults: value(more.major_faults),
        psi: None,
    }
}

/// The interfaces of a pod's own network.
fn network(sandbox: &Sandbox, now: i64) -> Option<cri::NetworkUsage> {
    if sandbox.record.namespaces().network() == cri::NamespaceMode::Node {
        return None;
    }
    let pid = sandbox.state.lock().pid;
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    let mut interfaces = interfaces(&text);
    let at = interfaces.iter().position(|one| one.name == network::node::INSIDE)?;
    Some(cri::NetworkUsage { timestamp: now, default_interface: Some(interfaces.remove(at)), interfaces })
}

/// Of `/proc/net/dev`, the loopback left out.
fn interfaces(text: &str) -> Vec<cri::NetworkInterfaceUsage> {
    let read = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
        let at = |at: usize| counts.get(at).copied().and_then(value);
        Some(cri::NetworkInterfaceUsage {
            name: name.trim().to_owned(),
            rx_bytes: at(0),
            rx_errors: at(2),
            tx_bytes: at(8),
            tx_errors: at(10),
        })
    };
    text.lines().filter_map(read).filter(|one| one.name != "lo").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes ...\n    \
                    lo:    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0: 100 1 2 0 0 0 0 0 200 3 4 0 0 0 0 0\n";
        let all = interfaces(text);
        let shown: Vec<_> = all
            .iter()
            .map(|one| {
                (
                    &*one.name,
                    [&one.rx_bytes, &one.rx_errors, &one.tx_bytes, &one.tx_errors]
                        .map(|one| one.as_ref().unwrap().value),
                )
            })
            .collect();
        assert_eq!(shown, [("eth0", [100, 2, 200, 4])]);
    }

    #[test]
    fn the_rate_is_what_was_used_since() {
        let cache = Cache::default();
        assert_eq!(cache.rate("a", 1_000_000_000, 5), None);
        assert_eq!(cache.rate("a", 3_000_000_000, 1_000_000_005), Some(500_000_000));
        assert_eq!(cache.rate("a", 3_000_000_000, 1_000_000_005), None);
    }
}
