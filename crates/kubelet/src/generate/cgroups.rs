//! Makes, updates and removes the groups of [`super::groups`] on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use container::cgroup::{Cgroup, ROOT, Version};
use container::config::Resources;
use object::Value;
use runtime::Severity;

use crate::config::Config;
use crate::generate::NodeView;
use crate::generate::groups::{
    GroupResources, class_group, groups, node_groups, pod_group, pod_uid, root_group, shares_of_weight,
    weight_of_shares,
};
use crate::generate::resources::hugepage_name;
use crate::generate::{About, Event};

/// More groups are not removed at once: containers may make as many of their own as they like.
const MAX_GROUPS: usize = 10_000;

/// The groups of one agent.
#[derive(Clone, Debug)]
pub struct PodCgroups {
    /// Where the hierarchies are.
    root: PathBuf,
    config: Config,
}

/// What a pod's group has; `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodGroup {
    pub memory_usage: i64,
    pub memory_limit: Option<i64>,
    pub cpu_quota: Option<i64>,
    pub cpu_period: Option<u64>,
    pub cpu_share: Option<CpuShare>,
}

/// A group's part of the processors, as the version of the machine's groups counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuShare {
    Shares(u64),
    Weight(u64),
}

impl CpuShare {
    fn is_of(self, shares: u64) -> bool {
        match self {
            CpuShare::Shares(own) => own == shares,
            CpuShare::Weight(weight) => weight == weight_of_shares(shares),
        }
    }
}

impl PodGroup {
    /// As kubelet reads them: of a weight not the very number that was set.
    pub fn cpu_shares(&self) -> Option<u64> {
        self.cpu_share.map(|share| match share {
            CpuShare::Shares(shares) => shares,
            CpuShare::Weight(weight) => shares_of_weight(weight),
        })
    }

    /// Whether that says anything else than it has.
    pub fn is_changed_by(&self, to: &GroupResources) -> bool {
        let share = |shares: u64| !self.cpu_share.is_some_and(|own| own.is_of(shares));
        to.cpu_shares.is_some_and(share)
            || asked(to.cpu_quota).is_some_and(|to| limit(to) != self.cpu_quota)
            || asked(to.memory).is_some_and(|to| limit(to) != self.memory_limit)
    }

    /// That was set.
    pub fn set(&mut self, to: &GroupResources) {
        let share = |shares: u64| match self.cpu_share {
            Some(CpuShare::Weight(_)) => CpuShare::Weight(weight_of_shares(shares)),
            _ => CpuShare::Shares(shares),
        };
        self.cpu_share = to.cpu_shares.map(share).or(self.cpu_share);
        self.cpu_period = to.cpu_period.or(self.cpu_period);
        self.cpu_quota = asked(to.cpu_quota).map_or(self.cpu_quota, limit);
        self.memory_limit = asked(to.memory).map_or(self.memory_limit, limit);
    }
}

/// Zero leaves it as it is.
fn asked(to: Option<i64>) -> Option<i64> {
    to.filter(|to| *to != 0)
}

fn limit(to: i64) -> Option<i64> {
    Some(to).filter(|to| *to > 0)
}

impl PodCgroups {
    pub fn new(config: &Config) -> PodCgroups {
        PodCgroups::at(Path::new(ROOT), config)
    }

    /// Of another tree than the host's.
    pub fn at(root: &Path, config: &Config) -> PodCgroups {
        PodCgroups { root: root.to_owned(), config: config.clone() }
    }

