//! Containers that the runtime has forgotten while nobody looked, as over a reboot: what the pod's status says of them counts, so that
//! what has run is not taken for what has yet to.

use std::borrow::Cow;

use object::{Value, time};

use crate::allocation::container_status;
use crate::container_runtime::{Container as State, Exit, Millis, Running, Sandbox};
use crate::pod::{Pod, Role};
use crate::worker::status;

const UNKNOWN: &str = "ContainerStatusUnknown";
const USED_TO_RUN: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
const COMPLETED: &str = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally";

/// With what the status says in the place of what the runtime does not know any more.
pub fn fill(pod: &Pod<'_>, mut sandbox: Sandbox) -> Sandbox {
    // What was removed for all to be restarted is not forgotten, but to be run anew.
    let all_known = sandbox.containers.len() == pod.containers.len()
        && sandbox.containers.iter().flatten().filter(|c| !is_blank(c)).count() == pod.containers.len();
    if all_known || pod.may_restart_all() {
        return sandbox;
    }
    sandbox.containers.resize(pod.containers.len(), None);
    let is_there = |sandbox: &Sandbox, index: usize| sandbox.container(index).is_some_and(|c| !is_blank(c));
    let has_main = |sandbox: &Sandbox| {
        let mut mains = pod.containers.iter().enumerate().filter(|(_, c)| c.role == Role::Main);
        mains.any(|(index, _)| is_there(sandbox, index))
    };
    let initialized = has_main(&sandbox);
    let mut filled = Vec::new();
    for (index, container) in pod.containers.iter().enumerate() {
        if container.role == Role::Ephemeral || is_there(&sandbox, index) {
            continue;
        }
        let told = container_status(pod, container);
        match &mut sandbox.containers[index] {
            // It is being started, or could not be: people know what came before that.
            Some(coming) => {
                let before = told.and_then(|told| Some((told, before(pod, told)?)));
                if let Some((told, running)) = before.filter(|_| coming.last.is_none()) {
                    coming.last = running.last.or(match running.state {
                        State::Exited(exit) => Some(exit),
                        _ => None,
                    });
                    coming.attempt = coming.attempt.max(restarts(told));
                }
            }
            slot => {
                let known = told.and_then(|told| before(pod, told));
                let ended_well =
                    matches!(&known, Some(Running { state: State::Exited(exit), .. }) if exit.code == 0);
                *slot = match known {
                    _ if container.role == Role::Init && initialized && !ended_well => Some(completed()),
                    known => known,
                };
                filled.extend(slot.as_ref().map(|_| index));
            }
        }
    }
    // What comes before one that is there has done its part; the rest begins anew.
    let begun = (0..pod.containers.len())
        .filter(|index| pod.containers[*index].role != Role::Ephemeral && !filled.contains(index))
        .filter(|index| is_there(&sandbox, *index) && !sandbox.outlived.contains(index))
        .max_by_key(|index| (pod.containers[*index].role == Role::Main, *index));
    let is_done = |index: usize| match begun {
        Some(last) => {
            pod.containers[index].role.is_init() && (pod.containers[last].role == Role::Main || index < last)
        }
        None => false,
    };
    sandbox.outlived.extend(filled.into_iter().filter(|index| !is_done(*index)));
    sandbox
}

/// Nothing says how it ended: it is shown as one that waits, or, when nothing is started any more, as lost.
pub fn waits(pod: &Pod<'_>, index: usize, there: &Running) -> bool {
    let State::Exited(exit) = &there.state else { return false };
    let is_told_ended = || {
        let told = container_status(pod, &pod.containers[index]);
        told.is_some_and(|told| told.at(&["state", "terminated"]).is_some())
    };
    there.id.is_empty() && exit.message != COMPLETED && !is_told_ended()
}

