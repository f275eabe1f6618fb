//! What a pod and its containers may use, set anew while they run.

use std::sync::Arc;

use node::pod::{Container, Pod, Role};
use object::Value;

use super::{PodTask, Shared};
use crate::blocking::block;
use crate::generate::NodeView;
use crate::generate::cgroups::{PodCgroups, PodGroup};
use crate::generate::groups::{GroupResources, pod_resources};
use crate::generate::limits::{may_swap, sandbox_overhead, without_overhead};
use crate::generate::resources::amount;

/// A container that is to be given something else.
struct Change {
    name: String,
    id: String,
    resources: cri::LinuxContainerResources,
    /// It gets a memory limit, or a lower one.
    lowers_memory: bool,
}

/// Gives the running containers what the pod says. `Err`: why that was not possible; what failed is tried again.
///
/// The group of the pod is never below what its containers may use: the kernel may refuse that. So it grows before them and shrinks
/// after them; where one gets less by a restart, when that begins.
pub async fn resize(shared: &Arc<Shared>, task: &Arc<PodTask>, tree: &Arc<Value>) -> Result<(), String> {
    let (changes, restarts) = changes(shared, task, tree);
    if changes.is_empty() && !task.cache.lock().resize_group {
        return Ok(());
    }
    let (wanted, mut now) = group_of(shared, tree).await;
    check_memory(shared, task, &changes, &wanted, now.as_ref()).await?;
    let raised = raised(&wanted, now.as_ref());
    set_group(shared, task, tree, &wanted, raised, &mut now).await?;
    let mut failed = Vec::new();
    for Change { name, id, resources, .. } in changes {
        let request = cri::UpdateContainerResourcesRequest {
            container_id: id,
            linux: Some(resources.clone()),
            ..cri::UpdateContainerResourcesRequest::default()
        };
        match shared.parts.cri.update_container_resources(request).await {
            Ok(_) => task.cache.lock().slot(&name).resources = Some(resources),
            Err(error) => failed.push(error.message),
        }
    }
    if !failed.is_empty() {
        return Err(failed.join(", "));
    }
    if restarts {
        return Ok(());
    }
    set_group(shared, task, tree, &wanted, wanted.clone(), &mut now).await?;
    task.cache.lock().resize_group = false;
    Ok(())
}

/// Why that is not to be had while the pod runs, as kubelet puts it: how much of a container may be swapped out follows from the
/// memory it asks for, and stays what it was at its start.
pub fn infeasible(node: &NodeView<'_>, pod: &Pod<'_>, given: &Pod<'_>) -> Option<String> {
    let is_swapped = |container: &Container<'_>| {
        let had = given.containers.iter().find(|had| had.name == container.name);
        had.filter(|_| container.role != Role::Ephemeral).is_some_and(|had| {
            amount(container.spec, "requests", "memory") != amount(had.spec, "requests", "memory")
                && policy(container.spec, "memory") != Some("RestartContainer")
                && (may_swap(pod.tree, container.spec, node) || may_swap(given.tree, had.spec, node))
        })
    };
    let infeasible = pod.containers.iter().any(is_swapped);
    infeasible.then(|| "In-place resize of containers with swap is not supported.".to_owned())
}

/// What a container says is to be done when it is given more or less of something.
fn policy<'a>(spec: &'a Value, resource: &str) -> Option<&'a str> {
    let policies = spec.get("resizePolicy").and_then(Value::as_list).unwrap_or_default();
    policies.iter().find(|p| p.str_at(&["resourceName"]) == Some(resource))?.str_at(&["restartPolicy"])
}

/// The rest of a resize, before a container starts with its part of it.
pub async fn before_start(shared: &Arc<Shared>, task: &Arc<PodTask>, tree: &Arc<Value>) {
    if !task.cache.lock().resize_group {
        return;
    }
    let (wanted, mut now) = group_of(shared, tree).await;
    match set_group(shared, task, tree, &wanted, wanted.clone(), &mut now).await {
        Ok(()) => task.cache.lock().resize_group = false,
        // Another container has more until it is restarted as well.
        Err(error) => tracing::debug!(pod = task.key.as_str(), error, "the pod cannot be limited yet"),
    }
}

