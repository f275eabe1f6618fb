//! What the containers of a pod share: its volumes, its cgroup, its sandbox.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use node::container_runtime::RESIZE_RETRY_MILLIS;
use node::pod::Pod;
use object::Value;
use runtime::Severity;

use super::cache::SandboxRef;
use super::{PodTask, Shared, news, previous, refresh, resize};
use crate::generate::About;
use crate::volumes::MountedVolume;

/// How long a pod that could not be set up waits for the next attempt: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MOST_PAUSE: Duration = Duration::from_secs(30);
const NETWORK_NOT_READY: &str = "NetworkNotReady";

/// Sets up the pod; tried until it is there, or not wanted any more.
pub async fn create(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    // Asked for once more while the one before was at it.
    if task.has_ready_sandbox() {
        return;
    }
    if task.sandbox().is_some() && !news::tell_changed(&mut task.cache.lock()) {
        return previous::end(shared, task).await;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let pod = task.cache.lock().pod.clone();
        let done = tokio::select! {
            biased;
            () = task.stopped() => return,
            mounted = prepare(shared, task, &pod) => match mounted {
                Ok(()) => run_sandbox(shared, task, &pod).await,
                Err(failure) => Err(Some(failure)),
            },
        };
        let Err(failure) = done else { return refresh::schedule(shared, task, false) };
        let Some((reason, message)) = failure else { return };
        tracing::info!(pod = task.key.as_str(), reason, message, "failed to set up pod, retrying");
        task.cache.lock().tell("", Severity::Warning, reason, message);
        shared.wake(task);
        tokio::select! {
            () = task.stopped() => return,
            () = shared.parts.runtime_state.network_ready(), if reason == NETWORK_NOT_READY => {}
            () = shared.parts.env.sleep(pause) => {}
        }
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

/// The event's reason, as kubelet's.
const STATUS_FAILED: &str = "FailedPodSandBoxStatus";

pub type Failure = (&'static str, String);

/// What has to be there before the sandbox.
async fn prepare(shared: &Shared, task: &PodTask, pod: &Value) -> Result<(), Failure> {
    if !Pod::read(pod).host_network
        && let Some(why) = shared.parts.runtime_state.network_problem()
    {
        return Err((NETWORK_NOT_READY, format!("network is not ready: {why}")));
    }
    shared.parts.objects.register(pod);
    let mounted = shared.parts.volumes.mount(pod).await;
    let known = |volumes: BTreeMap<String, MountedVolume>| {
        let mut cache = task.cache.lock();
        for warning in volumes.values().filter_map(|volume| volume.warning.clone()) {
            cache.tell("", Severity::Warning, "AlreadyMountedVolume", warning);
        }
        cache.volumes = Some(Arc::new(volumes));
    };
    mounted.map(known).map_err(|error| {
        let told: Vec<&str> = error.events().collect();
        let told = if told.is_empty() {
            format!("Unable to attach or mount volumes: {}", error.summary())
        } else {
            told.join("; ")
        };
        ("FailedMount", told)
    })
}

/// Not to be cut short: what the runtime made must be known. `Err(None)`: the pod ends, or the process, and another one makes it.
async fn run_sandbox(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    pod: &Arc<Value>,
) -> Result<(), Option<Failure>> {
    let is_first = {
        let cache = task.cache.lock();
        cache.sandbox.is_none() && !cache.sandbox_unsure
    };
    if task.has_ready_sandbox() {
        return Ok(());
    }
    if !is_first {
        previous::end_containers(shared, task).await;
    }
    let guard = task.uninterrupted.clone().lock_owned().await;
    if task.has_ready_sandbox() {
        return Ok(());
    }
    // It may have been stopped while the last of it ended: whoever does that waits for this lock.
    if shared.is_ending() || task.is_stopping() {
        return Err(None);
    }
    let (shared_too, task_too, pod) = (shared.clone(), task.clone(), pod.clone());
    let run = async move {
        let _guard = guard;
        let (shared, task) = (shared_too, task_too);
        let attempt = match is_first {
            true => Some(0),
            false => previous::replace(&shared, &task, &pod).await?,
        };
        let Some(attempt) = attempt else { return Ok(()) };
        let sandbox = shared.sandbox_config(&task, &pod, attempt).await;
        let (sandbox, runtime_handler) = sandbox.map_err(|error| failed(&error))?;
        {
            let mut cache = task.cache.lock();
            for event in sandbox.events.into_iter().filter(|event| event.about == About::Pod) {
                cache.tell("", event.severity, event.reason, event.message);
            }
        }
        shared.make_groups(&pod).await.map_err(|message| ("FailedCreatePodContainer", message))?;
        let config = Arc::new(sandbox.config);
        task.cache.lock().sandbox_config = Some(config.clone());
        let request = cri::RunPodSandboxRequest { config: Some((*config).clone()), runtime_handler };
        let made = shared.parts.cri.run_pod_sandbox(request).await;
        shared.parts.metrics.sandbox_made(made.is_ok());
        task.cache.lock().sandbox_unsure = made.is_err();
        let id = made.map_err(|error| failed(&error))?.pod_sandbox_id;
        let is_host = Pod::read(&pod).host_network;
        let ips = shared.addresses(&id).await;
        let failure = match &ips {
            Err(error) => Some((STATUS_FAILED, format!("Unable to get pod sandbox status: {error}"))),
            Ok(Some(ips)) if ips.is_empty() => Some(failed("it has no IP address")),
            Ok(_) => None,
        };
        if let Some(failure) = failure.filter(|_| !is_host) {
            // It is over: stopped before the next one is made, or with its pod.
            task.cache.lock().set_sandbox(SandboxRef { id, attempt, ready: false, ips: Vec::new() });
            return Err(failure);
        }
        let ips = ips.ok().flatten().unwrap_or_default();
        task.cache.lock().set_sandbox(SandboxRef { id, attempt, ready: true, ips });
        Ok(())
    };
    // An error of the join is a panic of ours: told where it happened.
    let made = shared.parts.env.spawn("run pod sandbox", run).await;
    made.unwrap_or_else(|error| Err(failed(&error))).map_err(Some)
}

pub fn failed(error: impl std::fmt::Display) -> Failure {
    ("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {error}"))
}

impl Shared {
    /// `None`: the runtime does not say anything of its network.
    pub(super) async fn addresses(&self, sandbox: &str) -> Result<Option<Vec<String>>, cri::Error> {
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: false };
        let status = self.parts.cri.pod_sandbox_status(request).await?;
        let Some(network) = status.status.and_then(|status| status.network) else { return Ok(None) };
        let more = network.additional_ips.iter().map(|ip| &*ip.ip);
        let all = std::iter::once(&*network.ip).chain(more);
        let ipv6_first = (self.parts.host_ips)().first().is_some_and(IpAddr::is_ipv6);
        Ok(Some(primary_first(all, ipv6_first)))
    }
}

/// One of each family at most, that of the node's primary address first: runtimes have any number in any order.
fn primary_first<'a>(ips: impl Iterator<Item = &'a str>, ipv6_first: bool) -> Vec<String> {
    let all: Vec<IpAddr> = ips.filter_map(|ip| ip.parse().ok()).collect();
    let of = |ipv6: bool| all.iter().find(|ip| ip.is_ipv6() == ipv6);
    of(ipv6_first).into_iter().chain(of(!ipv6_first)).map(IpAddr::to_string).collect()
}

