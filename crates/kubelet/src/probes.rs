//! Startup, liveness and readiness probes.
//!
//! ```text
//!  set ──> state (when is which probe due, what is known)  ──> results
//!            ^ answers            │ timers
//!            │                    v
//!          attempt <── one task takes what is due; a task for each probe that runs, none for those that wait
//!            └──> Outcome: the pod is to be looked at, told about, one of its containers killed
//! ```
//!
//! What is known belongs to one container, by its id: a restarted one begins anew.

mod attempt;
mod container;
mod health;
pub(crate) mod http;
pub(crate) mod spec;
mod state;
#[cfg(test)]
pub(crate) mod testing;
mod timers;
pub(crate) mod url;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ::env::Env;
use cri::ExecSyncRequest;
use futures_util::future::BoxFuture;
use object::Value;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use attempt::{Answered, Errored, Prober};
use container::{Container, Subject};
pub use state::Kind;
use state::{Answer, Checks};
use timers::Timers;

/// Probes of one pod that run at the same time; more of its own wait for one to end, in the order they came due. Each may hold a
/// socket, or a process. No pod waits for another's: a probe may hang as long as its pod likes.
const MAX_RUNNING: usize = 64;
/// Containers that started this much before the agent did were there before it.
const RESTART_GRACE: Duration = Duration::from_secs(10);
/// What a runtime has beside a command's own timeout.
const RUNTIME_LIMIT: Duration = Duration::from_secs(120);

/// What probes and hooks need of a container.
pub trait Target: Send + Sync {
    /// Runs a command in the container. A timeout is an error with [`cri::Code::DeadlineExceeded`]; zero means none.
    fn exec(&self, command: Vec<String>, timeout: Duration) -> BoxFuture<'_, Result<Executed, cri::Error>>;
    /// Where the container's ports are; the node's address for a pod in the node's network.
    fn pod_ip(&self) -> Option<String>;
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A container of a runtime.
pub struct RuntimeTarget {
    pub env: Env,
    pub runtime: Arc<dyn cri::Runtime>,
    pub container_id: String,
    /// Asked each time: it may change, or become known, while the container runs.
    pub pod_ip: Box<dyn Fn() -> Option<String> + Send + Sync>,
}

impl Target for RuntimeTarget {
    fn exec(&self, command: Vec<String>, timeout: Duration) -> BoxFuture<'_, Result<Executed, cri::Error>> {
        let request = ExecSyncRequest {
            container_id: self.container_id.clone(),
            cmd: command,
            timeout: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        };
        Box::pin(async move {
            let call = self.runtime.exec_sync(request);
            let answer = match timeout {
                Duration::ZERO => call.await,
                // The runtime ends the command in time; this is for one that does not.
                timeout => {
                    self.env.timeout(timeout.saturating_add(RUNTIME_LIMIT), call).await.unwrap_or_else(|_| {
                        Err(cri::Error::new(cri::Code::DeadlineExceeded, "context deadline exceeded"))
                    })
                }
            }?;
            Ok(Executed { code: answer.exit_code, stdout: answer.stdout, stderr: answer.stderr })
        })
    }

    fn pod_ip(&self) -> Option<String> {
        (self.pod_ip)()
    }
}

/// What probes tell about a container that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    pub started: bool,
    pub ready: bool,
    /// It failed a probe and has to end; so until another container takes its place.
    pub kill: Option<Kill>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    pub container_id: String,
    pub probe: Kind,
    /// Of the event `Killing`.
    pub message: String,
    /// The probe's own; the pod's otherwise.
    pub grace_seconds: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `started` or `ready` is another than before.
    Changed {
        uid: String,
        container: String,
    },
    /// A warning for people: `Unhealthy` or `ProbeWarning`.
    Event {
        uid: String,
        container: String,
        reason: &'static str,
        message: String,
    },
    Kill {
        uid: String,
        container: String,
        kill: Kill,
    },
}

/// Told in the order things happen, possibly from several tasks: it must not wait for anything.
pub type Outcomes = dyn Fn(Outcome) + Send + Sync;

/// The probes of all containers of a node. Dropped, nothing of it runs any more.
pub struct Probes {
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
}

struct Shared {
    prober: Prober,
    outcomes: Arc<Outcomes>,
    /// Of the wall clock.
    agent_started_nanos: i128,
    /// Guards what is known and due; held for a look or a change, never while a probe runs.
    state: Mutex<State>,
    /// Something may be due earlier than before.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<String, Pod>,
    timers: Timers,
    /// Counts containers, so that an answer about one that is gone is not taken for another's.
    epoch: u64,
}

struct Pod {
    is_terminating: bool,
    containers: BTreeMap<String, Container>,
    /// A permit for each of its probes that runs. At most one of each kind waits for a container.
    running: Arc<Semaphore>,
}

