//! The end of containers and pods: asked, then forced; then what they had is given back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use node::container_runtime::Evicted;
use node::pod::{Pod, Role, short_uid};
use object::Value;
use runtime::Severity;
use tokio::sync::watch;

use super::cache::Release;
use super::end::{LEAST_GRACE_SECONDS, Manner, end, end_in_turn};
use super::{PodTask, Pods, Shared, garbage, recover};
use crate::shutdown::{self, EndPods};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MOST_PAUSE: Duration = Duration::from_secs(30);
/// How long a pod that the node ends by itself may take beside its grace, at least; then people are told, in kubelet's words.
const LEAST_WAIT_SECONDS: u64 = 10;
const EXCEEDED: &str = "Container runtime did not kill the pod within specified grace period.";

/// Ends all containers of a pod. Asked again with less grace, the shorter one counts.
pub fn stop(shared: &Arc<Shared>, task: &Arc<PodTask>, grace_seconds: i64) {
    task.stopping.send_replace(true);
    let by = shared.now().saturating_add(grace_seconds.max(0).saturating_mul(1000));
    {
        let mut cache = task.cache.lock();
        // Asked for once more, with nothing new.
        if cache.stop_by.is_some_and(|known| known <= by) {
            return;
        }
        cache.stop_by = Some(by);
    }
    shared.probes.terminate(&task.uid);
    let (shared, task) = (shared.clone(), task.clone());
    let env = shared.parts.env.clone();
    env.spawn("stop pod", async move {
        let ending = end_all(&shared, &task, grace_seconds);
        tokio::pin!(ending);
        // Of others, whoever asked waits for their end.
        if task.cache.lock().evicted.is_some() {
            let grace_seconds = grace_seconds.max(0).unsigned_abs();
            let limit = Duration::from_secs((grace_seconds + grace_seconds / 2).max(LEAST_WAIT_SECONDS));
            if shared.parts.env.timeout(limit, &mut ending).await.is_ok() {
                return;
            }
            task.cache.lock().tell("", Severity::Warning, "ExceededGracePeriod", EXCEEDED);
            shared.wake(&task);
        }
        ending.await;
    });
}

/// For a machine that goes down: the agent's worker ends the pod, and says why.
impl EndPods<String> for Pods {
    fn end<'a>(&'a self, uid: String, grace_seconds: i64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(task) = self.shared.task(short_uid(&uid)) else { return };
            let mut released = task.released.subscribe();
            let evicted = Evicted {
                reason: shutdown::REASON.into(),
                message: shutdown::MESSAGE.to_owned(),
                grace_seconds,
                disruption: Some(shutdown::MESSAGE.to_owned()),
            };
            if self.evict(&uid, evicted) {
                // Fails only when the task is gone, which this holds. Told before it is released: whoever waits here may
                // switch the machine off.
                let _ = released.wait_for(|released| *released).await;
            }
        })
    }
}

/// Ends what runs, all at once, and returns when nothing does: each container has its hook, then waits for its turn, then has its signal, within one grace.
async fn end_all(shared: &Arc<Shared>, task: &Arc<PodTask>, grace_seconds: i64) {
    // What is being started is waited for: it ends like the others.
    drop(task.uninterrupted.lock().await);
    let tree = task.cache.lock().pod.clone();
    let running = running(task);
    let order = TerminationOrder::new(&Pod::read(&tree), running.iter().map(|(name, _)| &**name));
    let manner = Manner { grace_seconds, hook: Some(&tree), order: Some(&order) };
    let ends = running.iter().map(|(name, id)| async {
        end(shared, task, name, id, manner).await;
        order.ended(name);
    });
    futures_util::future::join_all(ends).await;
    shared.wake(task);
}

/// A sidecar ends after the containers it is there for, and after the sidecar that was started next.
pub struct TerminationOrder {
    /// Of what runs, by name: whether it has ended.
    ended: BTreeMap<String, watch::Sender<bool>>,
    /// What a sidecar waits for, by its name.
    before: BTreeMap<String, Vec<String>>,
}

