//! What is to be written about a node, and about the pods on it.

use std::collections::{BTreeMap, BTreeSet};

use kinds::conditions;
use kinds::pod::view::PodView;
use object::{Map, Value};

use super::health::Verdict;
use super::node::{Condition, NO_EXECUTE, NO_SCHEDULE, NOT_READY, NodeFacts, Taint, UNREACHABLE};

/// What brings a node's taints and labels in line with its conditions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mend {
    pub add: Vec<Taint>,
    pub remove: Vec<Taint>,
    /// Labels of old that repeat newer ones, and what they must be set to.
    pub labels: Vec<(&'static str, String)>,
}

pub fn mend<'a>(node: &NodeFacts, label: &dyn Fn(&str) -> Option<&'a str>) -> Mend {
    let (add, remove) = no_schedule(node);
    Mend { add, remove, labels: label_repairs(label) }
}

impl Mend {
    pub fn describe(&self) -> String {
        let Mend { add, remove, labels } = self;
        if *self == Mend::default() {
            return "nothing: taints and labels are as they should be".to_owned();
        }
        format!("taints: add {add:?}, remove {remove:?}; labels to set: {}", labels.len())
    }
}

/// A pod bound to a node that is not ready cannot be ready itself.
pub fn cannot_be_ready(node: &NodeFacts) -> bool {
    node.ready().is_some_and(|ready| ready.status != "True")
}

/// Who came and who went since the last look, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moves<T> {
    pub came: Vec<T>,
    pub went: Vec<String>,
}

pub fn moves<'a, V>(known: &BTreeMap<String, V>, there: &[&'a str]) -> Moves<&'a str> {
    let names: BTreeSet<&str> = there.iter().copied().collect();
    Moves {
        came: there.iter().filter(|name| !known.contains_key(**name)).copied().collect(),
        went: known.keys().filter(|name| !names.contains(name.as_str())).cloned().collect(),
    }
}

/// What to do about one node after a look at it, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// Take away the taints that send pods away; nobody gives it up any more.
    Reachable,
    /// It has been given up already; only the reason changed.
    Swap { add: &'static str, remove: &'static str },
    /// Give it up when its zone's turn comes; `again`: even if its turn has been.
    GiveUp { again: bool },
    /// Tell people that it became unreachable, or said that it is not ready.
    Tell,
    /// Its pods cannot be ready.
    MarkPods,
}

/// `retry`: its pods could not all be marked the last time.
pub fn act(node: &NodeFacts, verdict: &Verdict, retry: bool) -> Vec<NodeAction> {
    let Some(current) = verdict.current.as_deref() else { return Vec::new() };
    let first = match wanted(current) {
        None => NodeAction::Reachable,
        Some((add, remove)) if node.has_taint(remove, NO_EXECUTE) => NodeAction::Swap { add, remove },
        Some((add, _)) => NodeAction::GiveUp { again: !node.has_taint(add, NO_EXECUTE) },
    };
    let mut steps = vec![first];
    let fell = current != "True" && verdict.observed == "True";
    if fell {
        steps.push(NodeAction::Tell);
    }
    if fell || (retry && verdict.observed != "True") {
        steps.push(NodeAction::MarkPods);
    }
    steps
}

/// The NoExecute taint that a status of Ready stands for, and the one it excludes.
pub fn wanted(ready: &str) -> Option<(&'static str, &'static str)> {
    match ready {
        "False" => Some((NOT_READY, UNREACHABLE)),
        "Unknown" => Some((UNREACHABLE, NOT_READY)),
        _ => None,
    }
}

/// Has it a taint that sends pods away? Whom nobody tainted need not be written; that is nearly everybody, nearly always.
pub fn is_given_up(node: &NodeFacts) -> bool {
    node.has_taint(UNREACHABLE, NO_EXECUTE) || node.has_taint(NOT_READY, NO_EXECUTE)
}

/// Of each zone, which of its nodes are ready. Nodes that ask for it say nothing about their zone.
pub fn ready_by_zone<'a>(
    seen: impl Iterator<Item = (&'a NodeFacts, &'a Verdict)>,
) -> BTreeMap<String, Vec<bool>> {
    let mut zones: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for (node, verdict) in seen.filter(|(node, _)| !node.excluded) {
        zones.entry(node.zone.clone()).or_default().push(verdict.current.as_deref() == Some("True"));
    }
    zones
}