impl Default for Pod {
    fn default() -> Pod {
        let running = Arc::new(Semaphore::new(MAX_RUNNING));
        Pod { is_terminating: false, containers: BTreeMap::new(), running }
    }
}

/// One probe of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    uid: String,
    container: String,
    kind: Kind,
    epoch: u64,
}

impl Probes {
    pub fn new(env: &Env, outcomes: Arc<Outcomes>) -> Probes {
        let shared = Arc::new(Shared {
            prober: Prober { env: env.clone(), http: http::Client::new(env) },
            outcomes,
            agent_started_nanos: i128::try_from(env.now_nanos()).unwrap_or(i128::MAX),
            state: Mutex::default(),
            sooner: Notify::new(),
        });
        let driver = env.spawn("probes", drive(shared.clone()));
        Probes { shared, driver }
    }

    /// A container runs, since `started_at` (Unix nanoseconds). May be said again; another id is another container.
    pub fn set(
        &self,
        uid: &str,
        pod: &Value,
        container: &str,
        container_id: &str,
        started_at: i64,
        target: Arc<dyn Target>,
    ) {
        let Some(subject) = Subject::read(pod, uid, container, container_id) else { return };
        let is_terminating = pod.at(&["metadata", "deletionTimestamp"]).is_some_and(|at| !at.is_null());
        let shared = &self.shared;
        let env = &shared.prober.env;
        let now = env.monotonic();
        let mut state = shared.state.lock();
        let state = &mut *state;
        let of_pod = state.pods.entry(uid.to_owned()).or_default();
        of_pod.is_terminating |= is_terminating;
        let old = of_pod.containers.get(container);
        if old.is_some_and(|old| old.subject.container_id == container_id) {
            return;
        }
        let counts = old.map(|old| old.counts).unwrap_or_default();
        let age = i128::try_from(env.now_nanos()).unwrap_or(i128::MAX) - i128::from(started_at);
        let age = Duration::from_nanos(u64::try_from(age.max(0)).unwrap_or(u64::MAX));
        let grace = i128::try_from(RESTART_GRACE.as_nanos()).unwrap_or_default();
        let outlived = i128::from(started_at) < self.shared.agent_started_nanos - grace;
        // Differs from kubelet, which also puts off the first probe of new containers while the agent is young: only those that
        // are found running come all at once.
        let before = outlived.then(|| spec::before(pod, container, container_id));
        let jitter = |period: Duration| {
            Duration::from_millis(
                env.random_below(u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1)),
            )
        };
        let checks = Checks::new(subject.timings(), age, now, before, jitter);
        state.epoch += 1;
        let mut new = Container::new(subject, target, checks, state.epoch);
        new.counts = counts;
        if of_pod.is_terminating {
            new.checks.terminate(now);
        }
        if let Some(mut old) = of_pod.containers.insert(container.to_owned(), new) {
            old.cancel(&mut state.timers);
        }
        state.schedule(uid, container);
        shared.sooner.notify_one();
    }

    /// The container ended. It is neither started nor ready until it is set again.
    pub fn stop(&self, uid: &str, container: &str) {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        let Some(pod) = state.pods.get_mut(uid) else { return };
        if let Some(container) = pod.containers.get_mut(container) {
            container.cancel(&mut state.timers);
        }
    }

    /// The pod is being deleted: only readiness goes on.
    pub fn terminate(&self, uid: &str) {
        self.each(uid, true, |container, now| container.checks.terminate(now));
    }

    /// Something about the pod changed that is not its status: those of its containers that are not ready are asked at once.
    pub fn hurry(&self, uid: &str) {
        self.each(uid, false, |container, now| container.checks.hurry(now));
    }

    fn each(&self, uid: &str, terminates: bool, change: impl Fn(&mut Container, tokio::time::Instant)) {
        let now = self.shared.prober.env.monotonic();
        let mut state = self.shared.state.lock();
        let Some(pod) = state.pods.get_mut(uid) else { return };
        pod.is_terminating |= terminates;
        pod.containers.values_mut().for_each(|container| change(container, now));
        let names: Vec<String> = pod.containers.keys().cloned().collect();
        names.iter().for_each(|container| state.schedule(uid, container));
        self.shared.sooner.notify_one();
    }

    /// The pod is gone.
    pub fn remove(&self, uid: &str) {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        if let Some(pod) = state.pods.remove(uid) {
            pod.containers.into_values().for_each(|mut container| container.cancel(&mut state.timers));
        }
    }

    /// Of a container that was not set, or ended, nothing is true.
    pub fn results(&self, uid: &str, container: &str) -> Probed {
        let state = self.shared.state.lock();
        let container = state.pods.get(uid).and_then(|pod| pod.containers.get(container));
        container.map(Container::probed).unwrap_or_default()
    }

    /// `prober_probe_total` in Prometheus' text format.
    pub fn write_metrics(&self, out: &mut String) {
        let help =
            "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
        let _ = writeln!(out, "# HELP prober_probe_total {help}\n# TYPE prober_probe_total counter");
        let state = self.shared.state.lock();
        state
            .pods
            .values()
            .flat_map(|pod| pod.containers.values())
            .for_each(|container| container.write(out));
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.driver.abort();
        // Probes under way end with their containers.
        let pods = std::mem::take(&mut self.shared.state.lock().pods);
        drop(pods);
    }
}