    /// Makes what all pods are in, or brings it up to date: when the agent starts. `pods` are those that run already.
    pub fn set_up<'a>(
        &self,
        node: &NodeView<'_>,
        pods: impl IntoIterator<Item = &'a Value>,
    ) -> io::Result<()> {
        for (path, resources) in node_groups(node, pods) {
            let group = self.group(&path);
            group.create()?;
            group.set(&resources.to_resources())?;
        }
        Ok(())
    }

    /// Gives the classes their shares anew: whenever pods came or went. `pods` are all that are not over.
    pub fn update_classes<'a>(
        &self,
        node: &NodeView<'_>,
        pods: impl IntoIterator<Item = &'a Value>,
    ) -> io::Result<()> {
        let root = root_group(&self.config);
        for (path, resources) in node_groups(node, pods).into_iter().filter(|(path, _)| *path != root) {
            let Resources { cpu_shares, cpu_weight, .. } = resources.to_resources();
            self.group(&path).set(&Resources { cpu_shares, cpu_weight, ..Resources::default() })?;
        }
        Ok(())
    }

    /// Makes the pod's group if it is not there, and returns its path below the hierarchies.
    pub fn create_pod(&self, pod: &Value, node: &NodeView<'_>) -> io::Result<PathBuf> {
        let path = pod_group(pod, &self.config);
        if self.exists(&path) {
            return Ok(path);
        }
        for (above, resources) in groups(pod, node) {
            if self.exists(&above) {
                continue;
            }
            let group = self.group(&above);
            group.create()?;
            if let Err(error) = group.set(&resources.to_resources()) {
                // The pod runs all the same, with less of a limit.
                tracing::warn!(group = %above.display(), %error, "failed to set the limits of a group");
            }
        }
        Ok(path)
    }

    /// Sets what a pod may use anew, after it was resized.
    pub fn update_pod(&self, pod: &Value, to: &GroupResources) -> io::Result<()> {
        self.group(&pod_group(pod, &self.config)).set(&to.to_resources())
    }

    /// `None`: it has no group, or the machine does not count memory.
    pub fn read_pod(&self, pod: &Value) -> Option<PodGroup> {
        let path = pod_group(pod, &self.config);
        let path = path.strip_prefix("/").unwrap_or(&path);
        let text = |file: &str| std::fs::read_to_string(self.root.join(file)).ok();
        let number = |text: String| text.split_ascii_whitespace().next()?.parse::<i64>().ok();
        let (usage, limit, quota, period, share) = match Version::at(&self.root) {
            Version::V2 => {
                let at = |file: &str| text(&format!("{}/{file}", path.display()));
                let cpu = at("cpu.max");
                let period = cpu.as_deref().and_then(|cpu| cpu.split_once(' ')).map(|(_, of)| of.to_owned());
                (at("memory.current"), at("memory.max"), cpu, period, at("cpu.weight"))
            }
            Version::V1 => {
                let at = |tree: &str, file: &str| text(&format!("{tree}/{}/{file}", path.display()));
                (
                    at("memory", "memory.usage_in_bytes"),
                    at("memory", "memory.limit_in_bytes"),
                    at("cpu", "cpu.cfs_quota_us"),
                    at("cpu", "cpu.cfs_period_us"),
                    at("cpu", "cpu.shares"),
                )
            }
        };
        let share_of = match Version::at(&self.root) {
            Version::V2 => CpuShare::Weight,
            Version::V1 => CpuShare::Shares,
        };
        let positive = |text: String| number(text).and_then(|number| u64::try_from(number).ok());
        Some(PodGroup {
            memory_usage: number(usage?)?,
            // Without one, version 1 has a number of its own for it.
            memory_limit: limit.and_then(number).filter(|limit| *limit < 1 << 62),
            cpu_quota: quota.and_then(number).filter(|quota| *quota > 0),
            cpu_period: period.and_then(positive),
            cpu_share: share.and_then(positive).map(share_of),
        })
    }

    /// Ends what still runs in a pod's group and removes it with all below. While processes are going it fails: ask again.
    pub fn remove_pod(&self, path: &Path) -> io::Result<()> {
        let below = self.below(path);
        for path in &below {
            let group = self.group(path);
            if !group.processes().is_empty() {
                group.kill();
            }
        }
        below.iter().try_for_each(|path| self.group(path).remove())
    }

    /// Removes everything of this agent; for a reset.
    pub fn remove_all(&self) -> io::Result<()> {
        self.remove_pod(&root_group(&self.config))
    }

    /// The pods that have a group, by uid: also those that nobody knows any more.
    pub fn pods(&self) -> BTreeMap<String, PathBuf> {
        let mut all = BTreeMap::new();
        for class in ["Guaranteed", "Burstable", "BestEffort"] {
            let class = class_group(&self.config, class);
            for name in self.children(&class) {
                if let Some(uid) = pod_uid(&name) {
                    all.insert(uid.to_owned(), class.join(&name));
                }
            }
        }
        all
    }

    fn group(&self, path: &Path) -> Cgroup {
        Cgroup::at(&self.root, path)
    }

    /// A group and all below it, the lowest first.
    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let mut all = vec![path.to_owned()];
        let mut next = 0;
        while let Some(at) = all.get(next).filter(|_| all.len() < MAX_GROUPS).cloned() {
            all.extend(self.children(&at).into_iter().map(|name| at.join(name)));
            next += 1;
        }
        all.reverse();
        all
    }

    /// In all hierarchies that limit something: one that lacks it does not have the whole group.
    fn exists(&self, path: &Path) -> bool {
        let directories = self.directories(path);
        !directories.is_empty() && directories.iter().all(|directory| directory.is_dir())
    }

    /// In any hierarchy.
    fn children(&self, path: &Path) -> BTreeSet<String> {
        let entries =
            self.directories(path).into_iter().filter_map(|at| std::fs::read_dir(at).ok()).flatten();
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn directories(&self, path: &Path) -> Vec<PathBuf> {
        let path = path.strip_prefix("/").unwrap_or(path);
        match Version::at(&self.root) {
            Version::V2 => vec![self.root.join(path)],
            Version::V1 => {
                let controllers = ["cpu", "memory", "pids"].map(|name| self.root.join(name));
                controllers.into_iter().filter(|at| at.is_dir()).map(|at| at.join(path)).collect()
            }
        }
    }
}

