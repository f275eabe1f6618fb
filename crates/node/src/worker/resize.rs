//! In-place resize: what a pod asks for now may be more than its node has to give.
//!
//! ```text
//!  spec.resources ──fits?── yes ──> given: limits are set anew, or the container is restarted ──> PodResizeInProgress, until it is so
//!                    └────── no ──> PodResizePending, and the pod keeps what the status says it was given
//! ```
//! What a pod was given is written down before anything goes by it ([`Runtime::allocate`]), so that a process that comes later neither
//! takes it back nor gives more. Without such a record, the status of the pod tells, of what was started.

use std::collections::{BTreeMap, BTreeSet};

use object::{Map, Value, time};
use runtime::Severity;

use crate::admit::Rejection;
use crate::allocation::{Allocation, differs, is_resizable, pod_level_by_status, resources, said};
use crate::container_runtime::{Container as State, Millis, RESIZE_RETRY_MILLIS, Running, Runtime, Sandbox};
use crate::pod::{Container, Pod, Requests};
use crate::worker::{PodWorker, Stage, SyncResult, conditions};

/// How long a resize that does not fit waits for the next attempt, if no other pod makes room before.
const RETRY_MILLIS: Millis = 180_000;

const INFEASIBLE: &str = "Infeasible";

#[derive(Debug, Default)]
pub struct Resize {
    pub pending: Option<Box<Pending>>,
    pub progress: Option<Box<Progress>>,
    /// What the pod was given. `None`: it is new, or its status says all of it and nobody else keeps that.
    allocated: Option<Box<Allocation>>,
    /// The pod is from before this process, which may not have carried out all it gave.
    pub resumes: bool,
}

/// It waits: there was no room for it, or others come first; or it is not to be had at all.
#[derive(Debug, PartialEq, Eq)]
pub struct Pending {
    pub reason: PendingReason,
    /// Why it was refused last; `None`: it was not tried yet.
    pub message: Option<String>,
    /// Of the spec that was refused.
    pub generation: i64,
    /// What the pod asks for.
    pub wanted: Requests,
    /// That is more than it has.
    pub grows: bool,
    /// When it was refused first.
    pub since: Option<Millis>,
    /// There may be room by now.
    pub due: bool,
    /// It is due then, whatever happens.
    pub again: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    Deferred,
    /// Not tried again before the pod asks for something else.
    Infeasible,
}

impl PendingReason {
    pub fn as_str(self) -> &'static str {
        match self {
            PendingReason::Deferred => "Deferred",
            PendingReason::Infeasible => INFEASIBLE,
        }
    }

    fn of(reason: &str) -> PendingReason {
        if reason == INFEASIBLE { PendingReason::Infeasible } else { PendingReason::Deferred }
    }

    fn event(self) -> &'static str {
        match self {
            PendingReason::Deferred => "ResizeDeferred",
            PendingReason::Infeasible => "ResizeInfeasible",
        }
    }
}

impl Pending {
    /// There may be room for it one day.
    pub fn waits_for_room(&self) -> bool {
        self.due || self.reason == PendingReason::Deferred
    }

    /// When it is to be looked at again, whatever happens.
    pub fn wake(&self) -> Option<Millis> {
        Some(self.again).filter(|_| self.waits_for_room())
    }
}

pub fn infeasible(message: String) -> Rejection {
    Rejection { reason: INFEASIBLE.to_owned(), message }
}

/// It was given, and is not everywhere yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub generation: i64,
    pub error: Option<String>,
    /// Containers that get it by a restart, by their place, with the number of restarts of the run that has what was before.
    restarts: BTreeMap<usize, u32>,
    /// Those of them that were asked for, and whose old run may not have ended yet.
    asked: BTreeSet<usize>,
}

impl Resize {
    /// What the pod has from before, if this process does not know it yet.
    pub fn recall(&mut self, pod: &Pod<'_>, runtime: &mut dyn Runtime) {
        if self.allocated.is_some() {
            return;
        }
        let known = runtime.allocated(pod);
        if known.is_none() && pod.started.is_none() {
            return;
        }
        let is_new = known.is_none();
        let allocated = known.unwrap_or_else(|| Allocation::of_status(pod));
        if is_new && !pod.is_over() {
            // As it is here, it is not less true for not being written down.
            note(runtime.allocate(pod, &allocated), pod);
        }
        self.allocated = Some(Box::new(allocated));
    }

    /// The pod gets what it asks for, as it is new to the node.
    pub fn admit(&mut self, pod: &Pod<'_>, runtime: &mut dyn Runtime) {
        let allocated = Allocation::of(pod);
        // As kubelet: the pod is taken either way.
        note(runtime.allocate(pod, &allocated), pod);
        self.allocated = Some(Box::new(allocated));
    }

