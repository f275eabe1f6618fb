//! Requests and limits in the kernel's numbers, for containers and sandboxes.

use std::collections::BTreeMap;

use object::Value;
use object::quantity::Quantity;

use crate::generate::NodeView;
use crate::generate::oom::{is_critical, oom_score_adj};
use crate::generate::read::{present, qos_class};
use crate::generate::resources::{
    Overhead, amount, amount_of_pod, amounts, has_pod_level, hugepage_bytes, hugepage_name, milli,
    pod_limits, pod_requests,
};

pub const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
const MIN_QUOTA_MICROS: i64 = 1000;

/// The share of a processor that is asked for, in the kernel's unit of 1024 a processor.
pub fn shares_of_milli(milli: i64) -> u64 {
    let shares = i128::from(milli) * 1024 / 1000;
    u64::try_from(shares).unwrap_or(0).clamp(MIN_SHARES, MAX_SHARES)
}

/// Microseconds of each period; 0: no limit.
pub fn quota_of_milli(milli: i64, period_micros: i64) -> i64 {
    if milli == 0 {
        return 0;
    }
    let quota = i128::from(milli) * i128::from(period_micros) / 1000;
    i64::try_from(quota).unwrap_or(i64::MAX).max(MIN_QUOTA_MICROS)
}

/// The request that shares were made of, as a status shows it; 0: none.
pub fn milli_of_shares(shares: i64) -> i64 {
    if shares < MIN_SHARES as i64 { 0 } else { shares.saturating_mul(1000).saturating_add(1023) / 1024 }
}

/// The limit that a quota was made of; 0: none.
pub fn milli_of_quota(quota: i64, period_micros: i64) -> i64 {
    if quota < 0 || period_micros <= 0 { 0 } else { quota.saturating_mul(1000) / period_micros }
}

/// What a container gets, at its start and when it is resized.
pub fn container_resources(
    pod: &Value,
    container: &Value,
    node: &NodeView<'_>,
) -> cri::LinuxContainerResources {
    let requested =
        container.at(&["resources", "requests", "cpu"]).map(|_| amount(container, "requests", "cpu"));
    let limit = |name: &str| {
        let own = amount(container, "limits", name);
        if own.is_zero() && (has_pod_level(pod, "requests") || has_pod_level(pod, "limits")) {
            return amount_of_pod(pod, "limits", name);
        }
        own
    };
    let mut resources = linux_resources(requested, limit("cpu"), limit("memory"), node);
    resources.oom_score_adj = oom_score_adj(pod, container, node.memory_capacity);
    resources.hugepage_limits = hugepage_limits(pod, container, node);
    if node.swap_controller {
        if node.cgroup_v2 {
            let swap = swap_limit(pod, container, node);
            resources.unified.insert("memory.swap.max".to_owned(), swap.to_string());
        } else {
            // Memory and swap together: none is left for swap.
            resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
        }
    }
    resources
}

/// By `swapBehavior: LimitedSwap`, on cgroup v2. Not critical pods, nor a container that asks for no memory or for all it may use.
pub fn may_swap(pod: &Value, container: &Value, node: &NodeView<'_>) -> bool {
    node.config.swap_behavior == "LimitedSwap"
        && node.swap_controller
        && node.cgroup_v2
        && !is_critical(pod)
        && qos_class(pod) == "Burstable"
        // Without both they are equal as well.
        && amount(container, "requests", "memory") != amount(container, "limits", "memory")
}

/// Bytes a container may have swapped out: as much of the machine's swap as it asks for of its memory.
fn swap_limit(pod: &Value, container: &Value, node: &NodeView<'_>) -> i64 {
    if !may_swap(pod, container, node) {
        return 0;
    }
    let requested = amount(container, "requests", "memory");
    let (requested, memory) = (requested.as_i64(), node.memory_capacity);
    if memory <= 0 || requested > memory {
        return 0;
    }
    // With a fraction as wide as kubelet's, so that both come to the same bytes.
    (requested as f64 / memory as f64 * node.swap_capacity as f64) as i64
}

/// What all containers of a pod get together, without what the sandbox itself needs.
pub fn sandbox_resources(pod: &Value, node: &NodeView<'_>) -> cri::LinuxContainerResources {
    let requests = pod_requests(pod, Overhead::Excluded);
    let limits = pod_limits(pod, Overhead::Excluded);
    let limit = |name: &str| limits.get(name).copied().unwrap_or(Quantity::ZERO);
    linux_resources(requests.get("cpu").copied(), limit("cpu"), limit("memory"), node)
}