/// What the group of the pod is to have, and what it has.
async fn group_of(shared: &Arc<Shared>, tree: &Arc<Value>) -> (GroupResources, Option<PodGroup>) {
    let (for_group, pod) = (shared.clone(), tree.clone());
    let read = block(move || PodCgroups::new(&for_group.parts.config).read_pod(&pod));
    (pod_resources(tree, &shared.node_view(&shared.moment())), read.await.ok().flatten())
}

/// Only what is more than now.
fn raised(wanted: &GroupResources, now: Option<&PodGroup>) -> GroupResources {
    let more = |wanted: Option<i64>, now: Option<i64>| {
        wanted.filter(|wanted| now.is_some_and(|now| *wanted <= 0 || *wanted > now))
    };
    GroupResources {
        cpu_quota: more(wanted.cpu_quota, now.and_then(|now| now.cpu_quota)),
        cpu_period: wanted.cpu_period,
        memory: more(wanted.memory, now.and_then(|now| now.memory_limit)),
        ..GroupResources::default()
    }
}

/// No limit may come to be below what is used: as kubelet, this is looked at before anything is changed.
async fn check_memory(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    changes: &[Change],
    wanted: &GroupResources,
    now: Option<&PodGroup>,
) -> Result<(), String> {
    let mut wrong = Vec::new();
    if let (Some(wanted), Some(now)) = (wanted.memory.filter(|wanted| *wanted > 0), now) {
        let (usage, lower) = (now.memory_usage, now.memory_limit.is_none_or(|limit| wanted < limit));
        if lower && usage >= wanted {
            wrong
                .push(format!("attempting to set pod memory limit ({wanted}) below current usage ({usage})"));
        }
    }
    let lower: Vec<&Change> = changes.iter().filter(|change| change.lowers_memory).collect();
    if let Some(sandbox) = task.sandbox().filter(|_| !lower.is_empty()) {
        let filter = cri::ContainerStatsFilter { pod_sandbox_id: sandbox.id, ..Default::default() };
        let request = cri::ListContainerStatsRequest { filter: Some(filter) };
        let answer = shared.parts.cri.list_container_stats(request).await;
        let stats = answer.map_err(|error| format!("unable to read memory usage: {error}"))?.stats;
        let usage_of = |id: &str| {
            let of = stats.iter().find(|of| of.attributes.as_ref().is_some_and(|a| a.id == id))?;
            of.memory.as_ref()?.usage_bytes.as_ref().map(|usage| usage.value)
        };
        for Change { name, id, resources, .. } in lower {
            let wanted = resources.memory_limit_in_bytes;
            match usage_of(id) {
                None => wrong.push(format!("missing container {name:?} memory usage")),
                Some(usage) if usage >= wanted.unsigned_abs() => wrong.push(format!(
                    "attempting to set container {name:?} memory limit ({wanted}) below current usage ({usage})"
                )),
                Some(_) => {}
            }
        }
    }
    match &*wrong {
        [] => Ok(()),
        [one] => Err(format!("cannot decrease memory limits: {one}")),
        all => Err(format!("cannot decrease memory limits: [{}]", all.join(", "))),
    }
}

/// And whether there are containers that get something else by a restart. That is noted for each run that this process made: it may
/// have begun when less, or more, was given than by now.
fn changes(shared: &Shared, task: &PodTask, tree: &Value) -> (Vec<Change>, bool) {
    let (mut changes, mut restarts) = (Vec::new(), false);
    for container in &Pod::read(tree).containers {
        let resources = shared.resources(tree, container.spec);
        let mut cache = task.cache.lock();
        let Some(slot) = cache.containers.get_mut(container.name) else { continue };
        slot.restart_for = None;
        let Some(run) = slot.run.as_ref().filter(|run| run.is_running()) else { continue };
        // `None`: this process did not start it, so what it has is not known.
        let before = slot.resources.as_ref();
        if before == Some(&resources) {
            continue;
        }
        if before.is_some_and(|before| by_restart(container.spec, before, &resources)) {
            restarts = true;
            // Of the others, only the runtime's word is there to go by.
            slot.restart_for = slot.own.clone().filter(|own| *own == run.id);
            continue;
        }
        let limit = resources.memory_limit_in_bytes;
        let lowers_memory = before.is_some_and(|before| {
            let before = before.memory_limit_in_bytes;
            limit > 0 && (before <= 0 || limit < before)
        });
        let (name, id) = (container.name.to_owned(), run.id.clone());
        changes.push(Change { name, id, resources, lowers_memory });
    }
    (changes, restarts)
}

