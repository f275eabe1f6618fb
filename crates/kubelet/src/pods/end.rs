//! The end of one run of a container: its hook, its signal, then by force; tried until it is over. One at a time sees to that:
//! whoever has less time for it takes over, the others wait.

use std::sync::Arc;
use std::time::Duration;

use node::container_runtime::Millis;
use node::pod::Pod;
use object::Value;
use runtime::Severity;
use tokio::sync::watch;

use super::cache::{Run, RunState, Slot};
use super::news::{FIRST_PAUSE, MOST_PAUSE};
use super::stop::TerminationOrder;
use super::{PodTask, Shared};
use crate::hooks::{Hook, HookEvent};

/// A container has at least so long to end after its signal, whatever is left of the grace.
pub const LEAST_GRACE_SECONDS: i64 = 2;

/// A run that is being ended.
pub struct Ending {
    id: String,
    /// When it is ended by force.
    by: Millis,
    turn: u64,
    /// Closed when whoever ends it does so no longer.
    over: watch::Receiver<()>,
    /// Closed when its hook is done; `None`: it has not begun.
    hook: Option<watch::Receiver<()>>,
}

/// To end a run, until somebody takes over.
pub struct Turn {
    number: u64,
    _over: watch::Sender<()>,
}

impl Slot {
    /// `Err`: somebody does so already, and does not have a second more: a grace has whole ones.
    pub fn begin_end(&mut self, id: &str, by: Millis) -> Result<Turn, watch::Receiver<()>> {
        let known = self.ending.as_ref();
        let number = known.map_or(0, |known| known.turn + 1);
        let known = known.filter(|known| known.id == id);
        if let Some(known) =
            known.filter(|known| known.by < by.saturating_add(1000) && known.over.has_changed().is_ok())
        {
            return Err(known.over.clone());
        }
        let hook = known.and_then(|known| known.hook.clone());
        let (sender, over) = watch::channel(());
        self.ending = Some(Ending { id: id.to_owned(), by, turn: number, over, hook });
        Ok(Turn { number, _over: sender })
    }

    fn is_ended_by(&self, turn: &Turn) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.turn == turn.number)
    }

    /// `Err`: it began before. Nobody is told twice of their end.
    fn begin_hook(&mut self, id: &str) -> Result<Option<watch::Sender<()>>, watch::Receiver<()>> {
        let Some(ending) = self.ending.as_mut().filter(|ending| ending.id == id) else { return Ok(None) };
        if let Some(hook) = &ending.hook {
            return Err(hook.clone());
        }
        let (sender, hook) = watch::channel(());
        ending.hook = Some(hook);
        Ok(Some(sender))
    }
}

impl PodTask {
    fn may_run(&self, name: &str, id: &str) -> bool {
        self.cache.lock().containers.get(name).is_some_and(|slot| slot.may_run(id))
    }

    /// Returns when that run has ended, as far as is known.
    async fn ended(&self, name: &str, id: &str) {
        loop {
            let news = self.cache.lock().slot(name).news.clone();
            let told = news.notified();
            if !self.may_run(name, id) {
                return;
            }
            told.await;
        }
    }

    fn has_lost_sandbox(&self) -> bool {
        self.cache.lock().sandbox.as_ref().is_some_and(|sandbox| !sandbox.ready)
    }

    fn is_ended_by(&self, name: &str, turn: &Turn) -> bool {
        self.cache.lock().containers.get(name).is_some_and(|slot| slot.is_ended_by(turn))
    }
}

/// How a run ends.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    pub grace_seconds: i64,
    /// The pod, if the container is told of its end by its hook.
    pub hook: Option<&'a Value>,
    /// It waits for others.
    pub order: Option<&'a TerminationOrder>,
}

/// Returns when the run has ended, by whomever.
pub async fn end(shared: &Arc<Shared>, task: &Arc<PodTask>, name: &str, id: &str, manner: Manner<'_>) {
    let by = shared.now().saturating_add(manner.grace_seconds.max(0).saturating_mul(1000));
    let left = Countdown::new(shared, manner.grace_seconds);
    while task.may_run(name, id) {
        let begun = task.cache.lock().slot(name).begin_end(id, by);
        match begun {
            Ok(turn) => {
                let manner = Manner { grace_seconds: left.seconds(shared), ..manner };
                end_in_turn(shared, task, (name, id), manner, &turn).await;
            }
            // Fails when it is over, and succeeds never.
            Err(mut over) => drop(over.changed().await),
        }
    }
}

