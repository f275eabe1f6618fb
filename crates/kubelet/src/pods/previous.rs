//! What is left of the sandboxes a pod had before: it goes before another one is made, with its addresses and ports.

use std::sync::Arc;

use node::pod::Pod;
use object::Value;

use super::cache::SandboxRef;
use super::create::{Failure, failed};
use super::{PodTask, Shared, recover, stop};

/// The sandbox is gone, and there will be no other: what runs in it all the same ends.
pub async fn end(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    stop::end_for_another(shared, task).await;
    if let Err(error) = shared.stop_sandbox(task).await {
        // It is stopped with its pod at the latest.
        tracing::warn!(pod = task.key.as_str(), %error, "failed to stop sandbox");
    }
}

/// So does it before there is another. Goes on if nobody waits for it.
pub async fn end_containers(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let (shared_too, task_too) = (shared.clone(), task.clone());
    let ended = async move { stop::end_for_another(&shared_too, &task_too).await };
    // Fails only by a panic of ours, which is told where it happened.
    let _ = shared.parts.env.spawn("end of a sandbox", ended).await;
}

/// The number of the sandbox to be made. `None`: none, as one is there that a call made which seemed to fail.
pub async fn replace(shared: &Shared, task: &PodTask, pod: &Value) -> Result<Option<u32>, Failure> {
    let known = task.sandbox();
    let of_known = |id: &str| known.as_ref().is_some_and(|known| known.id == id);
    let listed = recover::sandboxes(shared, task).await.map_err(|error| failed(&error))?;
    let newest = listed.iter().max_by_key(|sandbox| sandbox.created_at);
    let is_ready = |sandbox: &&cri::PodSandbox| sandbox.state == cri::PodSandboxState::Ready as i32;
    if let Some(sandbox) = newest.filter(is_ready).filter(|sandbox| !of_known(&sandbox.id))
        && listed.iter().filter(is_ready).count() == 1
        && let Ok(ips) = shared.addresses(&sandbox.id).await
        && (Pod::read(pod).host_network || ips.as_ref().is_none_or(|ips| !ips.is_empty()))
    {
        let (id, attempt) = (sandbox.id.clone(), number(sandbox));
        let taken = SandboxRef { id, attempt, ready: true, ips: ips.unwrap_or_default() };
        task.cache.lock().set_sandbox(taken);
        return Ok(None);
    }
    let unlisted = known.as_ref().filter(|known| listed.iter().all(|sandbox| sandbox.id != known.id));
    let ids = listed.iter().map(|sandbox| &sandbox.id).chain(unlisted.map(|known| &known.id));
    for id in ids {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
        match shared.parts.cri.stop_pod_sandbox(request).await {
            Err(error) if error.code != cri::Code::NotFound => {
                let told = format!(
                    "failed to \"KillPodSandbox\" for {:?} with KillPodSandboxError: \"{error}\"",
                    task.uid
                );
                return Err(("FailedKillPod", format!("error killing pod: {told}")));
            }
            _ => {}
        }
    }
    let numbers = listed.iter().map(number).chain(known.as_ref().map(|known| known.attempt));
    Ok(Some(numbers.max().map_or(0, |last| last + 1)))
}

fn number(sandbox: &cri::PodSandbox) -> u32 {
    sandbox.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
}
