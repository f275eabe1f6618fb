//! What a pod and its containers may use, set anew while they run.

use std::sync::Arc;

use node::pod::Pod;
use object::Value;

use super::{PodTask, Shared};
use crate::blocking::block;
use crate::generate::cgroups::PodCgroups;

/// A container that is to be given something else.
struct Change {
    name: String,
    id: String,
    resources: cri::LinuxContainerResources,
    /// By how much its memory limit grows; 0 where either is without.
    memory: i64,
    /// Its memory must be below this.
    most_memory: Option<u64>,
}

/// Gives the running containers what the pod says. `Err`: why that was not possible; what failed is tried again.
pub async fn resize(shared: &Arc<Shared>, task: &Arc<PodTask>, tree: &Arc<Value>) -> Result<(), String> {
    let changes = changes(shared, task, tree);
    let of_pod = tree.at(&["spec", "resources"]).cloned();
    if changes.is_empty() && task.cache.lock().pod_resources == of_pod {
        return Ok(());
    }
    check_memory(shared, tree, &changes).await?;
    task.cache.lock().pod_resources = of_pod;
    // The pod's own limit is never below what its containers may use.
    let grows = changes.iter().map(|change| change.memory).sum::<i64>() >= 0;
    if grows {
        limit_pod(shared, tree).await;
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
    if !grows {
        limit_pod(shared, tree).await;
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ")) }
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
        let most_memory = most_memory(before, &resources);
        changes.push(Change {
            name: container.name.to_owned(),
            id: run.id.clone(),
            resources,
            memory,
            most_memory,
        });
    }
    changes
}

/// What a container may use at most to be given less memory.
fn most_memory(
    before: Option<&cri::LinuxContainerResources>,
    after: &cri::LinuxContainerResources,
) -> Option<u64> {
    let limit = u64::try_from(after.memory_limit_in_bytes).ok().filter(|limit| *limit > 0)?;
    match before.map(|before| before.memory_limit_in_bytes) {
        // It may be the limit it has already, and use all of it.
        None => Some(limit.saturating_add(1)),
        Some(before) if before == 0 || after.memory_limit_in_bytes < before => Some(limit),
        Some(_) => None,
    }
}

/// Whoever uses more than he is to have keeps what he has: of cgroup v2 the kernel would end processes until the rest fits.
#[allow(clippy::disallowed_methods)]
async fn check_memory(shared: &Arc<Shared>, pod: &Arc<Value>, changes: &[Change]) -> Result<(), String> {
    let mut wrong = Vec::new();
    let (of_pod, tree) = (shared.clone(), pod.clone());
    let checked = block(move || {
        let node = of_pod.node.lock().clone();
        PodCgroups::new(&of_pod.parts.config).check_pod_memory(&tree, &of_pod.node_view(&node))
    });
    wrong.extend(checked.await.map_err(|error| error.to_string())?.err());
    for Change { name, id, resources, most_memory, .. } in changes {
        let Some(most) = most_memory else { continue };
        let filter = cri::ContainerStatsFilter { id: id.clone(), ..cri::ContainerStatsFilter::default() };
        let request = cri::ListContainerStatsRequest { filter: Some(filter) };
        let listed = shared.parts.cri.list_container_stats(request).await.map_err(|error| error.message)?;
        let memory = listed.stats.into_iter().find_map(|stats| stats.memory?.usage_bytes);
        // What is not known is left to the kernel.
        let Some(used) = memory.map(|memory| memory.value).filter(|used| used >= most) else { continue };
        let (name, limit) = (object::quote(name), resources.memory_limit_in_bytes);
        wrong.push(format!(
            "attempting to set container {name} memory limit ({limit}) below current usage ({used})"
        ));
    }
    match &*wrong {
        [] => Ok(()),
        [one] => Err(format!("cannot decrease memory limits: {one}")),
        more => Err(format!("cannot decrease memory limits: [{}]", more.join(", "))),
    }
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
async fn limit_pod(shared: &Arc<Shared>, pod: &Arc<Value>) {
    let (shared, pod) = (shared.clone(), pod.clone());
    let set = block(move || {
        let node = shared.node.lock().clone();
        PodCgroups::new(&shared.parts.config).update_pod(&pod, &shared.node_view(&node))
    });
    if let Ok(Err(error)) = set.await {
        // The containers are limited all the same.
        tracing::warn!(%error, "failed to set the limits of a pod");
    }
}
