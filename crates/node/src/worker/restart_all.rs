//! A container whose end asks for it takes the whole pod along: all are ended at once, then begun anew, init containers first.
//!
//! The runs from before stay in the runtime and are not looked at any more. Which those are is known from how often a container
//! was restarted, as the API has it: a process that comes later knows it as well.

use std::borrow::Cow;

use object::Value;

use crate::container_runtime::{Container, Exit, Millis, Running, Runtime, Sandbox};
use crate::pod::{Pod, Role};
use crate::worker::backoff::{BackOff, in_one_go};

pub const CONDITION: &str = "AllContainersRestarting";
/// Why a container waits, or ended.
pub const REASON: &str = "RestartingAllContainers";
pub const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

#[derive(Debug, Default)]
pub struct RestartAll {
    /// `None`: not looked at in this process, so that the API's condition counts.
    under_way: Option<bool>,
    /// The first run of each container that counts, by its place; empty until all were restarted once.
    first: Vec<u32>,
}

/// What a turn comes to.
pub struct Turn {
    pub begins: bool,
    /// Those that were told to end, for the first time.
    pub killed: Vec<usize>,
    /// Something still has to end.
    pub waits: bool,
}

impl RestartAll {
    pub fn is_under_way(&self) -> bool {
        self.under_way == Some(true)
    }

    /// The first run of the container that counts.
    pub fn first(&self, pod: &Pod<'_>, index: usize) -> u32 {
        let known = self.first.get(index).copied();
        known.unwrap_or_else(|| if pod.may_restart_all() { told(pod, index).0 } else { 0 })
    }

    /// How the run before this one ended, where that was not its own doing.
    pub fn last(&self, pod: &Pod<'_>, index: usize, attempt: u32) -> Option<Exit> {
        if !pod.may_restart_all() {
            return None;
        }
        let (restarts, before) = told(pod, index);
        let here = self.first.get(index).is_some_and(|first| *first > 0 && *first == attempt);
        (here || (before && restarts == attempt)).then(removed)
    }

    /// Without the runs that do not count any more.
    pub fn without_old(&self, pod: &Pod<'_>, mut sandbox: Sandbox) -> Sandbox {
        if !pod.may_restart_all() {
            return sandbox;
        }
        for (index, slot) in sandbox.containers.iter_mut().enumerate().take(pod.containers.len()) {
            let is_old = slot.as_ref().is_some_and(|run| {
                matches!(run.state, Container::Exited(_)) && run.attempt < self.first(pod, index)
            });
            if is_old {
                *slot = None;
            }
        }
        sandbox
    }

    /// Ends all containers where one asks for it; `None`: nothing of the kind.
    pub fn turn(
        &mut self,
        pod: &Pod<'_>,
        backoffs: &[BackOff],
        runtime: &mut dyn Runtime,
        now: Millis,
    ) -> Option<Turn> {
        if !pod.may_restart_all() {
            return None;
        }
        let sandbox = runtime.look(pod, now)?;
        let was_under_way = self.is_under_way();
        let asked = match self.under_way {
            None => is_said(pod) || self.is_asked_for(pod, backoffs, &sandbox),
            Some(true) => true,
            Some(false) => self.is_asked_for(pod, backoffs, &sandbox),
        };
        self.under_way = Some(asked);
        if !asked {
            return None;
        }
        let alive = |sandbox: &Sandbox| -> Vec<usize> {
            let all = pod.containers.iter().enumerate().filter(|(_, c)| c.role != Role::Ephemeral);
            let alive =
                all.filter(|(index, _)| sandbox.container(*index).is_some_and(|run| run.state.is_alive()));
            alive.map(|(index, _)| index).collect()
        };
        let to_end = alive(&sandbox);
        for index in &to_end {
            runtime.kill(pod, *index, now);
        }
        let sandbox = runtime.look(pod, now).unwrap_or_default();
        // The API knows of it before anything is started again.
        let waits = !was_under_way || !alive(&sandbox).is_empty();
        if !waits {
            let after = |index: usize| {
                // One that could never be started has no run to be forgotten.
                let ended =
                    |run: &Running| matches!(run.state, Container::Exited(_) | Container::Restarting(_));
                let ran = |run: &&Running| run.last.is_some() || ended(run);
                let is_restarted = pod.containers[index].role != Role::Ephemeral;
                let run = sandbox.container(index).filter(ran).filter(|_| is_restarted);
                let first = self.first(pod, index);
                run.map_or(first, |run| first.max(run.attempt.saturating_add(1)))
            };
            self.first = (0..pod.containers.len()).map(after).collect();
            self.under_way = Some(false);
        }
        let killed = if was_under_way { Vec::new() } else { to_end };
        Some(Turn { begins: !was_under_way, killed, waits })
    }

    /// A container ended so that all are to be restarted. One that was ended because a probe failed, and is started anew in the same
    /// go, never is seen as ended in kubelet.
    pub fn is_asked_for(&self, pod: &Pod<'_>, backoffs: &[BackOff], sandbox: &Sandbox) -> bool {
        pod.containers.iter().enumerate().any(|(index, container)| {
            let run = sandbox.container(index).filter(|run| run.attempt >= self.first(pod, index));
            match run.map(|run| (run, &run.state)) {
                Some((run, Container::Exited(exit))) => {
                    container.restarts_all(exit.code) && !in_one_go(pod, index, run, backoffs)
                }
                _ => false,
            }
        })
    }
}

/// How a run ended that was ended for all to be restarted.
fn removed() -> Exit {
    Exit { reason: Cow::Borrowed(REASON), message: MESSAGE.to_owned(), ..Exit::new(137, 0, 0, String::new()) }
}

/// The API says that it is under way.
fn is_said(pod: &Pod<'_>) -> bool {
    let conditions = pod.tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let is_it = |c: &Value| c.str_at(&["type"]) == Some(CONDITION) && c.str_at(&["status"]) == Some("True");
    conditions.iter().any(is_it)
}

/// How often a container was restarted, and whether the last time all were.
fn told(pod: &Pod<'_>, index: usize) -> (u32, bool) {
    let Some(container) = pod.containers.get(index) else { return (0, false) };
    let (_, list) = container.role.lists();
    let all = pod.tree.at(&["status", list]).and_then(Value::as_list).unwrap_or_default();
    let Some(said) = all.iter().find(|status| status.str_at(&["name"]) == Some(container.name)) else {
        return (0, false);
    };
    let restarts = said.get("restartCount").and_then(Value::as_int).unwrap_or(0);
    let reason = said.str_at(&["lastState", "terminated", "reason"]);
    (u32::try_from(restarts).unwrap_or(0), reason == Some(REASON))
}