impl TerminationOrder {
    fn new<'a>(pod: &Pod<'_>, running: impl Iterator<Item = &'a str>) -> TerminationOrder {
        let named = |role: Role| pod.containers.iter().filter(move |c| c.role == role).map(|c| c.name);
        let mut before = BTreeMap::new();
        let mut next = None;
        for sidecar in named(Role::Sidecar).collect::<Vec<_>>().into_iter().rev() {
            let earlier = named(Role::Main).chain(next.replace(sidecar)).map(str::to_owned);
            before.insert(sidecar.to_owned(), earlier.collect());
        }
        let ended = running.map(|name| (name.to_owned(), watch::Sender::new(false))).collect();
        TerminationOrder { ended, before }
    }

    /// Waits as long as there is grace left; the whole seconds that took.
    pub async fn wait_for_turn(&self, shared: &Shared, name: &str, grace_seconds: i64) -> i64 {
        let (Some(before), 1..) = (self.before.get(name), grace_seconds) else { return 0 };
        let env = &shared.parts.env;
        let start = env.monotonic();
        let all = async {
            for mut ended in
                before.iter().filter_map(|name| self.ended.get(name)).map(watch::Sender::subscribe)
            {
                // Fails only when the sender is gone, which this holds.
                let _ = ended.wait_for(|ended| *ended).await;
            }
        };
        // Its time is up either way.
        let _ = env.timeout(Duration::from_secs(grace_seconds.unsigned_abs()), all).await;
        let took = env.monotonic().saturating_duration_since(start).as_secs();
        i64::try_from(took).unwrap_or(grace_seconds)
    }

    fn ended(&self, name: &str) {
        if let Some(ended) = self.ended.get(name) {
            ended.send_replace(true);
        }
    }
}

/// Name and id of what runs, as far as is known.
fn running(task: &PodTask) -> Vec<(String, String)> {
    let cache = task.cache.lock();
    let runs = cache.containers.iter().filter_map(|(name, slot)| Some((name.clone(), slot.running()?)));
    runs.map(|(name, id)| (name, id.to_owned())).collect()
}

/// Ends one container: its hook, then its signal, then by force. Returns when it has ended.
pub async fn container(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    tree: &Value,
    name: &str,
    id: &str,
    grace_seconds: i64,
) {
    end(shared, task, name, id, Manner { grace_seconds, hook: Some(tree), order: None }).await;
}

