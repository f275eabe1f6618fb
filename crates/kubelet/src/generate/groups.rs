//! The cgroups of a node's pods: one for all, one for each lower class, one for each pod.
//!
//! ```text
//!  cgroup_root/kubepods ─┬─ podUID            Guaranteed
//!                        ├─ burstable/podUID
//!                        └─ besteffort/podUID
//! ```
//! The agent makes these; the runtime makes those of the containers below them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use container::config::Resources;
use object::Value;
use object::quantity::{Format, Quantity};

use crate::config::Config;
use crate::generate::NodeView;
use crate::generate::limits::{
    MIN_SHARES, quota_of_milli, quota_period_micros, requested_milli, shares_of_milli,
};
use crate::generate::read::{qos_class, text};
use crate::generate::resources::{
    Amounts, Overhead, add, all_limited, bytes, hugepage_bytes, hugepage_name, milli, pod_limits,
    pod_requests,
};

/// Pages of every size are counted by pods, not by their classes.
const UNBOUNDED: i64 = 1 << 62;
const POD_PREFIX: &str = "pod";

/// What a group may use; `None`: nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupResources {
    pub cpu_shares: Option<u64>,
    /// Microseconds of each period; 0 or less: all.
    pub cpu_quota: Option<i64>,
    pub cpu_period: Option<u64>,
    pub memory: Option<i64>,
    pub pids: Option<i64>,
    /// By the kernel's name of their size, in bytes: every size the machine has.
    pub hugepages: BTreeMap<String, i64>,
}

impl GroupResources {
    /// For a group's files. What is zero was not asked for, and is left as it is.
    pub fn to_resources(&self) -> Resources {
        Resources {
            cpu_shares: self.cpu_shares,
            cpu_weight: self.cpu_shares.map(weight_of_shares),
            cpu_quota: self.cpu_quota.filter(|quota| *quota != 0),
            cpu_period: self.cpu_period,
            memory: self.memory.filter(|memory| *memory != 0),
            pids: self.pids.filter(|pids| *pids > 0),
            hugepages: self
                .hugepages
                .iter()
                .map(|(size, bytes)| (size.clone(), u64::try_from(*bytes).unwrap_or(0)))
                .collect(),
            // Swap is kept from containers, each by its own group.
            memory_and_swap: self.memory.filter(|memory| *memory != 0).map(|_| -1),
            ..Resources::default()
        }
    }
}

/// Differs from what runc makes of a container's shares: kubelet has a line of its own, from 2 and 1 to 262144 and 10000.
pub(super) fn weight_of_shares(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

/// And back, which is not the very number.
pub(super) fn shares_of_weight(weight: u64) -> u64 {
    (weight.clamp(1, 10_000) - 1) * 262_142 / 9999 + 2
}

/// `kubepods` below the configured root.
pub fn root_group(config: &Config) -> PathBuf {
    Path::new("/").join(config.cgroup_root.trim_start_matches('/')).join("kubepods")
}

/// The group of a class.
pub fn class_group(config: &Config, class: &str) -> PathBuf {
    match class {
        "Burstable" => root_group(config).join("burstable"),
        "BestEffort" => root_group(config).join("besteffort"),
        _ => root_group(config),
    }
}

pub fn pod_group(pod: &Value, config: &Config) -> PathBuf {
    class_group(config, qos_class(pod)).join(format!("{POD_PREFIX}{}", text(pod, &["metadata", "uid"])))
}

/// The uid in the name of a pod's group.
pub fn pod_uid(name: &str) -> Option<&str> {
    name.strip_prefix(POD_PREFIX).filter(|uid| !uid.is_empty())
}

/// All that a pod needs before its sandbox is made, from the root on; those above are there already as a rule.
pub fn groups(pod: &Value, node: &NodeView<'_>) -> Vec<(PathBuf, GroupResources)> {
    let mut all = node_groups(node, [pod]);
    let class = class_group(node.config, qos_class(pod));
    all.retain(|(path, _)| class.starts_with(path));
    all.push((pod_group(pod, node.config), pod_resources(pod, node)));
    all
}

/// The group of all pods and those of the classes, for these pods.
pub fn node_groups<'a>(
    node: &NodeView<'_>,
    pods: impl IntoIterator<Item = &'a Value>,
) -> Vec<(PathBuf, GroupResources)> {
    let burstable = pods.into_iter().filter(|pod| qos_class(pod) == "Burstable");
    let requested = burstable.map(requested_milli).fold(0, i64::saturating_add);
    let hugepages: BTreeMap<String, i64> =
        node.hugepage_sizes.iter().map(|size| (size.clone(), UNBOUNDED)).collect();
    let class = |shares: u64| GroupResources {
        cpu_shares: Some(shares),
        hugepages: hugepages.clone(),
        ..GroupResources::default()
    };
    vec![
        (root_group(node.config), GroupResources { hugepages: hugepages.clone(), ..allocatable(node) }),
        (class_group(node.config, "Burstable"), class(shares_of_milli(requested))),
        (class_group(node.config, "BestEffort"), class(MIN_SHARES)),
    ]
}