/// What to tell of [`PodCgroups::set_up`]; after a failure it is tried again a minute later.
pub fn enforcement_event(config: &Config, outcome: &io::Result<()>) -> Event {
    match outcome {
        Ok(()) => Event {
            about: About::Node,
            severity: Severity::Normal,
            reason: "NodeAllocatableEnforced",
            message: "Updated Node Allocatable limit across pods".to_owned(),
        },
        Err(error) => {
            let root = root_group(config);
            let parts = root.iter().skip(1).map(|part| object::quote(&part.to_string_lossy()));
            let name = parts.collect::<Vec<_>>().join(" ");
            let message = format!("Failed to update Node Allocatable Limits [{name}]: {error}");
            Event::warning(About::Node, "FailedNodeAllocatableEnforcement", message)
        }
    }
}

/// The sizes of huge pages this machine has, as cgroups name them.
pub fn hugepage_sizes() -> Vec<String> {
    hugepage_sizes_at(Path::new("/sys/kernel/mm/hugepages"))
}

fn hugepage_sizes_at(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let kibibytes = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<i64>().ok();
    let size = |entry: std::fs::DirEntry| kibibytes(entry.file_name().to_str()?);
    let mut sizes: Vec<i64> = entries.filter_map(size).collect();
    sizes.sort_unstable();
    sizes.into_iter().filter_map(|size| hugepage_name(size.checked_mul(1024)?)).collect()
}

/// Whether swap is counted, and so can be kept from containers. `root` is `/`, or a tree like it.
pub fn counts_swap(root: &Path, v2: bool) -> bool {
    if !v2 {
        return root.join("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists();
    }
    // The root group has no such file: that of this process tells.
    let own = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or("");
    let groups = root.join("sys/fs/cgroup");
    if !own.is_empty() {
        return groups.join(own).join("memory.swap.max").exists();
    }
    // Differs from kubelet, which then lets containers swap: without systemd this process is in the root group itself.
    let below = std::fs::read_dir(groups).into_iter().flatten().flatten();
    below.into_iter().any(|group| group.path().join("memory.swap.max").exists())
}

/// Files of this machine that would tell a container how warm its neighbours are: hidden from all.
pub fn masked_paths() -> Vec<String> {
    let root = Path::new("/sys/devices/system/cpu");
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let of_processor = |name: &str| name.strip_prefix("cpu")?.parse::<u32>().ok();
    let mut processors: Vec<u32> =
        entries.filter_map(|entry| of_processor(entry.file_name().to_str()?)).collect();
    processors.sort_unstable();
    let paths = processors.into_iter().map(|number| root.join(format!("cpu{number}/thermal_throttle")));
    paths.filter(|path| path.exists()).map(|path| path.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests;
