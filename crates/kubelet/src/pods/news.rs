//! What the runtime has to tell: containers that ended, sandboxes that are gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use node::container_runtime::{Exit, LinuxUser, Millis};
use node::pod::{Container, Pod, Restart, Role, short_uid};
use runtime::Severity;

use super::cache::{Cache, Run, RunState};
use super::{PodTask, Shared, recover, start, stop, termination};
use crate::blocking::block;
use crate::generate::labels::ContainerInfo;
use crate::probes::{Outcome, Outcomes};

/// A runtime that does not tell, or could not list its pods, is asked so often.
const RELIST: Duration = Duration::from_secs(1);
/// And one that does, in case it forgot something.
const RELIST_RARELY: Duration = Duration::from_secs(300);
/// Until it is asked again that could not say how a container is, or failed to end one: at first, and at most, as often as by kubelet.
pub const FIRST_PAUSE: Duration = Duration::from_millis(200);
pub const MOST_PAUSE: Duration = Duration::from_secs(10);

/// Follows the runtime as long as the pods are there.
pub fn follow(shared: &Arc<Shared>) {
    let env = shared.parts.env.clone();
    env.spawn("container events", watch(Arc::downgrade(shared)));
}

type Events = BoxStream<'static, Result<cri::ContainerEventResponse, cri::Error>>;

async fn watch(shared: Weak<Shared>) {
    let mut was_listed = true;
    let mut events: Option<Events> = None;
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let env = strong.parts.env.clone();
        if events.is_none() {
            events = strong.parts.cri.container_events(cri::GetEventsRequest {}).await.ok();
        }
        // Whatever happened before the stream began, or while there was none.
        let listed = list(&strong, &mut events).await;
        match &listed {
            Ok(()) => {}
            Err(error) if was_listed => {
                tracing::warn!(%error, "failed to list pods of the container runtime, retrying");
            }
            Err(error) => tracing::debug!(%error, "failed to list pods of the container runtime"),
        }
        was_listed = listed.is_ok();
        strong.parts.runtime_state.listed(was_listed);
        // The node is not ready until there is a list.
        let until_next = if was_listed { RELIST_RARELY } else { RELIST };
        drop(strong);
        // From one list to the next, however much happens meanwhile.
        let relist = env.sleep(until_next);
        tokio::pin!(relist);
        while let Some(stream) = &mut events {
            let event = tokio::select! {
                biased;
                () = &mut relist => break,
                event = stream.next() => event,
            };
            let Some(Ok(event)) = event else {
                events = None;
                break;
            };
            let Some(strong) = shared.upgrade() else { return };
            // What nobody knows concerns nobody.
            let _ = happened(&strong, event);
        }
        if events.is_none() {
            env.sleep(RELIST).await;
        }
    }
}