/// What the sandbox itself needs, as its RuntimeClass says: requested and limit at once.
pub fn sandbox_overhead(pod: &Value, node: &NodeView<'_>) -> cri::LinuxContainerResources {
    let Some(overhead) = present(pod, &["spec", "overhead"]) else {
        return cri::LinuxContainerResources::default();
    };
    let overhead = amounts(Some(overhead));
    let of = |name: &str| overhead.get(name).copied().unwrap_or(Quantity::ZERO);
    linux_resources(Some(of("cpu")), of("cpu"), of("memory"), node)
}

/// What is left of a pod's resources without that. No limit stays none.
pub fn without_overhead(
    mut resources: cri::LinuxContainerResources,
    pod: &Value,
) -> cri::LinuxContainerResources {
    let Some(overhead) = present(pod, &["spec", "overhead"]) else { return resources };
    let overhead = amounts(Some(overhead));
    if let Some(milli) = overhead.get("cpu").map(Quantity::as_milli) {
        let shares = milli_of_shares(resources.cpu_shares);
        resources.cpu_shares = shares_of_milli(shares.saturating_sub(milli)) as i64;
        if resources.cpu_quota > 0 {
            resources.cpu_quota -= quota_of_milli(milli, resources.cpu_period);
        }
    }
    if let Some(memory) = overhead.get("memory").filter(|_| resources.memory_limit_in_bytes > 0) {
        resources.memory_limit_in_bytes -= memory.as_i64();
    }
    resources
}

/// What the runtime reports of a container, as `resources` of its status; `None`: nothing.
pub fn reported(resources: &cri::LinuxContainerResources) -> Reported {
    let some = |number: i64| Some(number).filter(|number| *number > 0);
    Reported {
        cpu_request_milli: some(milli_of_shares(resources.cpu_shares)),
        cpu_limit_milli: some(milli_of_quota(resources.cpu_quota, resources.cpu_period)),
        memory_limit: some(resources.memory_limit_in_bytes),
    }
}

/// Requests and limits, from what the runtime says it has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    pub cpu_request_milli: Option<i64>,
    pub cpu_limit_milli: Option<i64>,
    pub memory_limit: Option<i64>,
}

pub(super) fn quota_period_micros(node: &NodeView<'_>) -> i64 {
    i64::try_from(node.config.cpu_cfs_quota_period.as_micros()).unwrap_or(i64::MAX)
}

fn linux_resources(
    cpu_request: Option<Quantity>,
    cpu_limit: Quantity,
    memory_limit: Quantity,
    node: &NodeView<'_>,
) -> cri::LinuxContainerResources {
    let mut resources = cri::LinuxContainerResources {
        // A limit alone is a request as well.
        cpu_shares: shares_of_milli(cpu_request.unwrap_or(cpu_limit).as_milli()) as i64,
        memory_limit_in_bytes: memory_limit.as_i64(),
        ..Default::default()
    };
    if node.config.cpu_cfs_quota {
        resources.cpu_period = quota_period_micros(node);
        resources.cpu_quota = quota_of_milli(cpu_limit.as_milli(), resources.cpu_period);
    }
    if node.cgroup_v2 && !node.config.single_process_oom_kill {
        // Out of memory, a container ends as a whole.
        resources.unified.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    resources
}

/// Each size the machine has; what is not asked for may not be used at all.
fn hugepage_limits(pod: &Value, container: &Value, node: &NodeView<'_>) -> Vec<cri::HugepageLimit> {
    let mut asked = BTreeMap::new();
    // The container's own come last and win.
    for limits in [pod.at(&["spec", "resources", "limits"]), container.at(&["resources", "limits"])] {
        for (name, limit) in amounts(limits) {
            if let Some(size) = hugepage_bytes(&name).and_then(hugepage_name) {
                asked.insert(size, u64::try_from(limit.as_i64()).unwrap_or(0));
            }
        }
    }
    let limit = |size: &String| cri::HugepageLimit {
        page_size: size.clone(),
        limit: asked.get(size).copied().unwrap_or(0),
    };
    node.hugepage_sizes.iter().map(limit).collect()
}

/// The processors a pod asks for, of a sum of requests.
pub(super) fn requested_milli(pod: &Value) -> i64 {
    milli(&pod_requests(pod, Overhead::Included), "cpu").unwrap_or(0)
}

#[cfg(test)]
mod tests;