/// The container gets it when it is restarted, which the agent sees to.
fn by_restart(
    spec: &Value,
    before: &cri::LinuxContainerResources,
    after: &cri::LinuxContainerResources,
) -> bool {
    let by_restart = |resource: &str| policy(spec, resource) == Some("RestartContainer");
    let memory = |of: &cri::LinuxContainerResources| of.memory_limit_in_bytes;
    let cpu = |of: &cri::LinuxContainerResources| (of.cpu_shares, of.cpu_quota);
    by_restart("memory") && memory(before) != memory(after) || by_restart("cpu") && cpu(before) != cpu(after)
}

/// Sets `to`, on the way to all that is wanted. The runtime is told first what changes, and may refuse.
async fn set_group(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    pod: &Arc<Value>,
    wanted: &GroupResources,
    to: GroupResources,
    now: &mut Option<PodGroup>,
) -> Result<(), String> {
    let changes = match &*now {
        Some(now) => now.is_changed_by(&to),
        None => to.cpu_shares.is_some() || to.cpu_quota.is_some() || to.memory.is_some(),
    };
    let tell = async |to: Option<&GroupResources>, now: Option<&PodGroup>| {
        tell_runtime(shared, task, pod, linux_resources(to, wanted, now)).await
    };
    if changes {
        let told = tell(Some(&to), now.as_ref()).await;
        told.map_err(|error| format!("the runtime rejects the resize: {error}"))?;
    }
    let (for_group, of, resources) = (shared.clone(), pod.clone(), to.clone());
    let set = block(move || PodCgroups::new(&for_group.parts.config).update_pod(&of, &resources));
    let Ok(Err(error)) = set.await else {
        if let Some(now) = now {
            now.set(&to);
        }
        return Ok(());
    };
    if changes && let Err(error) = tell(None, now.as_ref()).await {
        tracing::warn!(pod = task.key.as_str(), error, "the runtime does not take back a pod's resources");
    }
    Err(format!("failed to set the limits of the pod: {error}"))
}

/// All that the pod will have: what `to` does not say stays as it is, and is otherwise what is wanted. No limit is -1.
fn linux_resources(
    to: Option<&GroupResources>,
    wanted: &GroupResources,
    now: Option<&PodGroup>,
) -> cri::LinuxContainerResources {
    let limit = |to: Option<i64>, of: fn(&PodGroup) -> Option<i64>| {
        let stays = || now.map_or(0, |now| of(now).unwrap_or(-1));
        to.filter(|to| *to != 0).unwrap_or_else(stays)
    };
    let number = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok()).unwrap_or(0);
    let shares = to.and_then(|to| to.cpu_shares).or(now.and_then(PodGroup::cpu_shares));
    let period = to.and_then(|to| to.cpu_period).or(now.and_then(|now| now.cpu_period));
    cri::LinuxContainerResources {
        cpu_shares: number(shares.or(wanted.cpu_shares)),
        cpu_period: number(period.or(wanted.cpu_period)),
        cpu_quota: limit(to.and_then(|to| to.cpu_quota), |now| now.cpu_quota),
        memory_limit_in_bytes: limit(to.and_then(|to| to.memory), |now| now.memory_limit),
        ..Default::default()
    }
}

/// Runtimes need not know of it.
async fn tell_runtime(
    shared: &Shared,
    task: &PodTask,
    pod: &Value,
    resources: cri::LinuxContainerResources,
) -> Result<(), String> {
    let Some(sandbox) = task.sandbox() else { return Ok(()) };
    let overhead = sandbox_overhead(pod, &shared.node_view(&shared.moment()));
    let request = cri::UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: sandbox.id,
        overhead: Some(overhead),
        resources: Some(without_overhead(resources, pod)),
    };
    match shared.parts.cri.update_pod_sandbox_resources(request).await {
        Err(error) if !is_unknown_call(&error) => Err(error.message),
        _ => Ok(()),
    }
}

/// containerd 2.2 says so with another code.
fn is_unknown_call(error: &cri::Error) -> bool {
    error.code == cri::Code::Unimplemented
        || error.code == cri::Code::Unknown && error.message.contains("not implemented")
}

#[cfg(test)]
mod tests;
