//! What becomes of an object, once it is known what became of its owners; and the patches that say so.

use client::Propagation;
use object::{Map, Value};
use runtime::owners::Owner;

use super::graph::{FOREGROUND, ORPHAN};

/// An owner, as the server knows it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It exists, and nobody waits for its dependents to go.
    Solid,
    /// It does not exist, or is somebody else by now.
    Dangling,
    /// It is being deleted in foreground: it waits for its dependents.
    Waiting,
}

/// What to do with an object that has owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An owner keeps it.
    Keep,
    /// An owner keeps it, but it lets go of these others: an owner that waits would wait for ever.
    LetGo(Vec<String>),
    /// Delete it. `unblock`: first no longer block owners, because there may be a circle.
    Delete { propagation: Propagation, unblock: bool },
}

/// `dependents`: how many the object itself has; `circle`: one of them waits in foreground too.
pub fn decide(
    owners: &[(String, OwnerState)],
    dependents: usize,
    circle: impl FnOnce() -> bool,
    finalizers: &[String],
) -> Decision {
    let any = |state: OwnerState| owners.iter().any(|(_, s)| *s == state);
    let uids =
        |state: OwnerState| owners.iter().filter(move |(_, s)| *s == state).map(|(uid, _)| uid.clone());
    if any(OwnerState::Solid) {
        let others: Vec<String> = uids(OwnerState::Dangling).chain(uids(OwnerState::Waiting)).collect();
        return if others.is_empty() { Decision::Keep } else { Decision::LetGo(others) };
    }
    if any(OwnerState::Waiting) && dependents > 0 {
        return Decision::Delete { propagation: Propagation::Foreground, unblock: circle() };
    }
    // What an earlier request chose stands.
    let has = |finalizer: &str| finalizers.iter().any(|f| f == finalizer);
    let propagation = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Decision::Delete { propagation, unblock: false }
}

/// A strategic patch that takes references away, from the very object only.
pub fn let_go(uid: &str, owners: &[String]) -> Value {
    let references = owners.iter().map(|owner| {
        let mut reference = Map::default();
        reference.set("$patch", "delete");
        reference.set("uid", owner.clone());
        Value::Map(reference)
    });
    patch_references(uid, references.collect())
}

/// A strategic patch after which no reference blocks its owner.
pub fn unblock(uid: &str, owners: &[Owner]) -> Value {
    let references = owners.iter().filter(|owner| owner.block_owner_deletion).map(|owner| {
        let mut reference = Map::default();
        reference.set("uid", owner.uid.clone());
        reference.set("blockOwnerDeletion", false);
        Value::Map(reference)
    });
    patch_references(uid, references.collect())
}

fn patch_references(uid: &str, references: Vec<Value>) -> Value {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", uid.to_owned());
    metadata.set("ownerReferences", references);
    patch
}

/// The same for kinds that know merge patches only: the whole list, changed, at the version it was read in. `change`
/// returns whether a reference stays.
pub fn merged_references(object: &Value, change: impl Fn(&mut Map) -> bool) -> Value {
    let mut references =
        object.at(&["metadata", "ownerReferences"]).cloned().unwrap_or(Value::List(Vec::new()));
    if let Value::List(list) = &mut references {
        list.retain_mut(|reference| change(reference.make_map()));
    }
    versioned(object, "ownerReferences", references)
}

/// A merge patch that takes a finalizer away; `None`: it is not there.
pub fn without_finalizer(object: &Value, finalizer: &str) -> Option<Value> {
    let finalizers = object.at(&["metadata", "finalizers"])?.as_list()?;
    let rest: Vec<Value> = finalizers.iter().filter(|f| f.as_str() != Some(finalizer)).cloned().collect();
    (rest.len() < finalizers.len()).then(|| versioned(object, "finalizers", Value::List(rest)))
}

fn versioned(object: &Value, member: &'static str, value: Value) -> Value {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    if let Some(version) = object.at(&["metadata", "resourceVersion"]) {
        metadata.set("resourceVersion", version.clone());
    }
    metadata.set(member, value);
    patch
}
