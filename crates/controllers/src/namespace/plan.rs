//! What a namespace that is being deleted needs next, and what is left of its content.
//!
//! ```text
//! namespace ──> next() ── MarkTerminating ──> again with the answer
//!                      ── Empty ──> every resource: how_to_delete(), what_is_left() ──> Found ──> after()
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use catalog::Verbs;
use client::Gvr;
use client::resources::PODS;
use object::{Value, time};

use super::conditions::Found;
use super::content::Content;

/// What this controller takes off `spec.finalizers`.
const FINALIZER: &str = "kubernetes";
/// How long finalizers are supposed to take.
const FINALIZER_SECONDS: i64 = 15;

/// What comes next.
#[derive(Debug, PartialEq)]
pub enum Required {
    /// It is not going, or nobody waits for its content.
    Nothing,
    /// Its phase must say so first.
    MarkTerminating,
    /// Its content must go.
    Empty,
}

pub fn next(namespace: &Value) -> Required {
    if namespace.at(&["metadata", "deletionTimestamp"]).is_none_or(Value::is_null) {
        return Required::Nothing;
    }
    if namespace.str_at(&["status", "phase"]) != Some("Terminating") {
        return Required::MarkTerminating;
    }
    if finalizers(namespace).is_empty() { Required::Nothing } else { Required::Empty }
}

/// Says in the phase that the namespace goes; tells whether that is news.
pub fn terminating(namespace: &mut Value) -> bool {
    let is = namespace.str_at(&["status", "phase"]) == Some("Terminating");
    namespace.map_at(&["status"]).set("phase", "Terminating");
    !is
}

/// What follows from what was found when the content was deleted.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    Fail(String),
    Wait(Duration),
    Finalize,
}

/// `wait_seconds`: how long the rest may take. Looked at again when half of that is over.
pub fn after(found: &Found, wait_seconds: i64) -> After {
    // What is not known may be there.
    let failures: Vec<String> = found.discovery_error().into_iter().chain(found.failures.clone()).collect();
    if !failures.is_empty() {
        return After::Fail(failures.join(", "));
    }
    if wait_seconds > 0 {
        return After::Wait(Duration::from_secs(u64::try_from(wait_seconds / 2 + 1).unwrap_or(1)));
    }
    After::Finalize
}

/// Takes this controller's finalizer off, the others sorted; tells whether it was there.
pub fn finalized(namespace: &mut Value) -> bool {
    let all = finalizers(namespace);
    let mut rest: Vec<String> = all.iter().filter(|f| *f != FINALIZER).cloned().collect();
    rest.sort();
    rest.dedup();
    let changes = rest.len() < all.len();
    namespace.make_map().remove("status");
    namespace.map_at(&["spec"]).set("finalizers", rest.into_iter().map(Value::from).collect::<Vec<_>>());
    changes
}

/// Seconds since the deletion was asked for.
pub fn age(namespace: &Value, now_seconds: i64) -> i64 {
    let at = namespace.str_at(&["metadata", "deletionTimestamp"]).and_then(time::parse);
    at.map_or(0, |(seconds, _)| now_seconds - seconds)
}

/// Pods go before what they may need to end well: their secrets, policies, claims.
pub fn stages(contents: &[Content]) -> [Vec<&Content>; 2] {
    let (pods, others) = contents.iter().partition(|content| content.resource == PODS);
    [pods, others]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Collection,
    OneByOne,
    /// It cannot be seen what there is.
    Impossible,
}

pub fn how_to_delete(verbs: Verbs) -> Deletion {
    if verbs.contains(Verbs::DELETE_COLLECTION) {
        Deletion::Collection
    } else if verbs.contains(Verbs::LIST) {
        Deletion::OneByOne
    } else {
        Deletion::Impossible
    }
}

/// How long pods may still take to end; 0 when that time is over.
pub fn grace_left(pods: &[Value], since_seconds: i64) -> i64 {
    let longest = longest_grace(pods);
    if since_seconds >= longest { 0 } else { longest }
}

/// The longest grace period of pods that have not ended yet.
pub fn longest_grace(pods: &[Value]) -> i64 {
    let running =
        pods.iter().filter(|pod| !matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")));
    let grace = running.filter_map(|pod| pod.at(&["spec", "terminationGracePeriodSeconds"])?.as_int());
    grace.max().unwrap_or(0).max(0)
}

/// What is left of one resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How long the rest may take; 0: unknown.
    pub seconds: i64,
    pub count: usize,
    pub finalizers: BTreeMap<String, usize>,
}

/// After a deletion that went well. An error: there should be nothing, and nobody knows what it waits for.
pub fn what_is_left(
    resource: &Gvr,
    namespace: &str,
    items: &[Value],
    grace_seconds: i64,
) -> (Left, Option<String>) {
    if items.is_empty() {
        return (Left::default(), None);
    }
    let mut left = Left { seconds: grace_seconds, count: items.len(), finalizers: BTreeMap::new() };
    for finalizer in items.iter().flat_map(|item| strings(item, &["metadata", "finalizers"])) {
        *left.finalizers.entry(finalizer).or_default() += 1;
    }
    if grace_seconds != 0 {
        return (left, None);
    }
    if !left.finalizers.is_empty() {
        left.seconds = FINALIZER_SECONDS;
        return (left, None);
    }
    let Gvr { group, version, plural } = resource;
    let unexpected = format!(
        "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
    );
    (left, Some(unexpected))
}

/// Adds what is left of one resource to what was found.
pub fn note(found: &mut Found, wait_seconds: &mut i64, resource: &Gvr, left: Left, failure: Option<String>) {
    found.failures.extend(failure);
    *wait_seconds = left.seconds.max(*wait_seconds);
    if left.count > 0 {
        found.remaining.insert(resource.clone(), left.count);
        for (finalizer, count) in left.finalizers {
            *found.finalizers.entry(finalizer).or_default() += count;
        }
    }
}

/// Whether a stage is the last for now: pods are left. As upstream: what remains is not told before everything was tried.
pub fn held_by_pods(found: &mut Found) -> bool {
    let held = found.remaining.contains_key(&PODS);
    if held {
        let Found { failures, stale, .. } = std::mem::take(found);
        *found = Found { failures, stale, ..Found::default() };
    }
    held
}

fn finalizers(namespace: &Value) -> Vec<String> {
    strings(namespace, &["spec", "finalizers"])
}

fn strings(tree: &Value, path: &[&str]) -> Vec<String> {
    let list = tree.at(path).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect()
}