/// Returns when the run has ended, or somebody took over.
pub async fn end_in_turn(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    (name, id): (&str, &str),
    manner: Manner<'_>,
    turn: &Turn,
) {
    let mut grace_seconds = manner.grace_seconds;
    if let Some(pod) = manner.hook {
        grace_seconds = pre_stop(shared, task, pod, name, id, grace_seconds).await;
    }
    if let Some(order) = manner.order {
        grace_seconds -= order.wait_for_turn(shared, name, grace_seconds).await;
    }
    let left = Countdown::new(shared, grace_seconds);
    let mut pause = FIRST_PAUSE;
    while task.is_ended_by(name, turn) {
        let seconds = left.seconds(shared);
        let stopped = stop_container(shared, task, name, id, seconds).await;
        if !task.may_run(name, id) {
            return;
        }
        // One that is lost makes room for another once nothing runs in it.
        let is_given_up = task.is_stopping() || task.has_lost_sandbox();
        // What the runtime says it stopped, it has some more time to tell of.
        if is_given_up && seconds <= 0 && (!stopped || pause == MOST_PAUSE) {
            end_with_sandbox(shared, task, name, id).await;
            if !task.may_run(name, id) {
                return;
            }
        }
        // It is time for the next attempt either way.
        let _ = shared.parts.env.timeout(pause, task.ended(name, id)).await;
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

/// With all that is in the sandbox: once the runtime has stopped that, a run has ended unless the runtime says otherwise.
async fn end_with_sandbox(shared: &Arc<Shared>, task: &Arc<PodTask>, name: &str, id: &str) {
    let stopped = shared.stop_sandbox(task).await;
    if let Err(error) = &stopped {
        tracing::warn!(pod = task.key.as_str(), %error, "failed to stop sandbox");
    }
    let is_known = shared.refresh(task, name, id).await;
    let runs = is_known && task.cache.lock().slot(name).run.as_ref().is_some_and(Run::is_running);
    if stopped.is_ok() && !runs {
        shared.lose(task, name, id);
    }
    shared.wake(task);
}

/// What is left of a grace.
struct Countdown {
    since: tokio::time::Instant,
    seconds: i64,
}

impl Countdown {
    fn new(shared: &Shared, seconds: i64) -> Countdown {
        Countdown { since: shared.parts.env.monotonic(), seconds }
    }

    /// Whole seconds, those begun included.
    fn seconds(&self, shared: &Shared) -> i64 {
        let took = shared.parts.env.monotonic().saturating_duration_since(self.since);
        self.seconds.saturating_sub_unsigned(took.as_secs())
    }
}

/// Its hook, if it has one and there is time for it. What is left of the grace then.
async fn pre_stop(
    shared: &Shared,
    task: &Arc<PodTask>,
    tree: &Value,
    name: &str,
    id: &str,
    grace_seconds: i64,
) -> i64 {
    let pod = Pod::read(tree);
    let spec = pod.containers.iter().find(|container| container.name == name).map(|container| container.spec);
    let spec = spec.filter(|spec| spec.at(&["lifecycle", "preStop"]).is_some());
    let (Some(spec), 1..) = (spec, grace_seconds) else { return grace_seconds };
    let begun = task.cache.lock().slot(name).begin_hook(id);
    let _done = match begun {
        Ok(done) => done,
        // Differs from kubelet, which runs it again with less grace, and after the runtime failed to stop the container.
        Err(mut done) => {
            let left = Countdown::new(shared, grace_seconds);
            let limit = Duration::from_secs(grace_seconds.unsigned_abs());
            // Its time is up either way.
            let _ = shared.parts.env.timeout(limit, done.changed()).await;
            return left.seconds(shared);
        }
    };
    let target = shared.target(task, tree, id);
    let events =
        |event: HookEvent| task.cache.lock().tell(name, Severity::Warning, event.reason, event.message);
    let hook = Hook { pod: tree, container: spec, target: &*target, events: &events };
    shared.parts.hooks.pre_stop(hook, grace_seconds).await
}

/// Its signal, then by force. `false`: the runtime failed to.
async fn stop_container(
    shared: &Arc<Shared>,
    task: &Arc<PodTask>,
    name: &str,
    id: &str,
    grace_seconds: i64,
) -> bool {
    let timeout = grace_seconds.max(LEAST_GRACE_SECONDS);
    let request = cri::StopContainerRequest { container_id: id.to_owned(), timeout };
    let stopped = shared.parts.cri.stop_container(request).await;
    let failed = stopped.err().filter(|error| error.code != cri::Code::NotFound);
    if let Some(error) = &failed {
        let told = format!(
            "error killing pod: failed to \"KillContainer\" for \"{name}\" with KillContainerError: \"{error}\""
        );
        task.cache.lock().tell("", Severity::Warning, "FailedKillPod", told);
    }
    shared.refresh(task, name, id).await;
    if failed.is_none() {
        let run = task.cache.lock().slot(name).run.clone();
        if run.is_some_and(|run| run.id == id && run.state == RunState::Unknown) {
            // It has ended it, and still cannot tell how it is.
            shared.lose(task, name, id);
        }
    }
    shared.wake(task);
    failed.is_none()
}
