//! What the runtime holds from before this process, or was told while nobody listened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use node::pod::short_uid;
use runtime::{Key, Severity};

use super::cache::{Run, RunState, SandboxRef};
use super::{PodTask, Shared, news};

const POD_UID: &str = "io.kubernetes.pod.uid";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Until the runtime is asked again for addresses it could not tell: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(10);

/// Brings every pod of the runtime up to date; those that are new get a task.
pub async fn all(shared: &Arc<Shared>) -> Result<(), cri::Error> {
    let held = held(shared);
    let cri = &shared.parts.cri;
    let sandboxes = cri.list_pod_sandbox(cri::ListPodSandboxRequest { filter: None }).await?;
    let listed: BTreeSet<String> = sandboxes.items.iter().map(|sandbox| sandbox.id.clone()).collect();
    // The newest of each pod.
    let mut newest: BTreeMap<String, cri::PodSandbox> = BTreeMap::new();
    let mut older = Vec::new();
    for sandbox in sandboxes.items {
        let Some(uid) = sandbox.labels.get(POD_UID).cloned() else { continue };
        match newest.get(&uid) {
            Some(known) if known.created_at > sandbox.created_at => older.push((uid, sandbox)),
            _ => older.extend(newest.insert(uid.clone(), sandbox).map(|before| (uid, before))),
        }
    }
    stop_older(shared, older).await;
    let mut found = false;
    for (uid, sandbox) in newest {
        let Some(metadata) = sandbox.metadata else { continue };
        let known = shared.task(short_uid(&uid));
        let is_new = known.is_none();
        found |= is_new;
        let task =
            known.unwrap_or_else(|| shared.ensure(Key::new(&metadata.namespace, &metadata.name), &uid));
        let ready = sandbox.state == cri::PodSandboxState::Ready as i32;
        if is_new {
            // Known before anything is asked: a pod without a sandbox would get another one.
            let known = SandboxRef { id: sandbox.id, attempt: metadata.attempt, ready, ips: Vec::new() };
            task.cache.lock().sandbox = Some(known.clone());
            if let Err(error) = address(shared, &task, &known).await
                && ready
            {
                tracing::warn!(pod = task.key.as_str(), sandbox = known.id, %error, "failed to get the addresses of a sandbox");
                let told = format!("error determining status: {error}");
                task.cache.lock().tell("", Severity::Warning, "FailedSync", told);
                let readdress = address_later(Arc::downgrade(shared), Arc::downgrade(&task));
                shared.parts.env.spawn("pod addresses", readdress);
            }
        } else if !ready && task.sandbox().is_some_and(|known| known.id == sandbox.id && known.ready) {
            news::lost(shared, &task);
        }
    }
    let containers = statuses(shared, None).await?;
    missing(shared, held, &listed, &containers).await;
    if found {
        // Perhaps of pods that are gone.
        shared.look_at_node();
    }
    Ok(())
}

/// What is there of a pod as far as is known: its sandbox, and its runs by the names of their containers.
struct Held {
    task: Arc<PodTask>,
    sandbox: Option<String>,
    runs: Vec<(String, String)>,
}

fn held(shared: &Shared) -> Vec<Held> {
    let held = |task: Arc<PodTask>| {
        let cache = task.cache.lock();
        let sandbox =
            cache.sandbox.as_ref().filter(|sandbox| sandbox.ready).map(|sandbox| sandbox.id.clone());
        let slots = cache.containers.iter();
        let runs = slots.filter_map(|(name, slot)| Some((name.clone(), slot.running()?.to_owned())));
        let runs = runs.collect();
        drop(cache);
        Held { task, sandbox, runs }
    };
    shared.tasks().into_iter().map(held).collect()
}

/// What is not listed was removed by somebody else, if the runtime says so when it is asked for it.
async fn missing(
    shared: &Arc<Shared>,
    held: Vec<Held>,
    sandboxes: &BTreeSet<String>,
    containers: &BTreeSet<String>,
) {
    for Held { task, sandbox, runs } in held {
        for (name, id) in runs.iter().filter(|(_, id)| !containers.contains(id)) {
            shared.look_or_ask_again(&task, name, id).await;
            shared.wake(&task);
        }
        let Some(id) = sandbox.filter(|id| !sandboxes.contains(id)) else { continue };
        let is_gone = shared.addresses(&id).await.is_err_and(|error| error.code == cri::Code::NotFound);
        if is_gone && task.sandbox().is_some_and(|known| known.id == id && known.ready) {
            news::lost(shared, &task);
        }
    }
}