    /// What the pod was given, if that is not what it asks for.
    pub fn given(&self, pod: &Pod<'_>) -> Option<Value> {
        self.allocated.as_ref()?.given(pod)
    }

    /// Keeps nothing of a pod in mind that its status says as well, where nobody else remembers it either: nodes that are simulated
    /// have many.
    pub fn settle(&mut self, pod: &Pod<'_>, runtime: &dyn Runtime) {
        let settled = self.pending.is_none() && self.progress.is_none() && !runtime.keeps_allocations();
        if settled && self.allocated.as_ref().is_some_and(|allocated| allocated.is_said(pod)) {
            self.allocated = None;
        }
    }

    /// Whether a process before this one left a resize to be carried out: its status says so, or has not what was given.
    pub fn resume(&mut self, pod: &Pod<'_>, sandbox: &Sandbox) {
        self.resumes = false;
        let Some(allocated) = &self.allocated else { return };
        let all = || pod.containers.iter().enumerate().filter(|(_, c)| is_resizable(c));
        let given = |c: &Container<'_>| allocated.containers.get(c.name).and_then(Option::as_ref);
        let is_late = |c: &Container<'_>| said(pod, c).is_some_and(|said| differs(Some(said), given(c)));
        let mut restarts = BTreeMap::new();
        for (index, container) in all() {
            let Some(at) = allocated.restarts.get(container.name) else { continue };
            if run_at(sandbox, index).is_some_and(|attempt| attempt <= *at) {
                restarts.insert(index, *at);
            }
        }
        let told = condition(pod, conditions::RESIZE_IN_PROGRESS);
        let runs = |index: usize| run_at(sandbox, index).is_some();
        let is_late = all().any(|(index, container)| runs(index) && is_late(container));
        if told.is_none() && restarts.is_empty() && !is_late {
            return;
        }
        let generation = told.and_then(observed_generation).unwrap_or(pod.generation);
        self.progress = Some(Box::new(Progress { generation, restarts, ..Progress::default() }));
    }

    /// What the status shows of the pod, or of one of its containers, until the resize is done.
    pub fn shown<'a>(&self, pod: &Pod<'a>, container: Option<&Container<'_>>) -> Option<&'a Value> {
        self.progress.as_ref()?;
        match container {
            Some(container) => said(pod, container),
            None => pod.tree.at(&["status", "resources"]),
        }
    }

    /// Is the run of the container, by its number of restarts, to be restarted with what the container was given?
    pub fn restarts(&self, index: usize, attempt: u32) -> bool {
        let Some(progress) = &self.progress else { return false };
        !progress.asked.contains(&index) && progress.restarts.get(&index).is_some_and(|at| attempt <= *at)
    }

    /// The container is to be restarted: the resize is not done before its next run is there.
    pub fn asked(&mut self, index: usize, attempt: u32) {
        if let Some(progress) = &mut self.progress {
            progress.restarts.insert(index, attempt);
            progress.asked.insert(index);
        }
    }

    /// The container does not run: whatever comes next has what it was given.
    pub fn ended(&mut self, index: usize) {
        if let Some(progress) = &mut self.progress {
            progress.restarts.remove(&index);
        }
    }
}

fn note(written: Result<(), String>, pod: &Pod<'_>) {
    if let Err(error) = written {
        tracing::error!(
            pod = pod.name,
            namespace = pod.namespace,
            error,
            "failed to record what a pod was given"
        );
    }
}

/// How often the container was restarted, if it runs.
fn run_at(sandbox: &Sandbox, index: usize) -> Option<u32> {
    let there = sandbox.container(index)?;
    matches!(there.state, State::Running { .. }).then_some(there.attempt)
}

/// Does the container have to be restarted for it? The pod's limit is that of a container without one of its own.
fn will_restart(pod: &Pod<'_>, container: &Container<'_>) -> bool {
    let Some(said) = said(pod, container) else { return false };
    let wanted = resources(container.spec);
    let wanted_of_pod = pod.tree.at(&["spec", "resources"]);
    let given_of_pod = pod_level_by_status(pod);
    let given_of_pod = given_of_pod.as_ref().or(wanted_of_pod);
    let policies = container.spec.get("resizePolicy").and_then(Value::as_list).unwrap_or_default();
    policies.iter().filter(|policy| policy.str_at(&["restartPolicy"]) == Some("RestartContainer")).any(
        |policy| {
            let name = policy.str_at(&["resourceName"]).unwrap_or_default();
            let of =
                |value: Option<&Value>, list: &str| value.and_then(|value| value.at(&[list, name])).cloned();
            let limit = |own, of_pod| of(own, "limits").or_else(|| of(of_pod, "limits"));
            let (given, asked) = (limit(Some(said), given_of_pod), limit(wanted, wanted_of_pod));
            let requested = (of(Some(said), "requests"), of(wanted, "requests"));
            !kinds::same(given.as_ref(), asked.as_ref())
                || !kinds::same(requested.0.as_ref(), requested.1.as_ref())
        },
    )
}