/// Lists all pods while the stream is read already: it begins only when it is asked for an event.
async fn list(shared: &Arc<Shared>, events: &mut Option<Events>) -> Result<(), cri::Error> {
    let listing = recover::all(shared);
    tokio::pin!(listing);
    // Of each container, or sandbox, that is not known yet, the latest: it is known once it is listed. All others are told of at once,
    // however long the list takes.
    let mut meanwhile = BTreeMap::new();
    let listed = loop {
        let event = async {
            match events.as_mut() {
                Some(events) => events.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = event => match event {
                Some(Ok(event)) => {
                    if let Err(unknown) = happened(shared, event) {
                        meanwhile.insert(unknown.container_id.clone(), *unknown);
                    }
                }
                _ => *events = None,
            },
            listed = &mut listing => break listed,
        }
    };
    for event in meanwhile.into_values() {
        let _ = happened(shared, event);
    }
    listed
}

/// `Err`: it is about a pod, a sandbox or a container that is not known, or not yet.
fn happened(
    shared: &Arc<Shared>,
    event: cri::ContainerEventResponse,
) -> Result<(), Box<cri::ContainerEventResponse>> {
    // One that does not say whose it is takes the place of none that does.
    let Some(sandbox) = &event.pod_sandbox_status else { return Ok(()) };
    let uid = sandbox.metadata.as_ref().map(|metadata| &*metadata.uid).unwrap_or_default();
    let Some(task) = shared.task(short_uid(uid)) else { return Err(Box::new(event)) };
    if event.container_id == sandbox.id {
        let Some(known) = task.sandbox().filter(|known| known.id == sandbox.id) else {
            return Err(Box::new(event));
        };
        if known.ready && sandbox.state == cri::PodSandboxState::NotReady as i32 {
            lost(shared, &task);
        }
        return Ok(());
    }
    let name = {
        let cache = task.cache.lock();
        let mut slots = cache.containers.iter();
        // One that is being started as well: it may have ended since whoever starts it asked how it is.
        slots.find(|(_, slot)| slot.is(&event.container_id)).map(|(name, _)| name.clone())
    };
    let Some(name) = name else { return Err(Box::new(event)) };
    let (shared, id) = (shared.clone(), event.container_id);
    let env = shared.parts.env.clone();
    env.spawn("container news", async move {
        shared.look_or_ask_again(&task, &name, &id).await;
        shared.wake(&task);
    });
    Ok(())
}

/// The sandbox is gone and nobody asked for that: what was in it ends, and it is made anew.
pub fn lost(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    match &mut task.cache.lock().sandbox {
        Some(sandbox) => sandbox.ready = false,
        None => return,
    }
    if task.is_stopping() {
        return;
    }
    let (shared, task) = (shared.clone(), task.clone());
    let env = shared.parts.env.clone();
    env.spawn("sandbox lost", async move {
        recover::containers(&shared, &task).await;
        task.create();
        shared.wake(&task);
    });
}

/// What probes found out.
pub fn of_probes(shared: &Weak<Shared>) -> Arc<Outcomes> {
    let shared = shared.clone();
    Arc::new(move |outcome| {
        let Some(shared) = shared.upgrade() else { return };
        let (Outcome::Changed { uid, .. } | Outcome::Event { uid, .. } | Outcome::Kill { uid, .. }) =
            &outcome;
        let Some(task) = shared.task(short_uid(uid)) else { return };
        match outcome {
            Outcome::Changed { .. } => {}
            Outcome::Event { container, reason, message, .. } => {
                task.cache.lock().tell(&container, Severity::Warning, reason, message);
            }
            Outcome::Kill { container, kill, .. } => {
                let pod = {
                    let mut cache = task.cache.lock();
                    cache.tell(&container, Severity::Normal, "Killing", kill.message);
                    cache.slot(&container).replaced = Some(kill.container_id.clone());
                    cache.pod.clone()
                };
                let grace = kill.grace_seconds.unwrap_or_else(|| Pod::read(&pod).grace_seconds);
                let (shared, task) = (shared.clone(), task.clone());
                let env = shared.parts.env.clone();
                env.spawn("kill container", async move {
                    stop::container(&shared, &task, &pod, &container, &kill.container_id, grace).await;
                });
            }
        }
        shared.wake(&task);
    })
}

impl Shared {
    /// Asks the runtime how a container is. `false`: it could not say.
    pub(super) async fn refresh(self: &Arc<Shared>, task: &Arc<PodTask>, name: &str, id: &str) -> bool {
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        match self.parts.cri.container_status(request).await {
            Ok(cri::ContainerStatusResponse { status: Some(status), .. }) => {
                let runtime = self.parts.runtime_name.clone();
                let limits = status.resources.clone().and_then(|resources| resources.linux);
                let read = block(move || run_of(&status, &runtime));
                let Ok(run) = read.await else { return false };
                let (ended, running) = (matches!(run.state, RunState::Exited(_)), run.is_running());
                let (changed, is_latest, is_over, pod) = {
                    let mut cache = task.cache.lock();
                    let slot = cache.slot(name);
                    let changed = slot.found(run, limits);
                    (changed, slot.is(id), !slot.starting, cache.pod.clone())
                };
                if changed {
                    // The others may have waited for it.
                    self.probes.hurry(&task.uid);
                }
                if ended && is_latest {
                    self.probes.stop(&task.uid, name);
                }
                // Otherwise whoever starts it does so, or whoever tells of the pod.
                if changed && running && is_latest && is_over && pod.as_map().is_some() {
                    start::begin_probes(self, task, &pod, name, id);
                }
                true
            }
            Ok(_) => false,
            Err(error) if error.code == cri::Code::NotFound => {
                self.lose(task, name, id);
                true
            }
            Err(error) => {
                tracing::warn!(pod = task.key.as_str(), container = name, %error, "failed to get container status");
                false
            }
        }
    }

    /// A run is over, and nobody will say how it ended.
    pub(super) fn lose(&self, task: &PodTask, name: &str, id: &str) {
        let is_latest = {
            let mut cache = task.cache.lock();
            let slot = cache.slot(name);
            let is_latest = slot.is(id);
            slot.lose(id, &self.parts.runtime_name, self.now());
            is_latest
        };
        if is_latest {
            self.probes.stop(&task.uid, name);
        }
    }

    /// The same as [`Shared::refresh`] where nobody else would ask again.
    pub(super) async fn look_or_ask_again(self: &Arc<Shared>, task: &Arc<PodTask>, name: &str, id: &str) {
        if !self.refresh(task, name, id).await {
            self.ask_again(task, name, id);
        }
    }

    /// Asks until the runtime says how a container is.
    pub(super) fn ask_again(self: &Arc<Shared>, task: &Arc<PodTask>, name: &str, id: &str) {
        {
            let mut cache = task.cache.lock();
            if !cache.slot(name).asked_again.insert(id.to_owned()) {
                return;
            }
        }
        let (shared, task) = (Arc::downgrade(self), Arc::downgrade(task));
        let (name, id) = (name.to_owned(), id.to_owned());
        let env = self.parts.env.clone();
        self.parts.env.spawn("container status", async move {
            let mut pause = FIRST_PAUSE;
            loop {
                env.sleep(pause).await;
                let Some((shared, task)) = shared.upgrade().zip(task.upgrade()) else { return };
                if shared.refresh(&task, &name, &id).await {
                    task.cache.lock().slot(&name).asked_again.remove(&id);
                    return shared.wake(&task);
                }
                pause = (pause * 2).min(MOST_PAUSE);
            }
        });
    }
}

/// The sandbox is gone, and the pod gets another one. `false`: it does not, as nothing would be started in it.
pub fn tell_changed(cache: &mut Cache) -> bool {
    let pod = cache.pod.clone();
    let pod = Pod::read(&pod);
    let has_run = cache.containers.values().any(|slot| slot.run.is_some());
    if pod.restart == Restart::Never && has_run {
        return false;
    }
    let mut mains = pod.containers.iter().filter(|container| container.role == Role::Main);
    let is_done = |container: &Container<'_>| {
        let run = cache.containers.get(container.name).and_then(|slot| slot.run.as_ref());
        matches!(run.map(|run| &run.state), Some(RunState::Exited(exit)) if !pod.restarts(container, exit.code))
    };
    if mains.all(is_done) {
        return false;
    }
    // As kubelet, which decides on all of them when it decides on the sandbox, but where init containers come first decides anew after
    // those, by policy.
    for container in pod.containers.iter().filter(|container| container.role == Role::Main) {
        let Some(slot) = cache.containers.get_mut(container.name) else { continue };
        let has_succeeded =
            matches!(slot.run.as_ref().map(|run| &run.state), Some(RunState::Exited(exit)) if exit.code == 0);
        let is_over = pod.policy(container) == Restart::OnFailure && has_succeeded;
        slot.starts_again = slot.run.is_some() && !is_over && !pod.has_init_containers();
    }
    let told = "Pod sandbox changed, it will be killed and re-created.";
    cache.tell("", Severity::Normal, "SandboxChanged", told);
    true
}

