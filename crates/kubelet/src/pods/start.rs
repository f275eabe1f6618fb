//! The start of one container: its image, its configuration, the container itself, and what is to be done right after.

use std::borrow::Cow;
use std::sync::Arc;

use node::container_runtime::{HOOK_FAILED, StartError};
use node::pod::{Container, Pod, Role};
use object::Value;
use runtime::Severity;

use super::inputs::VolumeImages;
use super::{PodTask, Shared, recover, resize, stop};
use crate::generate::labels::container_hash;
use crate::hooks::{Hook, HookEvent};
use crate::images::{ImageError, PulledImage};
use crate::volumes;

const CREATE_FAILED: &str = "CreateContainerError";
const RUN_FAILED: &str = "RunContainerError";

/// What of a start failed.
enum Stage {
    /// It does not run.
    Start,
    /// It ran, and was ended because of its hook.
    Hook,
}

/// How a start failed: the container's reason and message, and the event that tells of it.
pub struct Failed {
    stage: Stage,
    pub reason: Cow<'static, str>,
    pub message: String,
    /// The image that is missing, if it is that of a volume.
    pub volume_image: Option<String>,
}

impl Failed {
    fn new(reason: impl Into<Cow<'static, str>>, message: String) -> Failed {
        Failed { stage: Stage::Start, reason: reason.into(), message, volume_image: None }
    }
}

pub async fn start(shared: &Arc<Shared>, task: &Arc<PodTask>, name: &str, attempt: u32) {
    let pod = task.cache.lock().pod.clone();
    let outcome = run(shared, task, &pod, name, attempt).await;
    if shared.is_ending() && matches!(outcome, Err(None)) {
        // It stays asked for: the agent would ask again at once, and again.
        return;
    }
    match outcome {
        Ok(id) => {
            // Not before: what a probe looks for may be made by the hook.
            begin_probes(shared, task, &pod, name, &id);
            end(shared, task, name, None);
            // The runtime may have said only meanwhile that it runs.
            begin_probes(shared, task, &pod, name, &id);
        }
        Err(failed) => {
            if let Some(failed) = &failed {
                shared.parts.metrics.container_failed(&Pod::read(&pod), name, &failed.reason);
            }
            let is_unsure = failed.as_ref().is_some_and(|failed| failed.reason == CREATE_FAILED);
            end(shared, task, name, failed);
            if is_unsure {
                // A call that gave up, of this process or the one before, may have made one all the same: it has the number of the
                // next.
                recover::containers(shared, task).await;
            }
        }
    }
}

fn end(shared: &Shared, task: &PodTask, name: &str, failed: Option<Failed>) {
    let mut cache = task.cache.lock();
    let slot = cache.slot(name);
    slot.end_start();
    slot.hook_error = None;
    if let Some(failed) = failed {
        let Failed { stage, reason, message, volume_image } = failed;
        tracing::info!(
            pod = task.key.as_str(),
            container = name,
            reason = &*reason,
            message,
            "failed to start container"
        );
        let error = StartError { reason, message, at: shared.now(), volume_image };
        match stage {
            // Heard of meanwhile.
            Stage::Start if slot.has_begun() => {}
            Stage::Start => slot.error = Some(error),
            // It waits as others that end do.
            Stage::Hook => slot.hook_error = Some(Box::new(error)),
        }
    }
}

/// The run there is now, to be probed. `Err(None)`: it is not wanted any more.
async fn run(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    tree: &Arc<Value>,
    name: &str,
    attempt: u32,
) -> Result<String, Option<Failed>> {
    let pod = Pod::read(tree);
    let container = pod.containers.iter().find(|container| container.name == name).ok_or(None)?;
    let unsure = task.cache.lock().slot(name).unsure().map(str::to_owned);
    if let Some(id) = unsure {
        shared.refresh(task, name, &id).await;
    }
    let before = task.cache.lock().slot(name).begin_replacing();
    match before {
        // It makes room for its successor: nothing is started beside it.
        Ok(Some(id)) => stop::container(shared, task, tree, name, &id, pod.grace_seconds).await,
        Ok(None) => {}
        Err(id) => return Ok(id),
    }
    task.cache.lock().slot(name).make_room();
    if task.is_stopping() || !task.has_ready_sandbox() {
        return Err(None);
    }
    shared.parts.metrics.container_begun(&pod, name);
    let images = tokio::select! {
        biased;
        () = task.stopped() => return Err(None),
        images = ensure_images(shared, task, tree, container) => images,
    };
    let tell =
        |severity, reason: &str, message: String| task.cache.lock().tell(name, severity, reason, message);
    let failed = |reason: &'static str, message: String| {
        tell(Severity::Warning, "Failed", format!("Error: {message}"));
        Some(Failed::new(reason, message))
    };
    let (image, volume_images) = images.map_err(|(error, volume_image)| {
        let event = error.event();
        tell(event.severity, event.reason, event.message);
        Some(Failed { volume_image, ..Failed::new(error.reason.to_string(), error.message) })
    })?;
    // What a container is told of its pod's address, it is told for good.
    if !pod.host_network {
        tokio::select! {
            biased;
            () = task.stopped() => return Err(None),
            () = recover::addressed(shared, task) => {}
        }
    }
    // From here on nothing is given up half way: what the runtime made must be known.
    let guard = task.uninterrupted.clone().lock_owned().await;
    // Whoever ends the pod waits for this lock, and then ends what there is.
    if shared.is_ending() || task.is_stopping() {
        return Err(None);
    }
    let sandbox = task.sandbox().filter(|sandbox| sandbox.ready).ok_or(None)?;
    let late = remove_unstarted(shared, task, name).await;
    if let Some(id) = late.map_err(|error| failed(RUN_FAILED, error.to_string()))? {
        return Ok(id);
    }
    // The end of the run before, or the image, took its time: it gets what the pod was given meanwhile.
    let tree = &latest(task, tree, container);
    let pod = Pod::read(tree);
    let container = pod.containers.iter().find(|container| container.name == name).ok_or(None)?;
    resize::before_start(shared, task, tree).await;
    let attempt = shared.next_attempt(task, tree, name, attempt).await;
    let config = shared.container_config(task, tree, container, attempt, (&image, &volume_images)).await;
    let config = config.map_err(|error| failed(error.reason, error.message))?;
    let resources = config.linux.as_ref().and_then(|linux| linux.resources.clone());
    task.cache.lock().slot(name).resources = resources;
    let sandbox_config = shared.config_of(task, tree).await;
    let sandbox_config =
        sandbox_config.map_err(|error| failed("CreateContainerConfigError", error.message))?;
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: sandbox.id,
        config: Some(config),
        sandbox_config: Some((*sandbox_config).clone()),
    };
    let created = shared.parts.cri.create_container(request).await;
    let id = created.map_err(|error| failed(CREATE_FAILED, error.message))?.container_id;
    task.cache.lock().slot(name).made(id.clone(), attempt);
    tell(Severity::Normal, "Created", "Container created".to_owned());
    let started =
        shared.parts.cri.start_container(cri::StartContainerRequest { container_id: id.clone() }).await;
    shared.look_or_ask_again(task, name, &id).await;
    if let Err(error) = started {
        let told = failed(RUN_FAILED, error.message);
        // It shows itself what it came to, where the runtime says so: a call that gave up may have started it all the same.
        if task.cache.lock().slot(name).has_begun() {
            shared.parts.metrics.container_failed(&pod, name, RUN_FAILED);
            return Ok(id);
        }
        return Err(told);
    }
    tell(Severity::Normal, "Started", "Container started".to_owned());
    shared.link_log(tree, name, &id, attempt).await;
    drop(guard);
    shared.wake(task);
    if container.role != Role::Ephemeral {
        post_start(shared, task, tree, &pod, container, &id).await?;
    }
    Ok(id)
}

