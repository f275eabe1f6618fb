//! One pod on its node: what to start and stop next, and what to tell the API. Pure but for the runtime it is handed.
//!
//! ```text
//!            does not fit                      all ended and stay ended
//!   New ───────────────────> Rejected        ┌──────────────────────────┐
//!    │ admitted                              │                          v
//!    └──> Running ───────────────────────────┴──> Terminating ──> Terminated ──> (deleted, or kept as Succeeded / Failed)
//!         sandbox, init containers in order,      stop with grace
//!         containers, restarts with back-off      deleted, deadline passed, failed by somebody else
//! ```
//! A step is taken when the pod changed or a time it asked for has come; taking it once more changes nothing.

mod backoff;
mod conditions;
mod devices;
mod forgotten;
mod resize;
mod restart_all;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Value;
use runtime::Severity;

use crate::admit::preemption::{self, PreemptionRank};
use crate::admit::{Rejection, Taken};
use crate::container_runtime::{Container, Evicted, Millis, PodEvent, Running, Runtime, Sandbox, StartError};
use crate::pod::{Pod, Requests, Role, short_uid};
pub use backoff::LONGEST_MILLIS;
use backoff::{BackOff, StartBackOff, in_one_go};
pub use devices::ClaimDevices;
pub use resize::Pending;
use resize::Resize;
use restart_all::RestartAll;
pub use status::{Host, LOST};

/// How long a pod that could not be started waits for the next attempt, as in kubelet.
const PREPARE_AGAIN_MILLIS: Millis = 10_000;

/// What an agent remembers of a pod: everything else is in the API or in the runtime.
pub struct PodWorker {
    pub uid: u128,
    /// The revision of our last write: what is older than that is not looked at.
    pub written: object::Revision,
    /// The object as that left it, until the watch shows it.
    pub ahead: Option<Arc<object::Obj>>,
    /// What the last step asked for.
    pub wake: Option<Millis>,
    /// Counted against the node while the pod is on it.
    pub requests: Requests,
    pub rank: PreemptionRank,
    /// It has to go, for a critical pod's sake.
    pub preempted: bool,
    /// It is new, and others have to go first.
    pub waiting: Option<Box<Waiting>>,
    stage: Stage,
    /// In the order of the pod's containers; empty until one was restarted.
    backoffs: Vec<BackOff>,
    longest_back_off: Millis,
    /// Of containers that could not be started, by their place.
    failures: BTreeMap<usize, StartBackOff>,
    restart_all: RestartAll,
    resize: Resize,
    /// Of its claims, once they were there; empty as well in a process that did not start the pod.
    pub devices: Vec<ClaimDevices>,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    New,
    Rejected(Box<Rejection>),
    Running,
    /// With the grace that was last given to the containers.
    Terminating {
        grace_seconds: i64,
    },
    /// Nothing runs, and nothing will.
    Terminated,
}

/// What a step comes to.
#[derive(Debug, Default)]
pub struct SyncResult {
    /// The status to write; `None`: the API has it already.
    pub status: Option<Value>,
    pub events: Vec<PodEvent>,
    /// To be looked at again then, even if nothing changes.
    pub wake: Option<Millis>,
    /// Nothing runs any more and the API wants it gone: after the status, delete it.
    pub delete: bool,
    /// Nothing runs any more: after the status was written, the runtime may forget it.
    pub over: bool,
}

impl SyncResult {
    /// What is going to be done, in words.
    pub fn describe(&self) -> String {
        let phase = self.status.as_ref().map(|status| status.str_at(&["phase"]).unwrap_or("unknown"));
        match (phase, self.delete) {
            (Some(phase), true) => format!("report {phase}, then delete"),
            (Some(phase), false) => format!("report {phase}"),
            (None, true) => "delete".to_owned(),
            (None, false) => "nothing to report".to_owned(),
        }
    }
}

/// What a new pod waits for.
#[derive(Debug)]
pub struct Waiting {
    /// Nothing of these may run any more.
    pub ends: Vec<u128>,
    /// What is kept for it meanwhile, if it is critical.
    pub takes: Option<Taken>,
}