/// Which taint a condition's status stands for.
const BY_CONDITION: &[(&str, &str, &str)] = &[
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// NoSchedule taints to add and to take away, so that they say what the conditions and `unschedulable` say.
fn no_schedule(node: &NodeFacts) -> (Vec<Taint>, Vec<Taint>) {
    let taint_of = |condition: &Condition| {
        let row = BY_CONDITION.iter().find(|row| row.0 == condition.kind && row.1 == condition.status);
        row.map(|(_, _, key)| Taint::new(key, NO_SCHEDULE))
    };
    let mut wanted: Vec<Taint> = node.conditions.iter().filter_map(taint_of).collect();
    if node.unschedulable {
        wanted.push(Taint::new(UNSCHEDULABLE, NO_SCHEDULE));
    }
    let ours = |taint: &&Taint| {
        taint.effect == NO_SCHEDULE
            && (taint.key == UNSCHEDULABLE || BY_CONDITION.iter().any(|row| row.2 == taint.key))
    };
    let there: Vec<Taint> = node.taints.iter().filter(ours).cloned().collect();
    let lacking = |list: &[Taint], other: &[Taint]| -> Vec<Taint> {
        list.iter().filter(|taint| !other.iter().any(|o| o.same(taint))).cloned().collect()
    };
    (lacking(&wanted, &there), lacking(&there, &wanted))
}

fn label_repairs<'a>(label: &dyn Fn(&str) -> Option<&'a str>) -> Vec<(&'static str, String)> {
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")]
        .into_iter()
        .filter_map(|(primary, secondary)| {
            let value = label(primary)?;
            (label(secondary) != Some(value)).then(|| (secondary, value.to_owned()))
        })
        .collect()
}

/// The taints after a swap; `None`: nothing would change. What is there already keeps its time.
pub fn swapped(taints: &[Taint], add: &[Taint], remove: &[Taint], now: &str) -> Option<Vec<Taint>> {
    let mut new: Vec<Taint> =
        taints.iter().filter(|taint| !remove.iter().any(|r| r.same(taint))).cloned().collect();
    for taint in add {
        if !new.iter().any(|there| there.same(taint)) {
            new.push(Taint { time_added: Some(now.to_owned()), ..taint.clone() });
        }
    }
    (new != taints).then_some(new)
}

/// The node with other conditions. Fields this controller knows nothing of stay.
pub fn with_conditions(mut node: Value, conditions: &[Condition]) -> Value {
    let old = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let merged = conditions.iter().map(|condition| {
        let there = old.iter().find(|old| old.str_at(&["type"]) == Some(&condition.kind));
        let mut merged = there.cloned().unwrap_or_else(Value::map);
        if let Value::Map(fields) = condition.to_value() {
            for (name, value) in fields {
                merged.make_map().set(name, value);
            }
        }
        merged
    });
    let merged = Value::List(merged.collect());
    node.map_at(&["status"]).set("conditions", merged);
    node
}

/// Who sets the condition says since when.
pub fn has_ready_condition(pod: &PodView) -> bool {
    pod.ready || pod.ready_since != 0
}

/// Has the pod a Ready condition that does not say False? Most pods are asked without being read.
pub fn is_ready_now(pod: &PodView, tree: impl FnOnce() -> Value) -> bool {
    if pod.ready || !has_ready_condition(pod) {
        return pod.ready;
    }
    conditions::find(&tree(), "Ready").is_some_and(|ready| ready.str_at(&["status"]) != Some("False"))
}

/// Status of a pod nobody hears of.
pub fn not_ready(uid: &str, now: String) -> Value {
    let mut condition = Map::default();
    condition.set("type", "Ready");
    condition.set("status", "False");
    condition.set("lastTransitionTime", now);
    let mut patch = Value::map();
    patch.map_at(&["metadata"]).set("uid", uid.to_owned());
    patch.map_at(&["status"]).set("conditions", Value::List(vec![Value::Map(condition)]));
    patch
}