/// How often people are told that it was restarted: a run that is lost counts.
pub fn shown_restarts(pod: &Pod<'_>, index: usize, there: &Running) -> u32 {
    let lost = matches!(&there.state, State::Exited(exit) if is_lost(exit)) && pod.deletion.is_none();
    let said = container_status(pod, &pod.containers[index]).map_or(0, restarts);
    (there.attempt + u32::from(lost)).max(said)
}

/// How the run before one ended, where the runtime has forgotten that.
pub fn last(pod: &Pod<'_>, index: usize, there: &Running) -> Option<Exit> {
    let told = container_status(pod, &pod.containers[index])
        .filter(|_| !there.id.is_empty() && there.attempt > 0)?;
    let is_other = told.str_at(&["containerID"]) != Some(&there.id);
    is_other.then(|| ended(told, "state")).flatten().or_else(|| ended(told, "lastState"))
}

/// Nothing was ever made of it.
fn is_blank(there: &Running) -> bool {
    there.id.is_empty() && matches!(there.state, State::Created | State::Failed(_))
}

fn restarts(told: &Value) -> u32 {
    told.get("restartCount").and_then(Value::as_int).and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// The run that the status tells of.
fn before(pod: &Pod<'_>, told: &Value) -> Option<Running> {
    let text = |field: &str| told.str_at(&[field]).unwrap_or_default().to_owned();
    let (attempt, last) = (restarts(told), ended(told, "lastState"));
    // One that never ran is said to have ended when its pod is over; that is no run, and has no id.
    let never_ran = |exit: &Exit| exit.message == status::LOST && exit.id.is_empty();
    if let Some(exit) = ended(told, "state").filter(|exit| !never_ran(exit)) {
        let run = run(State::Exited(exit), attempt, last);
        return Some(Running {
            id: text("containerID"),
            image_id: text("imageID"),
            image: text("image"),
            ..run
        });
    }
    let ran = told.at(&["state", "running"]).is_some();
    match last {
        // The lost run was counted when it was first told of.
        Some(exit) if is_lost(&exit) => {
            let counted = u32::from(pod.deletion.is_none());
            Some(run(State::Exited(exit), attempt.saturating_sub(counted), None))
        }
        Some(exit) => Some(run(State::Exited(exit), attempt, None)),
        None => ran.then(|| run(State::Exited(exit(137, UNKNOWN, USED_TO_RUN)), attempt, None)),
    }
}

fn completed() -> Running {
    run(State::Exited(exit(0, "Completed", COMPLETED)), 0, None)
}

fn is_lost(exit: &Exit) -> bool {
    exit.reason == UNKNOWN && exit.message == USED_TO_RUN
}

fn run(state: State, attempt: u32, last: Option<Exit>) -> Running {
    Running {
        id: String::new(),
        image_id: String::new(),
        image: String::new(),
        outdated: false,
        needs_restart: false,
        user: None,
        attempt,
        state,
        last,
        replaced: false,
        hook_error: None,
    }
}

fn exit(code: i32, reason: &'static str, message: &str) -> Exit {
    Exit {
        reason: Cow::Borrowed(reason),
        message: message.to_owned(),
        ..Exit::new(code, 0, 0, String::new())
    }
}

fn ended(told: &Value, state: &str) -> Option<Exit> {
    let ended = told.at(&[state, "terminated"])?;
    let text = |field: &str| ended.str_at(&[field]).unwrap_or_default().to_owned();
    let int = |field: &str| i32::try_from(ended.get(field).and_then(Value::as_int).unwrap_or(0)).unwrap_or(0);
    let at = |field: &str| -> Millis {
        ended.str_at(&[field]).and_then(time::parse).map_or(0, |(seconds, _)| seconds * 1000)
    };
    Some(Exit {
        code: int("exitCode"),
        signal: int("signal"),
        reason: text("reason").into(),
        message: text("message"),
        started: at("startedAt"),
        finished: at("finishedAt"),
        id: text("containerID"),
    })
}