/// Why a pod ends though its containers might go on.
struct Ending {
    grace_seconds: i64,
    why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Deleted,
    /// The API says that it is over.
    Over,
    Evicted,
    Deadline,
}

impl PodWorker {
    pub fn new(pod: &Pod<'_>) -> PodWorker {
        PodWorker {
            uid: short_uid(pod.uid),
            written: object::Revision(0),
            ahead: None,
            wake: None,
            requests: Requests::of(pod),
            rank: PreemptionRank::of(pod),
            preempted: false,
            waiting: None,
            stage: Stage::New,
            backoffs: Vec::new(),
            longest_back_off: backoff::LONGEST_MILLIS,
            failures: BTreeMap::new(),
            restart_all: RestartAll::default(),
            resize: Resize::default(),
            devices: Vec::new(),
        }
    }

    /// How long its containers wait at most before they are restarted.
    pub fn with_longest_back_off(self, longest_back_off: Millis) -> PodWorker {
        PodWorker { longest_back_off, ..self }
    }

    /// Does the pod take up room on the node?
    pub fn is_counted(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Terminating { .. })
    }

    /// Waits for room for what it asks for beyond what it has.
    pub fn waits_for_room(&self) -> bool {
        self.waiting_resize().is_some_and(Pending::waits_for_room) || self.waiting.is_some()
    }

    /// Its place among those that wait for room. As kubelet has them: new pods, then resizes that ask for no more than there is, then by
    /// priority, class and how long they wait.
    pub fn room_order(&self) -> impl Ord + use<> {
        let resize = self.resize.pending.as_ref();
        let since = resize.map(|pending| pending.since.unwrap_or(Millis::MAX));
        (resize.map(|pending| pending.grows), self.rank.room_order(), since)
    }

    /// Nobody decided yet whether the node takes it.
    pub fn is_new(&self) -> bool {
        self.stage == Stage::New
    }

    /// The pod has to go. `false`: it knows that already.
    pub fn preempt(&mut self) -> bool {
        self.wake = Some(0);
        !std::mem::replace(&mut self.preempted, true)
    }

    /// A pod that a node took before, perhaps this one under another process: it is not asked again whether it fits, and what it
    /// has is its own before anything new gets a part.
    pub fn adopt(&mut self, pod: &Pod<'_>, runtime: &mut dyn Runtime) {
        if self.stage == Stage::New && pod.started.is_some() {
            self.resize.recall(pod, runtime);
            self.resize.resumes = true;
            match self.resize.given(pod) {
                Some(tree) => self.recover(&Pod::read(&tree), runtime),
                None => self.recover(pod, runtime),
            }
        }
    }

    fn recover(&mut self, pod: &Pod<'_>, runtime: &mut dyn Runtime) {
        runtime.recover(pod);
        self.requests = Requests::of(pod);
        self.stage = Stage::Running;
    }

    /// Does what is to be done now.
    pub fn step(
        &mut self,
        pod: &Pod<'_>,
        host: &Host<'_>,
        admit: &mut dyn FnMut(&Pod<'_>, Requests) -> Result<(), Rejection>,
        runtime: &mut dyn Runtime,
        now: Millis,
    ) -> SyncResult {
        // What happened by itself comes before what is done now, and what that leads to at once.
        let mut step = SyncResult { events: runtime.take_events(self.uid), ..SyncResult::default() };
        self.adopt(pod, runtime);
        self.resize.recall(pod, runtime);
        if self.resize.resumes {
            let sandbox = self.look(pod, runtime, now);
            self.resize.resume(pod, &sandbox);
        }
        let is_new = self.stage == Stage::New;
        let given = self.resize.given(pod);
        let keeps = match &given {
            Some(tree) if host.may_resize && self.can_resize(pod, now) => {
                let infeasible = runtime.infeasible(pod, &Pod::read(tree)).map(resize::infeasible);
                // As a new pod: a node that is short of something, or goes down, gives nothing more.
                let refused = infeasible.or_else(|| runtime.refuses(pod)).map_or(Ok(()), Err);
                let fits = refused.and_then(|()| admit(pod, Requests::of(pod)));
                !self.resize(pod, fits, runtime, now, &mut step)
            }
            Some(_) => {
                step.wake = self.waiting_resize().and_then(Pending::wake);
                true
            }
            None => {
                self.resize.pending = None;
                false
            }
        };
        if keeps && is_new {
            // It comes to the node with what it was given before; then it may have what it asks for.
            step.wake = Some(now);
        }
        // Everybody goes by what the pod was given.
        step = match given.filter(|_| keeps) {
            Some(tree) => self.advance(&Pod::read(&tree), host, admit, runtime, now, step),
            None => self.advance(pod, host, admit, runtime, now, step),
        };
        self.resize.settle(pod, runtime);
        step.events.extend(runtime.take_events(self.uid));
        step
    }

    fn advance(
        &mut self,
        pod: &Pod<'_>,
        host: &Host<'_>,
        admit: &mut dyn FnMut(&Pod<'_>, Requests) -> Result<(), Rejection>,
        runtime: &mut dyn Runtime,
        now: Millis,
        mut step: SyncResult,
    ) -> SyncResult {
        let evicted = self.evicted(pod, runtime.look(pod, now).and_then(|sandbox| sandbox.evicted));
        let ending = ending(pod, evicted.as_ref(), now);
        self.requests = Requests::of(pod);
        if self.stage == Stage::New {
            self.enter(pod, ending.is_some(), admit, runtime, &mut step);
        }
        if let Stage::Rejected(rejection) = &self.stage {
            step.status = status::rejected(pod, rejection, now);
            step.delete = pod.deletion.is_some();
            step.over = true;
            return step;
        }
        if let Some(ending) = ending {
            return self.end(pod, host, &ending, runtime, now, step);
        }
        if self.stage == Stage::Terminated {
            // The status of the last step was not written yet, or the API is behind.
            return self.finish(pod, host, runtime, now, step);
        }
        if let Some(why) = host.unprepared
            && runtime.look(pod, now).is_none()
        {
            let told = format!("Failed to prepare dynamic resources: {why}");
            step.tell(None, Severity::Warning, "FailedPrepareDynamicResources", told);
            step.wake = earlier(Some(now + PREPARE_AGAIN_MILLIS), deadline(pod, now));
            step.status = self.status(pod, host, &Sandbox::default(), false, now);
            return step;
        }
        if let Some(turn) = self.restart_all.turn(pod, &self.backoffs, runtime, now) {
            for index in turn.killed {
                step.tell(Some(index), Severity::Normal, "Killing", "killing".to_owned());
            }
            if turn.waits {
                let sandbox = self.look(pod, runtime, now);
                let next = if turn.begins { Some(now) } else { sandbox.next };
                step.wake = earlier(next, deadline(pod, now));
                step.status = self.status(pod, host, &sandbox, false, now);
                return step;
            }
        }
        // Of a pod that was told to end, nothing is started any more.
        let is_ending = matches!(self.stage, Stage::Terminating { .. });
        let sandbox = match is_ending {
            true => self.look(pod, runtime, now),
            false => self.sync(pod, runtime, now, &mut step),
        };
        if self.restart_all.is_asked_for(pod, &self.backoffs, &sandbox) {
            step.wake = Some(now);
        }
        self.resize_progress(pod, &sandbox, now, &mut step);
        if is_ending || self.is_done(pod, &sandbox) || has_lost(pod, &sandbox) {
            if sandbox.is_alive() {
                // Only sidecars are left, or the pod cannot go on.
                if !is_ending {
                    let grace_seconds = pod.grace_seconds.max(1);
                    step.tell_stopping(pod, &sandbox);
                    self.stage = Stage::Terminating { grace_seconds };
                    runtime.stop(pod, grace_seconds, now);
                }
                let sandbox = runtime.look(pod, now).unwrap_or_default();
                if sandbox.is_alive() {
                    step.wake = earlier(step.wake, sandbox.next);
                    step.status = self.status(pod, host, &sandbox, false, now);
                    return step;
                }
            }
            self.stage = Stage::Terminated;
            return self.finish(pod, host, runtime, now, step);
        }
        step.wake = earlier(step.wake, sandbox.next);
        step.wake = earlier(step.wake, deadline(pod, now));
        step.status = self.status(pod, host, &sandbox, false, now);
        step
    }

    /// A pod that is new to the node.
    fn enter(
        &mut self,
        pod: &Pod<'_>,
        ending: bool,
        admit: &mut dyn FnMut(&Pod<'_>, Requests) -> Result<(), Rejection>,
        runtime: &mut dyn Runtime,
        step: &mut SyncResult,
    ) {
        if runtime.look(pod, 0).is_some() {
            // A process before this one began with it, and nobody could be told.
            runtime.recover(pod);
        }
        if ending {
            self.stage = Stage::Running;
            return;
        }
        let refused = runtime.refuses(pod).map_or(Ok(()), Err);
        self.stage = match refused.and_then(|()| admit(pod, self.requests)) {
            Ok(()) => {
                self.resize.admit(pod, runtime);
                Stage::Running
            }
            Err(rejection) => {
                step.tell(None, Severity::Warning, &rejection.reason, rejection.message.clone());
                Stage::Rejected(Box::new(rejection))
            }
        };
    }

    /// Stops what runs; once nothing does, says so.
    fn end(
        &mut self,
        pod: &Pod<'_>,
        host: &Host<'_>,
        ending: &Ending,
        runtime: &mut dyn Runtime,
        now: Millis,
        mut step: SyncResult,
    ) -> SyncResult {
        let grace = ending.grace_seconds;
        if self.preempted && ending.why == Why::Evicted && self.stage == Stage::Running {
            let (reason, told) = (preemption::REASON, preemption::MESSAGE.to_owned());
            step.tell(None, Severity::Warning, reason, told);
        }
        let mut sandbox = runtime.look(pod, now).unwrap_or_default();
        if sandbox.is_alive() {
            let again = match self.stage {
                Stage::Terminating { grace_seconds } => grace < grace_seconds,
                _ => {
                    if ending.why == Why::Deadline {
                        step.tell_deadline();
                    }
                    step.tell_stopping(pod, &sandbox);
                    true
                }
            };
            self.stage = Stage::Terminating { grace_seconds: grace };
            if again {
                runtime.stop(pod, grace, now);
                sandbox = runtime.look(pod, now).unwrap_or_default();
            }
            if sandbox.is_alive() {
                step.wake = sandbox.next;
                step.status = self.status(pod, host, &sandbox, false, now);
                return step;
            }
        }
        let before = std::mem::replace(&mut self.stage, Stage::Terminated);
        if ending.why == Why::Deadline && before == Stage::Running {
            step.tell_deadline();
        }
        self.finish(pod, host, runtime, now, step)
    }

    /// The last status, and the deletion where that was asked for.
    fn finish(
        &mut self,
        pod: &Pod<'_>,
        host: &Host<'_>,
        runtime: &mut dyn Runtime,
        now: Millis,
        mut step: SyncResult,
    ) -> SyncResult {
        step.over = true;
        step.delete = pod.deletion.is_some();
        match runtime.look(pod, now) {
            Some(sandbox) => step.status = self.status(pod, host, &sandbox, true, now),
            // What the API says of a pod that is over stays; one that never ran and is no more wanted has failed.
            None if pod.is_over() => {}
            None => step.status = self.status(pod, host, &Sandbox::default(), true, now),
        }
        step
    }

    /// Starts what should run and does not.
    fn sync(
        &mut self,
        pod: &Pod<'_>,
        runtime: &mut dyn Runtime,
        now: Millis,
        step: &mut SyncResult,
    ) -> Sandbox {
        match runtime.look(pod, now) {
            // Of one that has run, and will not again, the runtime knows nothing any more.
            None if self.is_done(pod, &self.look(pod, runtime, now)) => {}
            None => runtime.create(pod, now),
            Some(_) => runtime.update(pod, now),
        }
        // A container may end the moment it starts; the back-off bounds how often that is tried at once. Each round starts
        // something, and a container at most twice: so many rounds are enough.
        for _ in 0..=2 * pod.containers.len() {
            let sandbox = self.look(pod, runtime, now);
            if !sandbox.ready || self.restart_all.is_asked_for(pod, &self.backoffs, &sandbox) {
                return sandbox;
            }
            let starts = self.starts(pod, &sandbox, now, step);
            if starts.is_empty() {
                return sandbox;
            }
            for (index, attempt) in starts {
                runtime.start(pod, index, attempt, now);
            }
        }
        self.look(pod, runtime, now)
    }

    /// What counts of what runs.
    fn look(&self, pod: &Pod<'_>, runtime: &mut dyn Runtime, now: Millis) -> Sandbox {
        forgotten::fill(pod, self.restart_all.without_old(pod, runtime.look(pod, now).unwrap_or_default()))
    }

    /// A container that could not be started: is it to be tried again now?
    fn tries_again(
        &mut self,
        pod: &Pod<'_>,
        index: usize,
        error: &StartError,
        now: Millis,
        step: &mut SyncResult,
    ) -> bool {
        let image = pod.containers[index].image;
        let before = self.failures.get(&index);
        if before.is_none_or(|before| before.error.at != error.at) {
            let failure = StartBackOff::after(before, image, error.clone());
            self.failures.insert(index, failure);
        }
        let Some(failure) = self.failures.get_mut(&index) else { return true };
        if failure.image != image || now >= failure.until() {
            return true;
        }
        step.wake = earlier(step.wake, Some(failure.next(now)));
        if failure.is_pull_back_off(now) && !std::mem::replace(&mut failure.told, true) {
            let told = format!("Back-off pulling image {}", object::quote(failure.missing_image()));
            // The image of a volume is the pod's.
            let whose = Some(index).filter(|_| failure.error.volume_image.is_none());
            step.tell(whose, Severity::Normal, "BackOff", told);
            step.tell(Some(index), Severity::Warning, "Failed", "Error: ImagePullBackOff".to_owned());
        }
        false
    }

    /// Which containers to start now, each with the number of its restarts.
    fn starts(
        &mut self,
        pod: &Pod<'_>,
        sandbox: &Sandbox,
        now: Millis,
        step: &mut SyncResult,
    ) -> Vec<(usize, u32)> {
        let mut starts = Vec::new();
        if self.is_done(pod, sandbox) || has_lost(pod, sandbox) {
            return starts;
        }
        let reached = reached(pod, sandbox);
        // Whatever the others are at: they are there to see it.
        for (index, _) in pod.containers.iter().enumerate().filter(|(_, c)| c.role == Role::Ephemeral) {
            let is_due = match sandbox.container(index).map(|c| &c.state) {
                None => true,
                Some(Container::Failed(error)) => self.tries_again(pod, index, error, now, step),
                Some(_) => false,
            };
            if is_due {
                starts.push((index, 0));
            }
        }
        for (index, container) in pod.containers.iter().enumerate().filter(|(_, c)| c.role != Role::Ephemeral)
        {
            // What came before is history; sidecars are kept up.
            if container.role == Role::Init && index < reached {
                continue;
            }
            let there = sandbox.container(index);
            let fails = |state: &Container| {
                matches!(state, Container::Failed(_) | Container::Created | Container::Restarting(_))
            };
            if !there.is_some_and(|c| fails(&c.state)) {
                self.failures.remove(&index);
            }
            if !there.is_some_and(|c| matches!(c.state, Container::Running { .. })) {
                // It starts with what it was given.
                self.resize.ended(index);
            }
            let settled = match there.map(|c| (&c.state, c.attempt)) {
                None => {
                    starts.push((index, self.restart_all.first(pod, index)));
                    false
                }
                Some((Container::Created | Container::Restarting(_), _)) => false,
                Some((Container::Running { .. }, attempt))
                    if there.is_some_and(|c| c.outdated) && container.role != Role::Init =>
                {
                    let told = format!("Container {} definition changed, will be restarted", container.name);
                    step.tell(Some(index), Severity::Normal, "Killing", told);
                    starts.push((index, attempt + 1));
                    true
                }
                Some((Container::Running { .. }, attempt))
                    if (self.resize.restarts(index, attempt) || there.is_some_and(|c| c.needs_restart))
                        && container.role != Role::Init =>
                {
                    let told = format!("Container {} resize requires restart", container.name);
                    step.tell(Some(index), Severity::Normal, "Killing", told);
                    self.resize.asked(index, attempt);
                    starts.push((index, attempt + 1));
                    true
                }
                Some((Container::Running { started, .. }, _)) => match container.role {
                    Role::Init => false,
                    Role::Sidecar => *started,
                    Role::Main | Role::Ephemeral => true,
                },
                Some((Container::Failed(error), attempt)) => {
                    if self.tries_again(pod, index, error, now, step) {
                        let ran = there.is_some_and(|c| c.last.is_some());
                        starts.push((index, if ran { attempt + 1 } else { attempt }));
                    }
                    false
                }
                Some((Container::Interrupted { .. }, attempt)) => {
                    starts.push((index, attempt + 1));
                    false
                }
                Some((Container::Exited(_), attempt))
                    if container.role == Role::Init && sandbox.outlived.contains(&index) =>
                {
                    starts.push((index, attempt + 1));
                    false
                }
                Some((Container::Exited(exit), attempt)) => {
                    if there.is_some_and(|there| self.restarts(pod, sandbox, index, there, exit.code)) {
                        let backoff = self.backoff(pod, index);
                        let from = there.and_then(|there| backoff.begins(there));
                        let verdict =
                            from.map_or(backoff::Verdict::Now, |from| backoff.try_restart(from, now));
                        match verdict {
                            backoff::Verdict::Now => starts.push((index, attempt + 1)),
                            backoff::Verdict::Wait { until, new } => {
                                step.wake = earlier(step.wake, Some(until));
                                if new {
                                    let (name, pod) = (container.name, pod.described());
                                    let told =
                                        format!("Back-off restarting failed container {name} in pod {pod}");
                                    step.tell(Some(index), Severity::Warning, "BackOff", told);
                                }
                            }
                        }
                        false
                    } else {
                        true
                    }
                }
            };
            // What comes later waits for what comes first.
            if !settled && container.role != Role::Main && index >= reached {
                break;
            }
        }
        starts
    }

    /// Nothing will ever be started again.
    fn is_done(&self, pod: &Pod<'_>, sandbox: &Sandbox) -> bool {
        let ended = |index: usize| {
            let there = sandbox.container(index)?;
            let Container::Exited(exit) = &there.state else { return None };
            (!self.restarts(pod, sandbox, index, there, exit.code)).then_some(exit.code)
        };
        let mut mains = true;
        for (index, container) in pod.containers.iter().enumerate() {
            match container.role {
                Role::Init if ended(index).is_some_and(|code| code != 0) => return true,
                Role::Main => mains &= ended(index).is_some(),
                _ => {}
            }
        }
        mains
    }

    fn restarts(&self, pod: &Pod<'_>, sandbox: &Sandbox, index: usize, there: &Running, code: i32) -> bool {
        pod.restarts(&pod.containers[index], code)
            || sandbox.starts_again.contains(&index)
            || in_one_go(pod, index, there, &self.backoffs)
    }

    fn backoff(&mut self, pod: &Pod<'_>, index: usize) -> &mut BackOff {
        if self.backoffs.is_empty() {
            self.backoffs = vec![BackOff::new(self.longest_back_off); pod.containers.len()];
        }
        // Containers that may be restarted are there from the beginning.
        let (backoff, container) = (&mut self.backoffs[index], &pod.containers[index]);
        backoff.keep_for(container.image, container.spec.get("resources"));
        backoff
    }

    fn evicted(&self, pod: &Pod<'_>, by_runtime: Option<Evicted>) -> Option<Evicted> {
        by_runtime.or_else(|| self.preempted.then(|| preemption::evicted(pod)))
    }

    fn status(
        &self,
        pod: &Pod<'_>,
        host: &Host<'_>,
        sandbox: &Sandbox,
        terminal: bool,
        now: Millis,
    ) -> Option<Value> {
        let sandbox = forgotten::fill(pod, sandbox.clone());
        status::changed(&status::View {
            pod,
            host,
            sandbox: &sandbox,
            evicted: self.evicted(pod, sandbox.evicted.clone()).as_ref(),
            backoffs: &self.backoffs,
            failures: &self.failures,
            restart_all: &self.restart_all,
            resize: &self.resize,
            devices: &self.devices,
            terminal,
            now,
        })
    }
}

impl SyncResult {
    fn tell_deadline(&mut self) {
        let (reason, told) = (status::DEADLINE_REASON, status::DEADLINE_MESSAGE);
        self.tell(None, Severity::Normal, reason, told.to_owned());
    }

    fn tell_stopping(&mut self, pod: &Pod<'_>, sandbox: &Sandbox) {
        for (index, container) in sandbox.containers.iter().enumerate() {
            if container.as_ref().is_some_and(|c| matches!(c.state, Container::Running { .. })) {
                let told = format!("Stopping container {}", pod.containers[index].name);
                self.tell(Some(index), Severity::Normal, "Killing", told);
            }
        }
    }

    fn tell(&mut self, container: Option<usize>, severity: Severity, reason: &str, message: String) {
        self.events.push(PodEvent { severity, reason: reason.to_owned(), message, container });
    }
}

fn ending(pod: &Pod<'_>, evicted: Option<&Evicted>, now: Millis) -> Option<Ending> {
    // Whatever was asked for, containers have a moment; but not those of a pod that is a danger to others.
    if let Some(grace_seconds) = pod.deletion.map(|grace_seconds| grace_seconds.max(1)) {
        let grace_seconds = evicted.map_or(grace_seconds, |evicted| evicted.grace_seconds.min(grace_seconds));
        return Some(Ending { grace_seconds, why: Why::Deleted });
    }
    if let Some(evicted) = evicted.filter(|_| !pod.is_over()) {
        return Some(Ending { grace_seconds: evicted.grace_seconds, why: Why::Evicted });
    }
    let grace_seconds = pod.grace_seconds.max(1);
    if pod.is_over() {
        return Some(Ending { grace_seconds, why: Why::Over });
    }
    let passed = status::deadline_passed(pod, now);
    passed.then_some(Ending { grace_seconds, why: Why::Deadline })
}

/// An init container of which the runtime cannot tell whether it runs, and which may run once: the pod has failed.
fn has_lost(pod: &Pod<'_>, sandbox: &Sandbox) -> bool {
    let reached = reached(pod, sandbox);
    pod.containers.iter().enumerate().skip(reached).any(|(index, container)| {
        let state = sandbox.container(index).map(|there| &there.state);
        matches!(state, Some(Container::Interrupted { may_run: true }))
            && container.role == Role::Init
            && !pod.restarts_by_policy(container)
    })
}

/// How far the pod came: the place of the last init container or sidecar of which there is something, and beyond all of them while a
/// container proper runs. Once all of those have ended, the last sidecar has to be up again before they are.
fn reached(pod: &Pod<'_>, sandbox: &Sandbox) -> usize {
    let here = |index: usize| sandbox.container(index).filter(|_| !sandbox.outlived.contains(&index));
    let all = || pod.containers.iter().enumerate();
    let is_up = |state: &Container| {
        matches!(state, Container::Running { .. } | Container::Created | Container::Restarting(_))
    };
    if all().any(|(index, c)| c.role == Role::Main && here(index).is_some_and(|c| is_up(&c.state))) {
        return usize::MAX;
    }
    let ran = |there: &Running| !there.id.is_empty() || matches!(there.state, Container::Exited(_));
    let last = all().rfind(|(index, c)| c.role.is_init() && here(*index).is_some_and(ran));
    last.map_or(0, |(index, _)| index)
}

/// When the pod's time will be up.
fn deadline(pod: &Pod<'_>, now: Millis) -> Option<Millis> {
    let seconds = pod.active_deadline_seconds?;
    let from = pod.started.map_or(now, |started| started * 1000);
    Some(from.saturating_add(seconds.saturating_mul(1000)))
}

fn earlier(a: Option<Millis>, b: Option<Millis>) -> Option<Millis> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
