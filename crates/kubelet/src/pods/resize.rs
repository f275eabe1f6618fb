//! What a pod and its containers may use, set anew while they run.

use std::sync::Arc;

use node::pod::Pod;
use object::Value;

use super::{PodTask, Shared};
use crate::blocking::block;
use crate::generate::cgroups::PodCgroups;
use crate::generate::groups::pod_resources;

/// A container that is to be given something else.
struct Change {
    name: String,
    id: String,
    resources: cri::LinuxContainerResources,
    /// By how much its memory limit grows; 0 where either is without.
    memory: i64,
    /// It gets a memory limit, or a lower one.
    lowers_memory: bool,
}

/// Gives the running containers what the pod says. `Err`: why that was not possible; what failed is tried again.
pub async fn resize(shared: &Arc<Shared>, task: &Arc<PodTask>, tree: &Arc<Value>) -> Result<(), String> {
    let changes = changes(shared, task, tree);
    let of_pod = tree.at(&["spec", "resources"]).cloned();
    if changes.is_empty() && task.cache.lock().pod_resources == of_pod {
        return Ok(());
    }
    check_memory(shared, task, tree, &changes).await?;
    task.cache.lock().pod_resources = of_pod;
    // The pod's own limit is never below what its containers may use.
    let grows = changes.iter().map(|change| change.memory).sum::<i64>() >= 0;
    if grows {
        limit_pod(shared, tree).await?;
    }
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
    if grows { Ok(()) } else { limit_pod(shared, tree).await }
}

/// No limit may come to be below what is used: as kubelet, this is looked at before anything is changed.
async fn check_memory(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    tree: &Arc<Value>,
    changes: &[Change],
) -> Result<(), String> {
    let mut wrong = Vec::new();
    let (for_group, pod) = (shared.clone(), tree.clone());
    let of_pod = block(move || {
        let node = for_group.node.lock().clone();
        let wanted = pod_resources(&pod, &for_group.node_view(&node)).memory.filter(|wanted| *wanted > 0)?;
        let memory = PodCgroups::new(&for_group.parts.config).memory_of_pod(&pod)?;
        (memory.limit.is_none_or(|limit| wanted < limit)).then_some((wanted, memory.usage))
    });
    if let Some((wanted, usage)) = of_pod.await.ok().flatten()
        && usage >= wanted
    {
        wrong.push(format!("attempting to set pod memory limit ({wanted}) below current usage ({usage})"));
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

fn changes(shared: &Shared, task: &PodTask, tree: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    for container in &Pod::read(tree).containers {
        let resources = shared.resources(tree, container.spec);
        let cache = task.cache.lock();
        let Some(slot) = cache.containers.get(container.name) else { continue };
        let Some(run) = slot.run.as_ref().filter(|run| run.is_running()) else { continue };
        // `None`: this process did not start it, so what it has is not known.
        let before = slot.resources.as_ref();
        if before.is_some_and(|before| *before == resources || by_restart(container.spec, before, &resources))
        {
            continue;
        }
        let memory = |limit: i64, before: i64| if limit > 0 && before > 0 { limit - before } else { 0 };
        let memory =
            before.map_or(0, |before| memory(resources.memory_limit_in_bytes, before.memory_limit_in_bytes));
        let limit = resources.memory_limit_in_bytes;
        let lowers_memory = before.is_some_and(|before| {
            let before = before.memory_limit_in_bytes;
            limit > 0 && (before <= 0 || limit < before)
        });
        let (name, id) = (container.name.to_owned(), run.id.clone());
        changes.push(Change { name, id, resources, memory, lowers_memory });
    }
    changes
}

/// The container gets it when it is restarted, which the agent sees to.
fn by_restart(
    spec: &Value,
    before: &cri::LinuxContainerResources,
    after: &cri::LinuxContainerResources,
) -> bool {
    let policies = spec.get("resizePolicy").and_then(Value::as_list).unwrap_or_default();
    let by_restart = policies.iter().filter(|p| p.str_at(&["restartPolicy"]) == Some("RestartContainer"));
    let changed = |resource: &str| match resource {
        "memory" => before.memory_limit_in_bytes != after.memory_limit_in_bytes,
        "cpu" => (before.cpu_shares, before.cpu_quota) != (after.cpu_shares, after.cpu_quota),
        _ => false,
    };
    by_restart.filter_map(|policy| policy.str_at(&["resourceName"])).any(changed)
}

// Files of the kernel: short, but not for the threads that pods share.
#[allow(clippy::disallowed_methods)]
async fn limit_pod(shared: &Arc<Shared>, pod: &Arc<Value>) -> Result<(), String> {
    let (shared, pod) = (shared.clone(), pod.clone());
    let set = block(move || {
        let node = shared.node.lock().clone();
        PodCgroups::new(&shared.parts.config).update_pod(&pod, &shared.node_view(&node))
    });
    match set.await {
        Ok(Err(error)) => Err(format!("failed to set the limits of the pod: {error}")),
        _ => Ok(()),
    }
}
