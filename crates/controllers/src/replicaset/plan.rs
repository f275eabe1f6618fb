//! The decision of a reconcile: how many pods to make or delete, what to say in the status, when to look again.

use std::time::Duration;

use object::{Obj, Value};

use super::set::Set;
use super::status::Counted;
use super::tally::{Group, PodTally};

/// So many pods at most are made or deleted in one reconcile.
pub(crate) const BURST: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Create(usize),
    Delete(usize),
}

impl Change {
    /// For people who ask what a reconcile did.
    pub fn describe(&self) -> String {
        match self {
            Change::Nothing => "nothing".to_owned(),
            Change::Create(count) => format!("create {count}"),
            Change::Delete(count) => format!("delete {count}"),
        }
    }
}

pub(crate) fn change(active: usize, wanted: i64) -> Change {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    match active.cmp(&wanted) {
        std::cmp::Ordering::Less => Change::Create((wanted - active).min(BURST)),
        std::cmp::Ordering::Equal => Change::Nothing,
        std::cmp::Ordering::Greater => Change::Delete((active - wanted).min(BURST)),
    }
}

/// Of what is counted in the set's namespace, the selector's.
pub(crate) fn count(set: &Set, namespace: &str, tally: &PodTally, now: i64) -> Counted {
    let (mut counted, mut terminating) = (Counted::default(), 0);
    for group in tally.groups(namespace).filter(|group| selects(set, group)) {
        counted.active += group.active;
        counted.fully_labeled += if group.matches(&set.template_labels) { group.active } else { 0 };
        counted.ready += group.ready;
        counted.available += group.available(set.min_ready_seconds, now);
        terminating += group.terminating;
    }
    Counted { terminating: Some(terminating), ..counted }
}

fn selects(set: &Set, group: &Group) -> bool {
    set.selector.as_ref().is_ok_and(|selector| group.matches(selector))
}

/// Whether there are active pods that the set must let go.
pub(crate) fn must_release(set: &Set, namespace: &str, tally: &PodTally) -> bool {
    tally.groups(namespace).any(|group| group.active > 0 && !selects(set, group))
}

/// When the next ready pod becomes available, if one does.
pub(crate) fn next_available(
    set: &Set,
    namespace: &str,
    tally: &PodTally,
    now_nanos: i128,
) -> Option<Duration> {
    let counted = count(set, namespace, tally, (now_nanos / 1_000_000_000) as i64);
    if set.min_ready_seconds <= 0 || counted.ready == counted.available {
        return None;
    }
    let waiting = tally.groups(namespace).filter(|group| selects(set, group));
    let next = waiting.filter_map(|group| group.next_available(set.min_ready_seconds, now_nanos)).min();
    // A time that was never told, or has just passed: a whole wait is always enough.
    Some(next.unwrap_or(Duration::from_secs(set.min_ready_seconds.unsigned_abs())))
}

/// A pod of the set's template.
pub(crate) fn pod_from_template(set: &Obj, tree: &Value, controller: Value) -> Value {
    let template = |part: &[&str]| tree.at(&["spec", "template"]).and_then(|template| template.at(part));
    let mut pod = Value::map();
    let metadata = pod.map_at(&["metadata"]);
    metadata.set("generateName", prefix(set.name()));
    for name in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template(&["metadata", name]) {
            metadata.set(name, value.clone());
        }
    }
    metadata.set("ownerReferences", Value::List(vec![controller]));
    if let Some(spec) = template(&["spec"]) {
        pod.make_map().set("spec", spec.clone());
    }
    pod
}

/// With a dash, unless that makes a name too long.
fn prefix(name: &str) -> String {
    const LONGEST: usize = 253;
    if name.len() < LONGEST { format!("{name}-") } else { name.to_owned() }
}
