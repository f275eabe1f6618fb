//! Revisions: each template a Deployment ever had is a ReplicaSet with a number, kept for `kubectl rollout undo`.

use std::collections::BTreeMap;

use super::spec::Deployment;

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
pub(crate) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The history of a template's numbers grows no longer than this.
const LONGEST_HISTORY: usize = 2000;

type Annotations = BTreeMap<String, String>;

/// Annotations that are one object's own, never copied between a Deployment and its ReplicaSets.
pub(crate) fn is_own(name: &str) -> bool {
    [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO].contains(&name)
}

/// A set's number; 0 if it has none, `None` if it cannot be read.
pub(crate) fn revision(annotations: &Annotations) -> Option<i64> {
    annotations.get(REVISION).map_or(Some(0), |revision| revision.parse().ok())
}

/// Gives the new set the Deployment's annotations and, if it is newer than its own, the number. Tells whether anything changed.
pub(crate) fn annotate_new(d: &Deployment, of_set: &mut Annotations, number: i64) -> bool {
    let mut changed = false;
    for (name, value) in d.annotations.iter().filter(|(name, _)| !is_own(name)) {
        changed |= put(of_set, name, value.clone());
    }
    let old = of_set.get(REVISION).cloned();
    let old_number = match old.as_deref() {
        None | Some("") => 0,
        // Somebody wrote there what is no number: it is left alone.
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return false,
        },
    };
    if old_number < number {
        changed |= put(of_set, REVISION, number.to_string());
        if let Some(old) = old {
            remember(of_set, &old);
        }
    }
    changed
}

/// How many pods the Deployment wanted when the set was last scaled; tells whether anything changed.
pub(crate) fn annotate_replicas(d: &Deployment, of_set: &mut Annotations) -> bool {
    let desired = put(of_set, DESIRED_REPLICAS, d.replicas.to_string());
    let most = put(of_set, MAX_REPLICAS, d.max_replicas().to_string());
    desired || most
}

/// A count written by [`annotate_replicas`].
pub(crate) fn count(annotations: &Annotations, name: &str) -> Option<i64> {
    annotations.get(name)?.parse::<i32>().ok().filter(|count| *count >= 0).map(i64::from)
}

/// A number the set had before, at the end of its history; the oldest make room.
fn remember(of_set: &mut Annotations, old: &str) {
    let history = of_set.get(REVISION_HISTORY).cloned().unwrap_or_default();
    let mut numbers: Vec<&str> = history.split(',').filter(|number| !number.is_empty()).collect();
    if numbers.is_empty() {
        of_set.insert(REVISION_HISTORY.to_owned(), old.to_owned());
        return;
    }
    let mut length = history.len() + old.len() + 1;
    let mut dropped = 0;
    while length > LONGEST_HISTORY && dropped < numbers.len() {
        length = length.saturating_sub(numbers[dropped].len() + 1);
        dropped += 1;
    }
    if length <= LONGEST_HISTORY {
        numbers.drain(..dropped);
        numbers.push(old);
        of_set.insert(REVISION_HISTORY.to_owned(), numbers.join(","));
    }
}

fn put(annotations: &mut Annotations, name: &str, value: String) -> bool {
    if annotations.get(name) == Some(&value) {
        return false;
    }
    annotations.insert(name.to_owned(), value);
    true
}
