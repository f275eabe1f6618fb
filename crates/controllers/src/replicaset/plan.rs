//! The decision of a reconcile: how many pods to make or delete, what to say in the status, when to look again.

use std::time::Duration;

use object::{Obj, Value};

use super::set::Set;
use super::status::Counted;
use crate::pods::{Pod, next_available as next};

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

pub(crate) fn count(set: &Set, active: &[Pod], terminating: Option<i64>, now: i64) -> Counted {
    let how_many = |counts: &dyn Fn(&Pod) -> bool| active.iter().filter(|pod| counts(pod)).count() as i64;
    Counted {
        active: active.len() as i64,
        fully_labeled: how_many(&|pod| set.template_labels.matches(&|name| pod.obj.label(name))),
        ready: how_many(&|pod| pod.view.ready),
        available: how_many(&|pod| pod.view.is_available(set.min_ready_seconds, now)),
        terminating,
    }
}

/// When the next ready pod becomes available, if one does.
pub(crate) fn next_available(
    set: &Set,
    counted: &Counted,
    active: &[Pod],
    now_nanos: i128,
) -> Option<Duration> {
    if set.min_ready_seconds <= 0 || counted.ready == counted.available {
        return None;
    }
    Some(next(active, set.min_ready_seconds, now_nanos))
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
