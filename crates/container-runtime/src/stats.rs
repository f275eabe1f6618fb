//! What containers and pods use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use container::cgroup::{Cgroup, Pressure, Stall, Usage};
use parking_lot::Mutex;

use crate::Inner;
use crate::cgroups::{self, Memory};
use crate::pods::{Container, Sandbox};
use crate::status::selects;

/// Files of one container that are counted; who has more is counted as having so many.
const MOST_FILES: u64 = 1_000_000;

/// Nanoseconds for which the size of files is believed: looking at all of them is work.
const WRITTEN_FOR: i64 = 10_000_000_000;

/// What was measured last, for what was used since.
#[derive(Default)]
pub struct Cache {
    /// By container or sandbox: when, and the processor time until then, both in nanoseconds. Held for a few instructions.
    last: Mutex<BTreeMap<String, (i64, u64)>>,
    /// By container; held for a few instructions.
    written: Mutex<BTreeMap<String, Written>>,
}

/// What a container wrote to its root.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// When it was counted, in Unix nanoseconds.
    at: i64,
    pub bytes: u64,
    pub files: u64,
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
        self.written.lock().remove(id);
    }

    /// Not older than what containerd would tell.
    pub fn written(&self, container: &Container, now: i64) -> Written {
        let known = self.written.lock().get(&container.id).copied();
        if let Some(known) = known.filter(|known| now.saturating_sub(known.at) < WRITTEN_FOR) {
            return known;
        }
        let written = Written { at: now, ..count(&container.directory) };
        self.written.lock().insert(container.id.clone(), written);
        written
    }
}

impl Inner {
    pub fn container_stats(&self, filter: Option<cri::ContainerStatsFilter>) -> Vec<cri::ContainerStats> {
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
        wanted.map(|container| self.stats_of(&container)).collect()
    }

    fn stats_of(&self, container: &Container) -> cri::ContainerStats {
        let now = self.now();
        let path = self.cgroup_of(container);
        let group = Cgroup::at_host(&path);
        let usage = group.usage();
        let config = container.record.lock().config.clone().unwrap_or_default();
        let limit =
            config.linux.and_then(|linux| linux.resources).map_or(0, |limits| limits.memory_limit_in_bytes);
        let written = self.stats.written(container, now);
        let mountpoint = self.settings.directory.to_string_lossy().into_owned();
        cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes {
                id: container.id.clone(),
                metadata: config.metadata,
                labels: config.labels,
                annotations: config.annotations,
            }),
            cpu: Some(self.cpu(&container.id, now, &usage, &group)),
            memory: Some(memory(now, &usage, cgroups::memory(&path), limit, &group)),
            writable_layer: Some(cri::FilesystemUsage {
                timestamp: now,
                fs_id: Some(cri::FilesystemIdentifier { mountpoint }),
                used_bytes: value(written.bytes),
                inodes_used: value(written.files),
            }),
            swap: swap(now, &group),
            io: io(now, &group),
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

    fn cpu(&self, id: &str, now: i64, usage: &Usage, group: &Cgroup) -> cri::CpuUsage {
        cri::CpuUsage {
            timestamp: now,
            usage_core_nano_seconds: value(usage.cpu_nanos),
            usage_nano_cores: self.stats.rate(id, now, usage.cpu_nanos).and_then(value),
            psi: group.pressure("cpu").map(psi),
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
        wanted.map(|sandbox| self.stats_of_sandbox(&sandbox)).collect()
    }

    fn stats_of_sandbox(&self, sandbox: &Sandbox) -> cri::PodSandboxStats {
        let id = &sandbox.record.id;
        let now = self.now();
        let config = sandbox.record.config();
        let by_sandbox = cri::ContainerStatsFilter { pod_sandbox_id: id.clone(), ..Default::default() };
        let containers = self.container_stats(Some(by_sandbox));
        let parent = Path::new(sandbox.record.cgroup_parent());
        let group = Cgroup::at_host(parent);
        // Without a group of its own it is the sum of its containers.
        let usage = if parent.as_os_str().is_empty() { self.sum(id) } else { group.usage() };
        cri::PodSandboxStats {
            attributes: Some(cri::PodSandboxAttributes {
                id: id.clone(),
                metadata: config.metadata,
                labels: config.labels,
                annotations: config.annotations,
            }),
            linux: Some(cri::LinuxPodSandboxStats {
                cpu: Some(self.cpu(id, now, &usage, &group)),
                memory: Some(memory(now, &usage, cgroups::memory(parent), 0, &group)),
                network: network(sandbox, now),
                process: Some(cri::ProcessUsage { timestamp: now, process_count: value(usage.processes) }),
                containers,
                io: io(now, &group),
            }),
        }
    }
}

fn value(value: u64) -> Option<cri::UInt64Value> {
    Some(cri::UInt64Value { value })
}

fn swap(now: i64, group: &Cgroup) -> Option<cri::SwapUsage> {
    let (used, limit) = group.swap()?;
    Some(cri::SwapUsage {
        timestamp: now,
        swap_available_bytes: limit.map(|limit| limit.saturating_sub(used)).and_then(value),
        swap_usage_bytes: value(used),
    })
}

fn io(now: i64, group: &Cgroup) -> Option<cri::IoUsage> {
    Some(cri::IoUsage { timestamp: now, psi: Some(psi(group.pressure("io")?)) })
}

/// Totals stay the kernel's microseconds, as kubelet tells them.
fn psi(of: Pressure) -> cri::PsiStats {
    let data = |of: Stall| {
        Some(cri::PsiData { total: of.total_micros, avg10: of.avg10, avg60: of.avg60, avg300: of.avg300 })
    };
    cri::PsiStats { full: data(of.full), some: data(of.some) }
}

fn memory(now: i64, usage: &Usage, more: Memory, limit: i64, group: &Cgroup) -> cri::MemoryUsage {
    let available = u64::try_from(limit).ok().filter(|limit| *limit > 0);
    cri::MemoryUsage {
        timestamp: now,
        working_set_bytes: value(usage.working_set),
        available_bytes: available.map(|limit| limit.saturating_sub(usage.working_set)).and_then(value),
        usage_bytes: value(usage.memory),
        rss_bytes: value(more.resident),
        page_faults: value(more.faults),
        major_page_faults: value(more.major_faults),
        psi: group.pressure("memory").map(psi),
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

fn count(directory: &Path) -> Written {
    use std::os::unix::fs::MetadataExt;
    let mut sum = Written::default();
    let mut open = vec![directory.join("upper")];
    while let Some(directory) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            sum.bytes += metadata.blocks() * 512;
            sum.files += 1;
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
        if sum.files > MOST_FILES {
            break;
        }
    }
    sum
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