impl PodWorker {
    /// What the pod waits for, if it asks for something else than it has.
    pub fn waiting_resize(&self) -> Option<&Pending> {
        self.resize.pending.as_deref().filter(|_| self.stage == Stage::Running)
    }

    /// There may be room for it now.
    pub fn retry_resize(&mut self) {
        if let Some(pending) = self.resize.pending.as_mut().filter(|pending| pending.waits_for_room()) {
            pending.due = true;
        }
    }

    /// Puts the pod among those that wait, if it asks for something else than it has. Whether all of them are to be tried now: it asks
    /// for something new, or has waited long.
    pub fn queue_resize(&mut self, pod: &Pod<'_>, runtime: &mut dyn Runtime, now: Millis) -> bool {
        self.resize.recall(pod, runtime);
        if !self.can_resize(pod, now) || self.resize.given(pod).is_none() {
            return false;
        }
        let wanted = Requests::of(pod);
        let grows = exceeds(wanted, self.requests);
        let again = now + RETRY_MILLIS;
        let Some(pending) = &mut self.resize.pending else {
            let told = condition(pod, conditions::RESIZE_PENDING);
            let message = told.map(|told| told.str_at(&["message"]).unwrap_or_default().to_owned());
            let generation = told.and_then(observed_generation).unwrap_or(pod.generation);
            let since = told_since(pod);
            let reason = PendingReason::of(told.and_then(|told| told.str_at(&["reason"])).unwrap_or(""));
            let pending = Pending { reason, message, generation, wanted, grows, since, due: true, again };
            self.resize.pending = Some(Box::new(pending));
            return true;
        };
        (pending.wanted, pending.grows) = (wanted, grows);
        let is_new = !pending.due && pending.generation != pod.generation;
        if !is_new && pending.wake().is_none_or(|again| now < again) {
            return false;
        }
        (pending.due, pending.again) = (true, again);
        true
    }

    pub(super) fn can_resize(&self, pod: &Pod<'_>, now: Millis) -> bool {
        self.stage == Stage::Running && super::ending(pod, None, now).is_none()
    }

    /// Something else is asked for than was given, and `fits` is what the node says to it. Whether it is given.
    pub(super) fn resize(
        &mut self,
        pod: &Pod<'_>,
        fits: Result<(), Rejection>,
        runtime: &mut dyn Runtime,
        now: Millis,
        step: &mut SyncResult,
    ) -> bool {
        let generation = pod.generation;
        match fits {
            Ok(()) => {
                let sandbox = self.look(pod, runtime, now);
                let all = pod.containers.iter().enumerate();
                let restarts = all.filter(|(_, c)| will_restart(pod, c));
                let restarts = restarts.filter_map(|(index, _)| Some((index, run_at(&sandbox, index)?)));
                let mut restarts: BTreeMap<usize, u32> = restarts.collect();
                let mut allocated = Allocation::of(pod);
                let named = restarts.iter().map(|(index, at)| (pod.containers[*index].name.to_owned(), *at));
                allocated.restarts = named.collect();
                if let Err(error) = runtime.allocate(pod, &allocated) {
                    note(Err(error), pod);
                    let again = now + RESIZE_RETRY_MILLIS;
                    if let Some(pending) = &mut self.resize.pending {
                        (pending.due, pending.again) = (false, again);
                    }
                    step.wake = super::earlier(step.wake, Some(again));
                    return false;
                }
                self.resize.pending = None;
                self.resize.allocated = Some(Box::new(allocated));
                // The next run of those is on its way, and gets what is given now.
                let Progress { mut asked, restarts: before, .. } =
                    self.resize.progress.take().map_or_else(Progress::default, |before| *before);
                asked.retain(|index| {
                    let at = run_at(&sandbox, *index).filter(|at| before.get(index) == Some(at));
                    restarts.extend(at.map(|at| (*index, at)));
                    at.is_some()
                });
                self.resize.progress = Some(Box::new(Progress { generation, error: None, restarts, asked }));
                let told_of = condition(pod, conditions::RESIZE_IN_PROGRESS).and_then(observed_generation);
                if told_of != Some(generation) {
                    let told = told(pod, "Pod resize started", generation, "");
                    step.tell(None, Severity::Normal, "ResizeStarted", told);
                }
                true
            }
            Err(Rejection { reason, message }) => {
                let why = PendingReason::of(&reason);
                let before = self.resize.pending.take();
                let is_known = |before: &Pending| {
                    (before.generation, before.reason) == (generation, why) && before.message.is_some()
                };
                let is_new = !before.as_deref().is_some_and(is_known);
                let is_told = condition(pod, conditions::RESIZE_PENDING).is_some_and(|told| {
                    told.str_at(&["reason"]) == Some(why.as_str())
                        && observed_generation(told) == Some(generation)
                });
                if is_new && !is_told {
                    let told = told(pod, &format!("Pod resize {reason}"), generation, &message);
                    step.tell(None, Severity::Warning, why.event(), told);
                }
                let wanted = Requests::of(pod);
                let since = before.and_then(|before| before.since).or_else(|| told_since(pod)).unwrap_or(now);
                let pending = Pending {
                    reason: why,
                    message: Some(message),
                    generation,
                    wanted,
                    grows: exceeds(wanted, self.requests),
                    since: Some(since),
                    due: false,
                    again: now + RETRY_MILLIS,
                };
                step.wake = super::earlier(step.wake, pending.wake());
                self.resize.pending = Some(Box::new(pending));
                false
            }
        }
    }