/// Fills in the addresses of a sandbox that another process made. `Err`: the runtime cannot say, which is no reason to leave all other
/// pods alone.
async fn address(shared: &Shared, task: &PodTask, sandbox: &SandboxRef) -> Result<(), cri::Error> {
    let ips = match shared.addresses(&sandbox.id).await {
        Ok(ips) => ips.unwrap_or_default(),
        Err(error) if error.code == cri::Code::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut cache = task.cache.lock();
    if let Some(known) = cache.sandbox.as_mut().filter(|known| known.id == sandbox.id) {
        known.ips = ips;
    }
    Ok(())
}

/// Otherwise the pod would have no address for as long as it runs.
async fn address_later(shared: Weak<Shared>, task: Weak<PodTask>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(env) = shared.upgrade().map(|shared| shared.parts.env.clone()) else { return };
        env.sleep(pause).await;
        let Some((shared, task)) = shared.upgrade().zip(task.upgrade()) else { return };
        if is_addressed(&shared, &task).await {
            shared.wake(&task);
            return;
        }
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

/// Asks the runtime for the addresses of a pod, if they are not known. `false`: it cannot say.
async fn is_addressed(shared: &Shared, task: &PodTask) -> bool {
    let sandbox = task.sandbox().filter(|sandbox| sandbox.ready && sandbox.ips.is_empty());
    let Some(sandbox) = sandbox else { return true };
    let asked = address(shared, task, &sandbox).await;
    asked
        .inspect_err(|error| tracing::debug!(pod = task.key.as_str(), %error, "still failed to get the addresses of a sandbox"))
        .is_ok()
}

/// Returns once the runtime has said what addresses the pod has, if it has any.
pub async fn addressed(shared: &Shared, task: &PodTask) {
    let mut pause = FIRST_PAUSE;
    while !is_addressed(shared, task).await {
        shared.parts.env.sleep(pause).await;
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

/// Two sandboxes of a pod that are both ready, as a call that gave up made one all the same: the pod goes on in the newest. Only of
/// pods that this process does not know yet, of which nothing is under way.
async fn stop_older(shared: &Shared, older: Vec<(String, cri::PodSandbox)>) {
    let is_ready = |sandbox: &cri::PodSandbox| sandbox.state == cri::PodSandboxState::Ready as i32;
    for (uid, sandbox) in older.into_iter().filter(|(_, sandbox)| is_ready(sandbox)) {
        if shared.task(short_uid(&uid)).is_some() {
            continue;
        }
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
        if let Err(error) = shared.parts.cri.stop_pod_sandbox(request).await {
            tracing::warn!(uid, sandbox = sandbox.id, %error, "failed to stop a sandbox that is not its pod's any more");
        }
    }
}

/// All of one pod.
pub async fn sandboxes(shared: &Shared, task: &PodTask) -> Result<Vec<cri::PodSandbox>, cri::Error> {
    let label_selector = [(POD_UID.to_owned(), task.uid.clone())].into();
    let filter = cri::PodSandboxFilter { label_selector, ..cri::PodSandboxFilter::default() };
    let request = cri::ListPodSandboxRequest { filter: Some(filter) };
    Ok(shared.parts.cri.list_pod_sandbox(request).await?.items)
}

/// The containers of one pod.
pub async fn containers(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let selector = [(POD_UID.to_owned(), task.uid.clone())].into();
    let filter = cri::ContainerFilter { label_selector: selector, ..cri::ContainerFilter::default() };
    if let Err(error) = statuses(shared, Some(filter)).await {
        tracing::warn!(pod = task.key.as_str(), %error, "failed to list containers");
    }
}

/// The ids of all that were listed.
async fn statuses(
    shared: &Arc<Shared>,
    filter: Option<cri::ContainerFilter>,
) -> Result<BTreeSet<String>, cri::Error> {
    let listed = shared.parts.cri.list_containers(cri::ListContainersRequest { filter }).await?;
    let ids = listed.containers.iter().map(|container| container.id.clone()).collect();
    for container in listed.containers {
        let Some(uid) = container.labels.get(POD_UID) else { continue };
        let (Some(name), Some(task)) = (container.labels.get(CONTAINER_NAME), shared.task(short_uid(uid)))
        else {
            continue;
        };
        if is_known(&task, name, &container) || remove_left_over(shared, &task, name, &container).await {
            continue;
        }
        if !shared.refresh(&task, name, &container.id).await {
            let run = news::run_of_list(&container);
            task.cache.lock().slot(name).listed(run);
            shared.ask_again(&task, name, &container.id);
        }
        note_sandbox(&task, name, &container);
        shared.wake(&task);
    }
    Ok(ids)
}

/// A container that a process before this one made and did not come to start: it never ran, and has the name of the one that is to
/// be made in its place. Kubelet keeps it and counts a restart. `false`: it is none of those, or still there.
async fn remove_left_over(
    shared: &Arc<Shared>,
    task: &PodTask,
    name: &str,
    container: &cri::Container,
) -> bool {
    let is_unstarted = |state: i32| state == cri::ContainerState::Created as i32;
    // Nobody but this process starts it, and of what that is at the slot knows.
    let is_ours = || {
        let cache = task.cache.lock();
        cache.containers.get(name).is_some_and(|slot| slot.starting || slot.is(&container.id))
    };
    if !is_unstarted(container.state) || is_ours() {
        return false;
    }
    let (cri, container_id) = (&shared.parts.cri, container.id.clone());
    // It may have been started since the list was made.
    let asked = cri::ContainerStatusRequest { container_id: container_id.clone(), verbose: false };
    let status = cri.container_status(asked).await.ok().and_then(|answer| answer.status);
    if !status.is_some_and(|status| is_unstarted(status.state)) || is_ours() {
        return false;
    }
    match cri.remove_container(cri::RemoveContainerRequest { container_id }).await {
        Ok(_) => {
            tracing::info!(
                pod = task.key.as_str(),
                container = name,
                id = container.id,
                "removed a container that was never started"
            );
            true
        }
        Err(error) => {
            tracing::warn!(pod = task.key.as_str(), container = name, %error, "failed to remove container");
            false
        }
    }
}

/// Whether the latest run is of the sandbox there is.
fn note_sandbox(task: &PodTask, name: &str, container: &cri::Container) {
    let mut cache = task.cache.lock();
    let Some(current) = cache.sandbox.as_ref().map(|sandbox| sandbox.id.clone()) else { return };
    let slot = cache.containers.get_mut(name);
    if let Some(slot) = slot.filter(|slot| slot.is(&container.id)) {
        slot.outlived = container.pod_sandbox_id != current;
    }
}

/// Nothing about it can be new.
fn is_known(task: &PodTask, name: &str, container: &cri::Container) -> bool {
    let cache = task.cache.lock();
    let Some(slot) = cache.containers.get(name) else { return false };
    let same = |run: &Run| match run.state {
        RunState::Exited(_) => true,
        RunState::Running { .. } => container.state == cri::ContainerState::Running as i32,
        RunState::Created => container.state == cri::ContainerState::Created as i32,
        RunState::Unknown => container.state == cri::ContainerState::Unknown as i32,
    };
    let current = slot.run.as_ref().is_some_and(|run| run.id == container.id && same(run));
    // Before it is started, whoever does so looks at it.
    let is_being_made = slot.starting && !slot.is(&container.id);
    // The number is that of the name, of which there is one.
    let attempt = container.metadata.as_ref().map(|metadata| metadata.attempt);
    current
        || is_being_made
        || attempt.is_some_and(|attempt| slot.is_past(attempt))
        || slot.last().is_some_and(|last| last.id.ends_with(&container.id))
}

/// A pod whose object is known now: its containers are probed, also when it ends, so that it is as ready as it was.
pub fn probes(shared: &Shared, task: &Arc<PodTask>) {
    let pod = task.cache.lock().pod.clone();
    let running: Vec<(String, String)> = {
        let cache = task.cache.lock();
        let runs = cache.containers.iter().filter_map(|(name, slot)| Some((name, slot.run.as_ref()?)));
        runs.filter(|(_, run)| run.is_running()).map(|(name, run)| (name.clone(), run.id.clone())).collect()
    };
    for (name, id) in running {
        shared.watch_probes(task, &pod, &name, &id);
    }
}

/// A pod whose object is known now and that goes on: its objects are followed.
pub fn pod(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let pod = task.cache.lock().pod.clone();
    shared.parts.objects.register(&pod);
    // What its volumes show may have changed meanwhile; one whose sandbox is gone gets another, if it needs one.
    match task.sandbox() {
        Some(sandbox) if sandbox.ready => {
            // A process before this one may not have set all that the pod was given.
            let mut cache = task.cache.lock();
            (cache.resizing, cache.resize_group) = (true, true);
            drop(cache);
            task.refresh();
        }
        _ => task.create(),
    }
}