/// The pod as it is by now; as it was, where it asks for another image since: that gets a run of its own.
fn latest(task: &PodTask, tree: &Arc<Value>, container: &Container<'_>) -> Arc<Value> {
    let latest = task.cache.lock().pod.clone();
    let hash = container_hash(container.spec);
    let is_same = |of: &Container<'_>| of.name == container.name && container_hash(of.spec) == hash;
    if Pod::read(&latest).containers.iter().any(is_same) { latest } else { tree.clone() }
}

/// The run before, if its start failed: a call that gave up might start it beside this one. Its id, if it has done so by now.
async fn remove_unstarted(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    name: &str,
) -> Result<Option<String>, cri::Error> {
    let unstarted = task.cache.lock().slot(name).unstarted().map(str::to_owned);
    if let Some(id) = &unstarted {
        shared.refresh(task, name, id).await;
    }
    if let Some(late) = task.cache.lock().slot(name).begun_since() {
        return Ok(Some(late.to_owned()));
    }
    let Some(container_id) = unstarted else { return Ok(None) };
    match shared.parts.cri.remove_container(cri::RemoveContainerRequest { container_id }).await {
        Err(error) if error.code != cri::Code::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Of a container that may end meanwhile, in a pod that may.
pub fn begin_probes(shared: &Shared, task: &Arc<PodTask>, tree: &Value, name: &str, id: &str) {
    shared.watch_probes(task, tree, name, id);
    if task.is_stopping() {
        shared.probes.terminate(&task.uid);
    }
    if task.cache.lock().slot(name).has_ended() {
        shared.probes.stop(&task.uid, name);
    }
}

/// The images of the volumes it mounts, then its own. An error names the image if it is that of a volume.
async fn ensure_images(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    tree: &Arc<Value>,
    container: &Container<'_>,
) -> Result<(PulledImage, VolumeImages), (ImageError, Option<String>)> {
    let mut volumes = VolumeImages::new();
    for (volume, wanted) in volumes::image_volumes(tree, container.spec) {
        let policy = wanted.pull_policy.as_deref();
        // People are told of it as of the pod's.
        let image = shared.ensure_image(task, tree, "", &wanted.reference, policy).await;
        let image = image.map_err(|error| (error, Some(wanted.reference)))?;
        volumes.insert(volume.to_owned(), image.spec);
    }
    let policy = container.spec.str_at(&["imagePullPolicy"]);
    let image = shared.ensure_image(task, tree, container.name, container.image, policy).await;
    Ok((image.map_err(|error| (error, None))?, volumes))
}

/// The hook, as long as the pod is to go on; the container is ended if it fails.
async fn post_start(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    tree: &Arc<Value>,
    pod: &Pod<'_>,
    container: &Container<'_>,
    id: &str,
) -> Result<(), Failed> {
    let target = shared.target(task, tree, id);
    let events = |event: HookEvent| {
        task.cache.lock().tell(container.name, Severity::Warning, event.reason, event.message);
    };
    let hook = Hook { pod: tree, container: container.spec, target: &*target, events: &events };
    let done = tokio::select! {
        biased;
        () = task.stopped() => return Ok(()),
        done = shared.parts.hooks.post_start(hook) => done,
    };
    let Err(error) = done else { return Ok(()) };
    tracing::debug!(
        pod = task.key.as_str(),
        container = container.name,
        error = error.message,
        "postStart hook failed"
    );
    task.cache.lock().tell(container.name, Severity::Normal, "Killing", "FailedPostStartHook");
    stop::container(shared, task, tree, container.name, id, pod.grace_seconds).await;
    Err(Failed { stage: Stage::Hook, ..Failed::new(HOOK_FAILED, error.message) })
}
