//! The conditions a node keeps on its pods. Those of others stay as they are.

use object::{Map, Value, time};

use crate::pod::Role;
use crate::worker::status::{ContainerState, ContainerStatus, View};

const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const OURS: [&str; 5] = [READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED];

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
    let has_sandbox =
        !view.terminal && !matches!(phase, "Succeeded" | "Failed") && !view.sandbox.containers.is_empty();
    let sandbox = if has_sandbox { Word::yes() } else { Word::no("", String::new()) };
    let words = [sandbox, initialized(view, shown, phase), ready, containers, Word::yes()];
    let mut conditions: Vec<Value> =
        old.iter().filter(|c| !OURS.contains(&c.str_at(&["type"]).unwrap_or(""))).cloned().collect();
    for (kind, word) in OURS.into_iter().zip(words) {
        let said = if word.holds { "True" } else { "False" };
        let there = find(kind);
        let mut condition = Map::with_capacity(7);
        condition.set("type", kind);
        if view.pod.generation > 0 {
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
        conditions.push(Value::Map(condition));
    }
    status.set("conditions", Value::List(conditions));
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

fn initialized(view: &View<'_>, shown: &[ContainerStatus], phase: &str) -> Word {
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
        Role::Sidecar => matches!(shown.state, ContainerState::Running { .. }),
    };
    let open: Vec<&str> = all().filter(|(c, s)| !complete(c.role, s)).map(|(c, _)| c.name).collect();
    if open.is_empty() {
        return Word::yes();
    }
    Word::no("ContainersNotInitialized", format!("containers with incomplete status: [{}]", open.join(" ")))
}