/// The object changed while the pod runs: limits of its containers, what its volumes show of it.
pub async fn update(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let pod = task.cache.lock().pod.clone();
    shared.parts.objects.register(&pod);
    let refreshed = shared.parts.volumes.refresh(&pod).await;
    refresh::schedule(shared, task, refreshed.is_err());
    if let Err(error) = refreshed {
        let mut cache = task.cache.lock();
        for event in error.events() {
            cache.tell("", Severity::Warning, "FailedMount", event);
        }
    }
    let waits = {
        let cache = task.cache.lock();
        cache.resize_error.is_some() && shared.now() < cache.resize_retry
    };
    let resized = if waits { None } else { Some(resize::resize(shared, task, &pod).await) };
    let mut cache = task.cache.lock();
    if let Some(resized) = resized {
        cache.resize_error = resized.err();
        cache.resize_retry = shared.now().saturating_add(RESIZE_RETRY_MILLIS);
    }
    // Otherwise there is news already, and this is done once more.
    cache.resizing = !Arc::ptr_eq(&cache.pod, &pod);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_an_address_of_each_family_that_of_its_nodes_first() {
        let of = |ipv6_first: bool| {
            primary_first(["fd00:0::9", "10.0.0.9", "", "fd00::10", "10.0.0.10"].into_iter(), ipv6_first)
        };
        assert_eq!(of(false), ["10.0.0.9", "fd00::9"]);
        assert_eq!(of(true), ["fd00::9", "10.0.0.9"]);
        assert_eq!(primary_first(["fd00::9"].into_iter(), false), ["fd00::9"]);
    }
}