impl State {
    /// Brings the timers of a container in line with what it is due for.
    fn schedule(&mut self, uid: &str, container: &str) {
        let Some(of) = self.pods.get_mut(uid).and_then(|pod| pod.containers.get_mut(container)) else {
            return;
        };
        for kind in Kind::ALL {
            let (due, timer) = (of.due(kind), of.timers[kind as usize]);
            if timer.map(|timer| timer.at) == due {
                continue;
            }
            if let Some(timer) = timer {
                self.timers.remove(timer);
            }
            let key = || Key { uid: uid.to_owned(), container: container.to_owned(), kind, epoch: of.epoch };
            of.timers[kind as usize] = due.map(|at| self.timers.insert(at, key()));
        }
    }

    fn find(&mut self, key: &Key) -> Option<&mut Container> {
        let container = self.pods.get_mut(&key.uid)?.containers.get_mut(&key.container)?;
        (container.epoch == key.epoch).then_some(container)
    }
}

/// Are these the same pod to whoever probes it? What the node itself reports, after each probe, is no news to it.
pub fn is_same(old: &Value, new: &Value) -> bool {
    let metadata = ["labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds"];
    old.get("spec") == new.get("spec")
        && metadata.iter().all(|field| old.at(&["metadata", field]) == new.at(&["metadata", field]))
}

/// Starts what is due.
async fn drive(shared: Arc<Shared>) {
    let env = shared.prober.env.clone();
    loop {
        loop {
            let next = shared.state.lock().timers.first();
            match next {
                Some(at) if at <= env.monotonic() => break,
                Some(at) => tokio::select! {
                    _ = env.sleep_until(at) => {}
                    _ = shared.sooner.notified() => {}
                },
                None => shared.sooner.notified().await,
            }
        }
        shared.start_first();
    }
}

impl Shared {
    fn start_first(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let Some(key) = state.timers.pop() else { return };
        let Some(turns) = state.pods.get(&key.uid).map(|pod| pod.running.clone()) else { return };
        let Some(container) = state.find(&key) else { return };
        container.timers[key.kind as usize] = None;
        let Some(probe) = container.subject.probes[key.kind as usize].clone() else { return };
        container.checks.begin(key.kind);
        let (target, whose) = (container.target.clone(), container.subject.described());
        let (shared, kind) = (self.clone(), key.kind);
        let task = self.prober.env.spawn("probe", async move {
            // Never closed.
            let Ok(turn) = turns.acquire_owned().await else { return };
            let answer = shared.prober.run(&probe, &target, &whose).await;
            drop(turn);
            shared.answered(&key, answer);
        });
        container.running[kind as usize] = Some(container::Running(task.abort_handle()));
    }

    fn answered(&self, key: &Key, answer: Result<Answered, Errored>) {
        let now = self.prober.env.monotonic();
        let name = key.kind.name();
        let (answer, event) = match answer {
            Ok(Answered::Success) => (Some(Answer::Success), None),
            Ok(Answered::Warning(output)) => {
                (Some(Answer::Success), Some(("ProbeWarning", format!("{name} probe warning: {output}"))))
            }
            Ok(Answered::Failure(output)) => {
                (Some(Answer::Failure), Some(("Unhealthy", format!("{name} probe failed: {output}"))))
            }
            Err(Errored { state, why }) => {
                let message = format!("{name} probe errored and resulted in {state} state: {why}");
                (None, Some(("Unhealthy", message)))
            }
        };
        let mut told = Vec::new();
        let about = || (key.uid.clone(), key.container.clone());
        {
            let mut state = self.state.lock();
            let Some(container) = state.find(key) else { return };
            container.running[key.kind as usize] = None;
            if container.is_over {
                return;
            }
            if let Some((reason, message)) = event {
                let (uid, container) = about();
                told.push(Outcome::Event { uid, container, reason, message });
            }
            let before = container.probed();
            container.count(key.kind, answer);
            container.checks.answer(key.kind, answer, now);
            let after = container.probed();
            if (after.started, after.ready) != (before.started, before.ready) {
                let (uid, container) = about();
                told.push(Outcome::Changed { uid, container });
            }
            if let (Some(kill), None) = (after.kill, before.kill) {
                let (uid, container) = about();
                told.push(Outcome::Kill { uid, container, kill });
            }
            state.schedule(&key.uid, &key.container);
        }
        self.sooner.notify_one();
        told.into_iter().for_each(|outcome| (self.outcomes)(outcome));
    }
}

#[cfg(test)]
mod tests;