/// A run as a list shows it: one that ended, or that was only made when the list was, is not told apart.
pub fn run_of_list(container: &cri::Container) -> Run {
    let info = ContainerInfo::read(&container.annotations);
    let state = match cri::ContainerState::try_from(container.state) {
        // It was started soon after it was made.
        Ok(cri::ContainerState::Running) => RunState::Running { since: container.created_at / 1_000_000 },
        _ => RunState::Unknown,
    };
    Run {
        id: container.id.clone(),
        hash: info.hash,
        image_id: container.image_ref.clone(),
        image: container.image.as_ref().map(|image| image.image.clone()).unwrap_or_default(),
        user: None,
        attempt: info.restart_count,
        state,
    }
}

/// A run as the runtime describes it. Reads files.
pub fn run_of(status: &cri::ContainerStatus, runtime: &str) -> Run {
    let info = ContainerInfo::read(&status.annotations);
    let millis = |nanos: i64| nanos / 1_000_000;
    let state = match cri::ContainerState::try_from(status.state) {
        Ok(cri::ContainerState::Running) => RunState::Running { since: millis(status.started_at) },
        Ok(cri::ContainerState::Created) => RunState::Created,
        Ok(cri::ContainerState::Exited) => RunState::Exited(exit_of(status, &info, runtime)),
        _ => RunState::Unknown,
    };
    Run {
        id: status.id.clone(),
        hash: info.hash,
        image_id: status.image_ref.clone(),
        image: status.image.as_ref().map(|image| image.image.clone()).unwrap_or_default(),
        user: status.user.as_ref().and_then(|user| user.linux.as_ref()).map(linux_user),
        attempt: info.restart_count,
        state,
    }
}

fn linux_user(user: &cri::LinuxContainerUser) -> Box<LinuxUser> {
    let cri::LinuxContainerUser { uid, gid, supplemental_groups } = user.clone();
    Box::new(LinuxUser { uid, gid, supplemental_groups })
}

fn exit_of(status: &cri::ContainerStatus, info: &ContainerInfo, runtime: &str) -> Exit {
    let millis = |nanos: i64| -> Millis { nanos / 1_000_000 };
    let started = if status.started_at > 0 { status.started_at } else { status.created_at };
    let (started, finished) = (millis(started), millis(status.finished_at));
    let mut exit = Exit::new(status.exit_code, started, finished, format!("{runtime}://{}", status.id));
    if !status.reason.is_empty() {
        exit.reason = status.reason.clone().into();
    }
    exit.message = termination::message(status, info);
    exit
}
