//! The conditions a node keeps on its pods. Those of others stay as they are.

use object::{Map, Value, time};

use crate::pod::Role;
use crate::worker::restart_all;
use crate::worker::status::{ContainerState, ContainerStatus, View};

const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const DISRUPTION_TARGET: &str = "DisruptionTarget";
const OURS: [&str; 6] =
    [READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, restart_all::CONDITION];

pub const RESIZE_PENDING: &str = "PodResizePending";
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
/// There only while they hold.
const PASSING: [&str; 2] = [RESIZE_PENDING, RESIZE_IN_PROGRESS];

/// Is it so, and if not, why not.
struct Word {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Word {
    fn yes() -> Word {
        Word { holds: true, reason: "", message: String::new() }
    }
    fn no(reason: &'static str, message: String) -> Word {
        Word { holds: false, reason, message }
    }
}

pub fn set(status: &mut Map, view: &View<'_>, shown: &[ContainerStatus], phase: &str) {
    let old = match status.remove("conditions") {
        Some(Value::List(old)) => old,
        _ => Vec::new(),
    };
    let find = |kind: &str| old.iter().find(|c| c.str_at(&["type"]) == Some(kind));
    let containers = containers_ready(view, shown, phase);
    let ready = pod_ready(view, &containers, &find);
    // A sandbox whose containers are all over is gone; one with containers yet to come is there.
    let has_sandbox = !view.terminal && !matches!(phase, "Succeeded" | "Failed") && view.sandbox.ready;
    let sandbox = if has_sandbox { Word::yes() } else { Word::no("", String::new()) };
    let of_all = view.pod.may_restart_all().then(|| restarting_all(view, phase));
    let words = [sandbox, initialized(view, shown, phase, &find), ready, containers, Word::yes()].into_iter();
    let words = words.chain(of_all);
    let is_ours = |kind: &str| OURS.contains(&kind) || PASSING.contains(&kind);
    let mut conditions: Vec<Value> =
        old.iter().filter(|c| !is_ours(c.str_at(&["type"]).unwrap_or(""))).cloned().collect();
    conditions.extend(of_resize(view, &find));
    for (kind, word) in OURS.into_iter().zip(words) {
        conditions.push(condition(view, find(kind), kind, word));
    }
    status.set("conditions", Value::List(conditions));
}

/// The node ended the pod for the sake of others. This condition is not only the node's: another's word is replaced.
pub fn set_disrupted(status: &mut Map, view: &View<'_>, message: &str) {
    let mut conditions = match status.remove("conditions") {
        Some(Value::List(conditions)) => conditions,
        _ => Vec::new(),
    };
    let at = conditions.iter().position(|c| c.str_at(&["type"]) == Some(DISRUPTION_TARGET));
    let there = at.map(|at| conditions.remove(at));
    let word = Word { reason: "TerminationByKubelet", message: message.to_owned(), ..Word::yes() };
    let condition = condition(view, there.as_ref(), DISRUPTION_TARGET, word);
    conditions.insert(at.unwrap_or(conditions.len()), condition);
    status.set("conditions", Value::List(conditions));
}

/// `there`: as it was before.
fn condition(view: &View<'_>, there: Option<&Value>, kind: &str, word: Word) -> Value {
    let said = if word.holds { "True" } else { "False" };
    let mut condition = Map::with_capacity(7);
    condition.set("type", kind);
    // Kubelet leaves it out of this one.
    if view.pod.generation > 0 && kind != restart_all::CONDITION {
        condition.set("observedGeneration", Value::Int(view.pod.generation));
    }
    condition.set("status", said);
    condition.set("lastProbeTime", Value::Null);
    let since =
        there.filter(|c| c.str_at(&["status"]) == Some(said)).and_then(|c| c.get("lastTransitionTime"));
    let since = since.cloned().unwrap_or_else(|| Value::Str(time::format_seconds(view.now / 1000)));
    condition.set("lastTransitionTime", since);
    if !word.reason.is_empty() {
        condition.set("reason", word.reason);
    }
    if !word.message.is_empty() {
        condition.set("message", word.message);
    }
    Value::Map(condition)
}

fn containers_ready(view: &View<'_>, shown: &[ContainerStatus], phase: &str) -> Word {
    match phase {
        "Succeeded" => return Word::no("PodCompleted", String::new()),
        "Failed" => return Word::no("PodFailed", String::new()),
        _ => {}
    }
    let all = view.pod.containers.iter().zip(shown);
    let unready: Vec<&str> = all
        .filter(|(c, s)| matches!(c.role, Role::Main | Role::Sidecar) && !s.ready)
        .map(|(c, _)| c.name)
        .collect();
    if unready.is_empty() {
        return Word::yes();
    }
    Word::no("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
}

/// A resize that does not fit, and one that is being carried out.
fn of_resize<'a>(view: &View<'_>, find: &dyn Fn(&str) -> Option<&'a Value>) -> Vec<Value> {
    let pending = view.resize.pending.as_ref();
    let pending =
        pending.and_then(|p| Some((RESIZE_PENDING, p.generation, p.reason.as_str(), p.message.as_deref()?)));
    let progress = view.resize.progress.as_ref().map(|p| match &p.error {
        Some(error) => (RESIZE_IN_PROGRESS, p.generation, "Error", error.as_str()),
        None => (RESIZE_IN_PROGRESS, p.generation, "", ""),
    });
    let condition = |(kind, generation, reason, message): (&'static str, i64, &str, &str)| {
        let there = find(kind).filter(|c| c.str_at(&["reason"]).unwrap_or("") == reason);
        let since = there.and_then(|c| c.get("lastTransitionTime")).cloned();
        let mut condition = Map::with_capacity(7);
        condition.set("type", kind);
        condition.set("observedGeneration", Value::Int(generation));
        condition.set("status", "True");
        condition.set("lastProbeTime", Value::Null);
        let since = since.unwrap_or_else(|| Value::Str(time::format_seconds(view.now / 1000)));
        condition.set("lastTransitionTime", since);
        if !reason.is_empty() {
            condition.set("reason", reason);
            condition.set("message", message);
        }
        Value::Map(condition)
    };
    pending.into_iter().chain(progress).map(condition).collect()
}

/// Upstream has it only on pods whose containers may ask for it.
fn restarting_all(view: &View<'_>, phase: &str) -> Word {
    match phase {
        "Succeeded" => return Word::no("PodCompleted", String::new()),
        "Failed" => return Word::no("PodFailed", String::new()),
        _ => {}
    }
    let asked = || view.restart_all.is_asked_for(view.pod, view.backoffs, view.sandbox);
    if view.restart_all.is_under_way() || asked() {
        let message = "container exited with restart policy rule".to_owned();
        return Word { reason: "RestartAllContainersStarted", message, ..Word::yes() };
    }
    Word::no("", String::new())
}

/// The containers, and whatever else the pod wants to be asked.
fn pod_ready<'a>(view: &View<'_>, containers: &Word, find: &dyn Fn(&str) -> Option<&'a Value>) -> Word {
    if !containers.holds {
        return Word::no(containers.reason, containers.message.clone());
    }
    let gates = view.pod.tree.at(&["spec", "readinessGates"]).and_then(Value::as_list).unwrap_or_default();
    let mut missing = Vec::new();
    for gate in gates.iter().filter_map(|gate| gate.str_at(&["conditionType"])) {
        let quoted = object::quote(gate);
        match find(gate).map(|c| c.str_at(&["status"]).unwrap_or("")) {
            Some("True") => {}
            None => missing
                .push(format!("corresponding condition of pod readiness gate {quoted} does not exist.")),
            Some(said) => {
                missing
                    .push(format!("the status of pod readiness gate {quoted} is not \"True\", but {said}"));
            }
        }
    }
    if missing.is_empty() { Word::yes() } else { Word::no("ReadinessGatesNotReady", missing.join(", ")) }
}

fn initialized<'a>(
    view: &View<'_>,
    shown: &[ContainerStatus],
    phase: &str,
    find: &dyn Fn(&str) -> Option<&'a Value>,
) -> Word {
    if phase == "Succeeded" {
        return Word { reason: "PodCompleted", ..Word::yes() };
    }
    let all = || view.pod.containers.iter().zip(shown);
    let begun = all().any(|(c, s)| {
        c.role == Role::Main && matches!(s.state, ContainerState::Running { .. } | ContainerState::Ended(_))
    });
    if begun {
        return Word::yes();
    }
    let complete = |role: Role, shown: &ContainerStatus| match role {
        Role::Main | Role::Ephemeral => true,
        Role::Init => shown.ready,
        Role::Sidecar => shown.started,
    };
    let open: Vec<&str> = all().filter(|(c, s)| !complete(c.role, s)).map(|(c, _)| c.name).collect();
    // Once a pod is initialized it stays so, whatever is run again.
    let was_said = || find(INITIALIZED).is_some_and(|c| c.str_at(&["status"]) == Some("True"));
    if open.is_empty() || was_said() {
        return Word::yes();
    }
    Word::no("ContainersNotInitialized", format!("containers with incomplete status: [{}]", open.join(" ")))
}