    /// Has the runtime what was given?
    pub(super) fn resize_progress(
        &mut self,
        pod: &Pod<'_>,
        sandbox: &Sandbox,
        now: Millis,
        step: &mut SyncResult,
    ) {
        if sandbox.resize_error.is_some() {
            step.wake = super::earlier(step.wake, Some(now + RESIZE_RETRY_MILLIS));
        }
        let Some(progress) = &mut self.resize.progress else { return };
        let generation = progress.generation;
        if let Some(error) = &sandbox.resize_error {
            if progress.error.as_ref() != Some(error) {
                let told = told(pod, "Pod resize error", generation, error);
                step.tell(None, Severity::Warning, "ResizeError", told);
            }
            progress.error = Some(error.clone());
            return;
        }
        let restarted = |index: usize, at: u32| sandbox.container(index).is_some_and(|c| c.attempt > at);
        progress.restarts.retain(|index, at| !restarted(*index, *at));
        let is_late =
            |c: &Running| c.needs_restart || matches!(c.state, State::Created | State::Restarting(_));
        let late = sandbox.containers.iter().flatten().any(is_late);
        if sandbox.resizing || late || !progress.restarts.is_empty() {
            return;
        }
        self.resize.progress = None;
        let told = told(pod, "Pod resize completed", generation, "");
        step.tell(None, Severity::Normal, "ResizeCompleted", told);
    }
}

fn condition<'a>(pod: &Pod<'a>, kind: &str) -> Option<&'a Value> {
    let conditions = pod.tree.at(&["status", "conditions"]).and_then(Value::as_list)?;
    conditions.iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Since when people know that it waits: perhaps from a process before this one.
fn told_since(pod: &Pod<'_>) -> Option<Millis> {
    let since = condition(pod, conditions::RESIZE_PENDING)?.str_at(&["lastTransitionTime"])?;
    time::parse(since).map(|(seconds, _)| seconds * 1000)
}

/// Does it take room that is not its own?
fn exceeds(wanted: Requests, had: Requests) -> bool {
    wanted.cpu_milli > had.cpu_milli || wanted.memory > had.memory
}

fn observed_generation(condition: &Value) -> Option<i64> {
    condition.get("observedGeneration").and_then(Value::as_int)
}

/// What is asked for, in the words of kubelet's events.
fn told(pod: &Pod<'_>, what: &str, generation: i64, error: &str) -> String {
    let mut summary = Map::with_capacity(4);
    for (list, init) in [("initContainers", true), ("containers", false)] {
        let of = pod.containers.iter().filter(|c| is_resizable(c) && c.role.is_init() == init);
        let entries: Vec<Value> = of
            .map(|container| {
                let mut entry = Map::with_capacity(2);
                entry.set("name", container.name);
                entry.set("resources", resources(container.spec).cloned().unwrap_or_else(Value::map));
                Value::Map(entry)
            })
            .collect();
        if !entries.is_empty() {
            summary.set(list, Value::List(entries));
        }
    }
    summary.set("generation", Value::Int(generation));
    if !error.is_empty() {
        summary.set("error", error);
    }
    format!("{what}: {}", String::from_utf8_lossy(&codec::json::to_vec(&Value::Map(summary))))
}
