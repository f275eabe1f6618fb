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
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use object::Value;
use runtime::Severity;

use crate::admit::Rejection;
use crate::container_runtime::{Container, Millis, Runtime, Sandbox};
use crate::pod::{Pod, Requests, Role, short_uid};
use backoff::{BackOff, PullBackOff};
pub use devices::ClaimDevices;
pub use status::Host;

/// How long a pod that could not be started waits for the next attempt, as in kubelet.
const PREPARE_AGAIN_MILLIS: Millis = 10_000;

/// What an agent remembers of a pod: everything else is in the API or in the runtime.
pub struct PodWorker {
    pub uid: u128,
    /// The revision of our last write: what is older than that is not looked at.
    pub written: object::Revision,
    /// What the last step asked for.
    pub wake: Option<Millis>,
    /// Counted against the node while the pod is on it.
    pub requests: Requests,
    stage: Stage,
    /// In the order of the pod's containers; empty until one was restarted.
    backoffs: Vec<BackOff>,
    /// Of containers whose image could not be pulled, by their place.
    pulls: BTreeMap<usize, PullBackOff>,
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
    pub events: Vec<Happening>,
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

/// Something people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub severity: Severity,
    pub reason: String,
    pub message: String,
    /// The place of the container it is about; `None`: the pod.
    pub container: Option<usize>,
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
    Deadline,
}

impl PodWorker {
    pub fn new(pod: &Pod<'_>) -> PodWorker {
        PodWorker {
            uid: short_uid(pod.uid),
            written: object::Revision(0),
            wake: None,
            requests: Requests::of(pod),
            stage: Stage::New,
            backoffs: Vec::new(),
            pulls: BTreeMap::new(),
            devices: Vec::new(),
        }
    }

