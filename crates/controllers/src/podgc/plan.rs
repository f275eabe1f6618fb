//! Which pods are garbage. Numbers are places in the list given.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kinds::conditions;
use kinds::pod::view::{Phase, PodView};
use object::{Map, Value, time};
use tokio::time::Instant;

/// A node is looked for that long before it counts as gone.
const QUARANTINE: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Terminated,
    OutOfService,
    Orphaned,
    Unscheduled,
}

pub struct Pod<'a> {
    pub name: &'a str,
    pub view: &'a PodView,
}

/// What matters of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub ready: bool,
    pub out_of_service: bool,
}

impl Node {
    pub fn read(node: &Value) -> Node {
        let taints = node.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default();
        let out = |taint: &Value| taint.str_at(&["key"]) == Some("node.kubernetes.io/out-of-service");
        Node { ready: conditions::is_true(node, "Ready"), out_of_service: taints.iter().any(out) }
    }
}

/// What is going to be deleted, in words.
pub fn describe(garbage: &[(Why, Vec<usize>)], of: usize) -> String {
    let some = garbage.iter().filter(|(_, which)| !which.is_empty());
    let parts: Vec<String> = some.map(|(why, which)| format!("{} {why:?}", which.len())).collect();
    if parts.is_empty() { format!("keep all {of} pods") } else { format!("delete {}", parts.join(", ")) }
}

/// Finished pods above the threshold: evicted ones first, then the oldest.
pub fn terminated(pods: &[Pod<'_>], threshold: usize) -> Vec<usize> {
    let mut finished: Vec<usize> = (0..pods.len()).filter(|&at| pods[at].view.is_terminal()).collect();
    let surplus = finished.len().saturating_sub(threshold);
    if surplus > 0 {
        by_age(pods, &mut finished);
    }
    finished.truncate(surplus);
    finished
}

/// Pods that go, on nodes that are down and that people said will not come back as they were.
pub fn out_of_service(pods: &[Pod<'_>], node: &dyn Fn(&str) -> Option<Node>) -> Vec<usize> {
    let lost = |at: &usize| {
        let view = pods[*at].view;
        let node = if view.deletion == 0 || view.node.is_empty() { None } else { node(&view.node) };
        node.is_some_and(|node| !node.ready && node.out_of_service)
    };
    let mut lost: Vec<usize> = (0..pods.len()).filter(lost).collect();
    by_age(pods, &mut lost);
    lost
}

/// Nodes pods are bound to and nobody knows, that were missed for long enough: they are not waited for any more.
/// `missed`: until when each is waited for.
pub fn due_nodes(
    pods: &[Pod<'_>],
    exists: &dyn Fn(&str) -> bool,
    missed: &mut BTreeMap<String, Instant>,
    now: Instant,
) -> Vec<String> {
    let bound: BTreeSet<&str> = pods.iter().map(|pod| &*pod.view.node).filter(|n| !n.is_empty()).collect();
    missed.retain(|name, _| bound.contains(name.as_str()) && !exists(name));
    for name in bound.into_iter().filter(|name| !exists(name)) {
        missed.entry(name.to_owned()).or_insert(now + QUARANTINE);
    }
    let due: Vec<String> =
        missed.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect();
    missed.retain(|_, until| *until > now);
    due
}

/// Pods of nodes that are gone.
pub fn orphaned(pods: &[Pod<'_>], gone: &BTreeSet<String>) -> Vec<usize> {
    (0..pods.len()).filter(|&at| gone.contains(&*pods[at].view.node)).collect()
}

/// Pods that go and have no node that could see to it.
pub fn unscheduled_terminating(pods: &[Pod<'_>]) -> Vec<usize> {
    (0..pods.len()).filter(|&at| pods[at].view.deletion != 0 && pods[at].view.node.is_empty()).collect()
}

fn by_age(pods: &[Pod<'_>], which: &mut [usize]) {
    let evicted = |view: &PodView| view.phase == Phase::Failed && &*view.reason == "Evicted";
    which.sort_by_key(|&at| (!evicted(pods[at].view), pods[at].view.created, pods[at].name));
}

/// Status that says the pod failed, and of a pod whose node is gone, why.
pub fn failed_patch(pod: &Value, why: Why, now: i64) -> Value {
    let generation = pod.at(&["metadata", "generation"]).and_then(Value::as_int);
    let mut patch = Value::map();
    patch.map_at(&["metadata"]).set("uid", pod.str_at(&["metadata", "uid"]).unwrap_or(""));
    let status = patch.map_at(&["status"]);
    status.set("phase", "Failed");
    if let Some(generation) = generation {
        status.set("observedGeneration", generation);
    }
    if why == Why::Orphaned {
        let before = conditions::find(pod, "DisruptionTarget");
        let since = before.filter(|c| c.str_at(&["status"]) == Some("True"));
        let since = since.and_then(|c| c.str_at(&["lastTransitionTime"])).map(str::to_owned);
        let mut condition = Map::default();
        condition.set("type", "DisruptionTarget");
        condition.set("status", "True");
        condition.set("reason", "DeletionByPodGC");
        condition.set("message", "PodGC: node no longer exists");
        condition.set("lastTransitionTime", since.unwrap_or_else(|| time::format_seconds(now)));
        if let Some(generation) = generation {
            condition.set("observedGeneration", generation);
        }
        status.set(runtime::CONDITIONS_ORDER, runtime::conditions_with(pod, "DisruptionTarget"));
        status.set("conditions", vec![Value::Map(condition)]);
    }
    patch
}