/// What a pod may use altogether.
pub fn pod_resources(pod: &Value, node: &NodeView<'_>) -> GroupResources {
    let requests = pod_requests(pod, Overhead::Included);
    let limits = pod_limits(pod, Overhead::Included);
    let period = quota_period_micros(node);
    let quota = match node.config.cpu_cfs_quota {
        true => quota_of_milli(milli(&limits, "cpu").unwrap_or(0), period),
        false => -1,
    };
    let memory = bytes(&limits, "memory").unwrap_or(0);
    let class = qos_class(pod);
    let guaranteed = class == "Guaranteed";
    // One container that may use everything may do so in the pod, too.
    let limited = |name: &str| guaranteed || class == "Burstable" && all_limited(pod, name);
    let shares = match class {
        "BestEffort" => MIN_SHARES,
        _ => shares_of_milli(milli(&requests, "cpu").unwrap_or(0)),
    };
    GroupResources {
        cpu_shares: Some(shares),
        cpu_quota: limited("cpu").then_some(quota),
        cpu_period: limited("cpu").then_some(u64::try_from(period).unwrap_or(0)),
        memory: limited("memory").then_some(memory),
        pids: Some(node.config.pod_pids_limit).filter(|limit| *limit > 0),
        hugepages: hugepages(&requests, node),
    }
}

/// What is left for pods: the machine without what is reserved for the system and for the agent.
fn allocatable(node: &NodeView<'_>) -> GroupResources {
    let mut reserved = Amounts::new();
    for (name, amount) in node.config.system_reserved.iter().chain(&node.config.kube_reserved) {
        if let Ok(amount) = Quantity::parse(amount) {
            add(&mut reserved, &Amounts::from([(name.clone(), amount)]));
        }
    }
    let left = |name: &str, capacity: Quantity| {
        let kept = reserved.get(name).copied().unwrap_or(Quantity::ZERO);
        let left = capacity - kept;
        if left.sign() < 0 { Quantity::ZERO } else { left }
    };
    let cpu = left("cpu", Quantity::from_milli(node.cpu_capacity_milli, Format::DecimalSi));
    let memory = left("memory", Quantity::from_i64(node.memory_capacity, Format::BinarySi));
    let pids = left("pid", Quantity::from_i64(node.pid_capacity, Format::DecimalSi));
    GroupResources {
        cpu_shares: Some(shares_of_milli(cpu.as_milli())),
        memory: Some(memory.as_i64()).filter(|_| node.memory_capacity > 0),
        pids: Some(pids.as_i64()).filter(|_| node.pid_capacity > 0),
        ..GroupResources::default()
    }
}

/// Each size of the machine; none of those that are not asked for.
fn hugepages(requests: &Amounts, node: &NodeView<'_>) -> BTreeMap<String, i64> {
    let mut all: BTreeMap<String, i64> = node.hugepage_sizes.iter().map(|size| (size.clone(), 0)).collect();
    for (name, amount) in requests {
        if let Some(limit) = hugepage_bytes(name).and_then(hugepage_name).and_then(|size| all.get_mut(&size))
        {
            *limit = limit.saturating_add(amount.as_i64());
        }
    }
    all
}

#[cfg(test)]
mod tests;