    /// Does the pod take up room on the node?
    pub fn is_counted(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Terminating { .. })
    }

    /// A pod that a node took before, perhaps this one under another process: it is not asked again whether it fits, and what it
    /// has is its own before anything new gets a part.
    pub fn adopt(&mut self, pod: &Pod<'_>, runtime: &mut dyn Runtime) {
        if self.stage == Stage::New && pod.started.is_some() {
            runtime.recover(pod);
            self.stage = Stage::Running;
        }
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
        let mut step = SyncResult::default();
        let ending = ending(pod, now);
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
        let sandbox = self.sync(pod, runtime, now, &mut step);
        if self.is_done(pod, &sandbox) {
            if sandbox.is_alive() {
                // Only sidecars are left.
                runtime.stop(pod, pod.grace_seconds, now);
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

    /// A pod that is new to this process.
    fn enter(
        &mut self,
        pod: &Pod<'_>,
        ending: bool,
        admit: &mut dyn FnMut(&Pod<'_>, Requests) -> Result<(), Rejection>,
        runtime: &mut dyn Runtime,
        step: &mut SyncResult,
    ) {
        self.adopt(pod, runtime);
        if self.stage != Stage::New {
            return;
        }
        if ending {
            self.stage = Stage::Running;
        } else {
            self.stage = match admit(pod, self.requests) {
                Ok(()) => Stage::Running,
                Err(rejection) => {
                    step.tell(None, Severity::Warning, &rejection.reason, rejection.message.clone());
                    Stage::Rejected(Box::new(rejection))
                }
            };
        }
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
        let mut sandbox = runtime.look(pod, now).unwrap_or_default();
        if sandbox.is_alive() {
            let again = match self.stage {
                Stage::Terminating { grace_seconds } => grace < grace_seconds,
                _ => {
                    for (index, container) in sandbox.containers.iter().enumerate() {
                        if container.as_ref().is_some_and(|c| matches!(c.state, Container::Running { .. })) {
                            let told = format!("Stopping container {}", pod.containers[index].name);
                            step.tell(Some(index), Severity::Normal, "Killing", told);
                        }
                    }
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
        if ending.why == Why::Deadline && before != Stage::Terminated {
            let (reason, told) = (status::DEADLINE_REASON, status::DEADLINE_MESSAGE);
            step.tell(None, Severity::Normal, reason, told.to_owned());
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
        if runtime.look(pod, now).is_none() {
            runtime.create(pod, now);
        }
        // A container may end the moment it starts; the back-off bounds how often that is tried at once. Each round starts
        // something, and a container at most twice: so many rounds are enough.
        for _ in 0..=2 * pod.containers.len() {
            let sandbox = runtime.look(pod, now).unwrap_or_default();
            let mut starts = self.starts(pod, &sandbox, now, step);
            starts.retain(|(index, _)| {
                let pulled = self.pull(pod, *index, runtime, now, step);
                let running = sandbox.container(*index).map(|c| &c.state);
                // What it is to be replaced by is not there, but it is not wanted any more.
                if !pulled && matches!(running, Some(Container::Running { .. })) {
                    runtime.kill(pod, *index, now);
                }
                pulled
            });
            if starts.is_empty() {
                return sandbox;
            }
            for (index, attempt) in starts {
                runtime.start(pod, index, attempt, now);
                let image = pod.containers[index].image;
                let pulled = format!(
                    "Container image {} already present on machine and can be accessed by the pod",
                    object::quote(image)
                );
                step.tell(Some(index), Severity::Normal, "Pulled", pulled);
                step.tell(Some(index), Severity::Normal, "Created", "Container created".to_owned());
                step.tell(Some(index), Severity::Normal, "Started", "Container started".to_owned());
            }
        }
        runtime.look(pod, now).unwrap_or_default()
    }

    /// Whether the image of a container is there.
    fn pull(
        &mut self,
        pod: &Pod<'_>,
        index: usize,
        runtime: &mut dyn Runtime,
        now: Millis,
        step: &mut SyncResult,
    ) -> bool {
        let image = pod.containers[index].image;
        let quoted = object::quote(image);
        let mut told = Vec::new();
        let mut tell = |severity, reason, message| told.push((severity, reason, message));
        let waiting = self.pulls.get_mut(&index).filter(|pull| pull.image == image && now < pull.until());
        let next = match waiting {
            Some(pull) => {
                if !pull.is_fresh(now) && !std::mem::replace(&mut pull.told, true) {
                    tell(Severity::Normal, "BackOff", format!("Back-off pulling image {quoted}"));
                    tell(Severity::Warning, "Failed", "Error: ImagePullBackOff".to_owned());
                }
                pull.next(now)
            }
            None => {
                let Err(why) = runtime.pull(pod, index) else {
                    self.pulls.remove(&index);
                    return true;
                };
                tell(Severity::Normal, "Pulling", format!("Pulling image {quoted}"));
                tell(Severity::Warning, "Failed", format!("Failed to pull image {quoted}: {why}"));
                tell(Severity::Warning, "Failed", "Error: ErrImagePull".to_owned());
                let pull = PullBackOff::after(self.pulls.get(&index), image, why, now);
                let next = pull.next(now);
                self.pulls.insert(index, pull);
                next
            }
        };
        for (severity, reason, message) in told {
            step.tell(Some(index), severity, reason, message);
        }
        step.wake = earlier(step.wake, Some(next));
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
        if self.is_done(pod, sandbox) {
            return starts;
        }
        let mains_begun = pod
            .containers
            .iter()
            .enumerate()
            .any(|(index, c)| c.role == Role::Main && sandbox.container(index).is_some());
        // Whatever the others are at: they are there to see it.
        let ephemeral = pod.containers.iter().enumerate().filter(|(_, c)| c.role == Role::Ephemeral);
        starts
            .extend(ephemeral.filter(|(index, _)| sandbox.container(*index).is_none()).map(|(i, _)| (i, 0)));
        for (index, container) in pod.containers.iter().enumerate().filter(|(_, c)| c.role != Role::Ephemeral)
        {
            // Once the containers were begun, the init containers are history; sidecars are kept up.
            if container.role == Role::Init && mains_begun {
                continue;
            }
            let there = sandbox.container(index);
            let settled = match there.map(|c| (&c.state, c.attempt)) {
                None => {
                    starts.push((index, 0));
                    false
                }
                Some((Container::Created, _)) => false,
                Some((Container::Running { .. }, attempt))
                    if there.is_some_and(|c| c.outdated) && container.role != Role::Init =>
                {
                    let told = format!("Container {} definition changed, will be restarted", container.name);
                    step.tell(Some(index), Severity::Normal, "Killing", told);
                    starts.push((index, attempt + 1));
                    true
                }
                Some((Container::Running { .. }, _)) => container.role != Role::Init,
                Some((Container::Exited(exit), attempt)) => {
                    if pod.restarts(container, exit.code) {
                        match self.backoff(pod, index).try_restart(exit.finished, now) {
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
            if !settled && container.role != Role::Main && !mains_begun {
                break;
            }
        }
        starts
    }

    /// Nothing will ever be started again.
    fn is_done(&self, pod: &Pod<'_>, sandbox: &Sandbox) -> bool {
        let ended = |index: usize| match sandbox.container(index).map(|c| &c.state) {
            Some(Container::Exited(exit)) if !pod.restarts(&pod.containers[index], exit.code) => {
                Some(exit.code)
            }
            _ => None,
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

    fn backoff(&mut self, pod: &Pod<'_>, index: usize) -> &mut BackOff {
        if self.backoffs.is_empty() {
            self.backoffs = vec![BackOff::default(); pod.containers.len()];
        }
        // Containers that may be restarted are there from the beginning.
        &mut self.backoffs[index]
    }

    fn status(
        &self,
        pod: &Pod<'_>,
        host: &Host<'_>,
        sandbox: &Sandbox,
        terminal: bool,
        now: Millis,
    ) -> Option<Value> {
        status::changed(&status::View {
            pod,
            host,
            sandbox,
            backoffs: &self.backoffs,
            pulls: &self.pulls,
            devices: &self.devices,
            terminal,
            now,
        })
    }
}

impl SyncResult {
    fn tell(&mut self, container: Option<usize>, severity: Severity, reason: &str, message: String) {
        self.events.push(Happening { severity, reason: reason.to_owned(), message, container });
    }
}

fn ending(pod: &Pod<'_>, now: Millis) -> Option<Ending> {
    if let Some(grace_seconds) = pod.deletion {
        return Some(Ending { grace_seconds, why: Why::Deleted });
    }
    let grace_seconds = pod.grace_seconds;
    if pod.is_over() {
        return Some(Ending { grace_seconds, why: Why::Over });
    }
    let passed = status::deadline_passed(pod, now);
    passed.then_some(Ending { grace_seconds, why: Why::Deadline })
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