/// Ends what runs in a sandbox that is gone: nothing stays outside of the one that comes.
pub async fn end_for_another(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let grace_seconds = {
        let mut cache = task.cache.lock();
        let running: Vec<String> = cache
            .containers
            .iter()
            .filter(|(_, slot)| slot.running().is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in running {
            cache.tell(&name, Severity::Normal, "Killing", format!("Stopping container {name}"));
        }
        Pod::read(&cache.pod).grace_seconds
    };
    end_all(shared, task, grace_seconds).await;
}

/// Ends one container without its hook. What is being started is waited for, by whoever asks again.
pub fn kill(shared: &Arc<Shared>, task: &Arc<PodTask>, name: &str) {
    let running = running(task).into_iter().find(|(of, _)| of == name);
    let Some((name, id)) = running else { return };
    // Otherwise that is done already.
    let Ok(turn) = task.cache.lock().slot(&name).begin_end(&id, shared.now()) else { return };
    let (shared, task) = (shared.clone(), task.clone());
    let env = shared.parts.env.clone();
    env.spawn("kill container", async move {
        let manner = Manner { grace_seconds: 0, hook: None, order: None };
        end_in_turn(&shared, &task, (&name, &id), manner, &turn).await;
    });
}

/// Nothing is started any more; how many seconds what still runs has to end.
fn begin_stopping(shared: &Shared, task: &PodTask) -> i64 {
    let first = !task.stopping.send_replace(true);
    let cache = task.cache.lock();
    match cache.stop_by {
        // A second that has begun is one: with less time than before, this would take over.
        Some(by) => ((by - shared.now()).max(0) + 999) / 1000,
        None if first && cache.pod.as_map().is_some() => Pod::read(&cache.pod).grace_seconds,
        None => LEAST_GRACE_SECONDS,
    }
}

/// Gives back what a pod does not need any more in which nothing runs. What nobody knows to have ended is ended first.
pub fn release(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let grace_seconds = begin_stopping(shared, task);
    let (shared, task) = (shared.clone(), task.clone());
    let env = shared.parts.env.clone();
    env.spawn("release pod", async move {
        end_all(&shared, &task, grace_seconds).await;
        give_back(&shared, &task).await;
        let evicted = {
            let mut cache = task.cache.lock();
            cache.release = Release::Done;
            cache.is_evicted()
        };
        task.released.send_replace(true);
        shared.wake(&task);
        if evicted {
            // What its containers wrote is what the node is short of.
            garbage::collect_containers(&shared, false).await;
        }
    });
}

/// Tried until it succeeds: nothing else would find what is left.
async fn give_back(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    shared.probes.remove(&task.uid);
    let mut pause = FIRST_PAUSE;
    while let Err(why) = try_give_back(shared, task).await {
        tracing::warn!(pod = task.key.as_str(), error = why, "failed to release pod, retrying");
        shared.parts.env.sleep(pause).await;
        pause = (pause * 2).min(MOST_PAUSE);
    }
    shared.parts.objects.unregister(&task.uid);
}

async fn try_give_back(shared: &Arc<Shared>, task: &Arc<PodTask>) -> Result<(), String> {
    shared.stop_sandbox(task).await.map_err(|error| error.to_string())?;
    if task.cache.lock().sandbox_unsure {
        for sandbox in recover::sandboxes(shared, task).await.map_err(|error| error.to_string())? {
            shared.stop_listed(sandbox.id).await.map_err(|error| error.to_string())?;
        }
    }
    shared.parts.volumes.unmount(&task.uid).await.map_err(|error| error.to_string())?;
    shared.remove_groups(&task.uid).await
}

impl Shared {
    /// The one there is, if there is one.
    pub(super) async fn stop_sandbox(&self, task: &PodTask) -> Result<(), cri::Error> {
        let Some(sandbox) = task.sandbox() else { return Ok(()) };
        self.stop_listed(sandbox.id).await?;
        if let Some(sandbox) = &mut task.cache.lock().sandbox {
            sandbox.ready = false;
        }
        Ok(())
    }

    async fn stop_listed(&self, id: String) -> Result<(), cri::Error> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id };
        match self.parts.cri.stop_pod_sandbox(request).await {
            Err(error) if error.code != cri::Code::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Ends what runs and forgets everything. A pod that is gone without having been asked to end has the time its spec gives it; of
/// one that nobody told this process of, nothing is known to go by.
pub fn remove(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    if task.removing.swap(true, Ordering::Relaxed) {
        return;
    }
    let grace_seconds = begin_stopping(shared, task);
    shared.probes.terminate(&task.uid);
    let (shared, task) = (shared.clone(), task.clone());
    let env = shared.parts.env.clone();
    env.spawn("remove pod", async move {
        end_all(&shared, &task, grace_seconds).await;
        give_back(&shared, &task).await;
        let mut pause = FIRST_PAUSE;
        while let Err(error) = remove_from_runtime(&shared, &task).await {
            tracing::warn!(pod = task.key.as_str(), %error, "failed to remove pod, retrying");
            shared.parts.env.sleep(pause).await;
            pause = (pause * 2).min(MOST_PAUSE);
        }
        shared.remove_directories(&task).await;
        shared.release_users(&task.uid).await;
        shared.pods.lock().remove(&task.uid());
        // Another pod with its name may wait for this.
        shared.wake(&task);
    });
}

async fn remove_from_runtime(shared: &Arc<Shared>, task: &Arc<PodTask>) -> Result<(), cri::Error> {
    let cri = &shared.parts.cri;
    for sandbox in recover::sandboxes(shared, task).await? {
        let pod_sandbox_id = sandbox.id;
        cri.stop_pod_sandbox(cri::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() }).await?;
        // With its containers.
        cri.remove_pod_sandbox(cri::RemovePodSandboxRequest { pod_sandbox_id }).await?;
    }
    Ok(())
}
