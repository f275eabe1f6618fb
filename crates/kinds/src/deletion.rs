//! What DELETE does to an object: removes it, marks and keeps it, or nothing because it is already being deleted.
//!
//! ```text
//! preconditions ─ no ─> 409
//!       │
//! graceful kind? ── already deleted ─ no shorter grace requested ────────> Nothing
//!       │            first time, or shorter: deletionTimestamp, grace, generation + 1
//! orphan / foregroundDeletion finalizer put or taken as the propagation says
//!       │
//! finalizers left ─> Keep (deletionTimestamp)      grace left ─> Keep      else ─> Remove
//! ```
//! A kept object is removed when an update removes its last finalizer: [`should_remove_after_update`].

#[cfg(test)]
mod tests;

use catalog::Storage;
use object::{About, DeleteOptions, Propagation, Status, Value, time};

use crate::kind::Kind;
use crate::metadata::{meta, strings};

pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Remove it from the store. Graceful kinds are marked first, so that watchers see it.
    Remove { marked: Option<Value> },
    /// Write this back; finalizers or its grace period keep it.
    Keep(Value),
    /// It is already being deleted, at least as fast as requested.
    Nothing,
}

/// `version` is the resourceVersion of `old`. The options are checked ones.
pub fn decide(
    kind: &dyn Kind,
    storage: &Storage,
    old: &Value,
    version: &str,
    options: &DeleteOptions,
    now: i64,
) -> Result<Decision, Status> {
    match kind.delete(storage, old, version, options, now) {
        Some(decided) => decided,
        None => decide_generally(kind, storage, old, version, options, now),
    }
}

/// Whether an update removed the last thing that kept a deleted object.
pub fn should_remove_after_update(kind: &dyn Kind, new: &Value, old: &Value) -> bool {
    strings(new, "finalizers").is_empty()
        && meta(old, "deletionTimestamp").is_some()
        && grace_left(old) == 0
        && !kind.holds_deletion(new)
}

pub(crate) fn decide_generally(
    kind: &dyn Kind,
    storage: &Storage,
    old: &Value,
    version: &str,
    options: &DeleteOptions,
    now: i64,
) -> Result<Decision, Status> {
    check_preconditions(storage, old, version, options)?;
    let mut new = old.clone();
    let grace = match mark_gracefully(kind, &mut new, options, now) {
        Grace::Pending => return Ok(Decision::Nothing),
        Grace::NotGraceful => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let finalizers = finalizers_for(storage, &new, options);
    let held = !finalizers.is_empty();
    set_finalizers(&mut new, finalizers);
    Ok(match grace {
        None if held => {
            mark_now(&mut new, now);
            Decision::Keep(new)
        }
        None => Decision::Remove { marked: None },
        Some(seconds) if held || seconds > 0 => Decision::Keep(new),
        Some(_) => Decision::Remove { marked: Some(new) },
    })
}

/// The client's preconditions.
pub fn check_preconditions(
    storage: &Storage,
    old: &Value,
    version: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let uid = old.str_at(&["metadata", "uid"]).unwrap_or_default();
    let name = old.str_at(&["metadata", "name"]).unwrap_or_default();
    // Upstream names the kind here, where other conflicts name the resource.
    let about = About { group: &storage.group, resource: &storage.kind };
    if let Some(wanted) = options.preconditions.uid.as_deref().filter(|w| *w != uid) {
        let reason = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
             The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(about, name, reason));
    }
    if let Some(wanted) = options.preconditions.resource_version.as_deref().filter(|w| *w != version) {
        let reason = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). \
             The object might have been modified"
        );
        return Err(Status::conflict(about, name, reason));
    }
    Ok(())
}

/// The same where upstream looks before the store does, with other words: namespaces and custom resource definitions.
pub(crate) fn check_preconditions_first(
    storage: &Storage,
    old: &Value,
    version: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let uid = old.str_at(&["metadata", "uid"]).unwrap_or_default();
    let name = old.str_at(&["metadata", "name"]).unwrap_or_default();
    let wanted = &options.preconditions;
    for (what, wanted, found) in
        [("UID", &wanted.uid, uid), ("ResourceVersion", &wanted.resource_version, version)]
    {
        if let Some(wanted) = wanted.as_deref().filter(|w| *w != found) {
            let about = About { group: &storage.group, resource: &storage.plural };
            let reason = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            return Err(Status::conflict(about, name, reason));
        }
    }
    Ok(())
}

enum Grace {
    NotGraceful,
    Pending,
    Seconds(i64),
}

fn mark_gracefully(kind: &dyn Kind, new: &mut Value, options: &DeleteOptions, now: i64) -> Grace {
    // Below zero counts as one second.
    let at_least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let mut options = options.clone();
    options.grace_period_seconds = options.grace_period_seconds.map(at_least);
    let Some(first) = kind.grace_seconds(new, &options).map(at_least) else { return Grace::NotGraceful };

    if let Some(deletion) = meta(new, "deletionTimestamp") {
        let left = at_least(grace_left(new));
        if left == 0 {
            return Grace::NotGraceful;
        }
        let Some(asked) = options.grace_period_seconds.filter(|asked| *asked < left) else {
            return Grace::Pending;
        };
        let planned = deletion.as_str().and_then(time::parse).map_or(now, |(seconds, _)| seconds);
        let wanted = planned.saturating_sub(left).saturating_add(asked);
        // A grace period that has already expired still leaves a second: the node agent must see the deletion.
        let (at, seconds) = if wanted < now { (now, asked.min(1)) } else { (wanted, asked) };
        set_deletion(new, at, seconds);
        return Grace::Seconds(seconds);
    }
    bump_generation(new);
    set_deletion(new, now.saturating_add(first), first);
    Grace::Seconds(first)
}

/// For objects with finalizers but no grace period.
fn mark_now(new: &mut Value, now: i64) {
    let going = meta(new, "deletionTimestamp").and_then(Value::as_str).and_then(time::parse);
    if meta(new, "deletionTimestamp").is_none() {
        bump_generation(new);
    }
    let at = going.map_or(now, |(seconds, _)| seconds.min(now));
    set_deletion(new, at, 0);
}

fn set_deletion(new: &mut Value, at: i64, grace_seconds: i64) {
    let metadata = new.map_at(&["metadata"]);
    metadata.set("deletionTimestamp", time::format_seconds(at));
    metadata.set("deletionGracePeriodSeconds", grace_seconds);
}

/// A deletion changes the desired state, so it increments the generation.
fn bump_generation(new: &mut Value) {
    if let Some(generation) = meta(new, "generation").and_then(Value::as_int).filter(|g| *g > 0) {
        new.map_at(&["metadata"]).set("generation", generation.saturating_add(1));
    }
}

fn grace_left(object: &Value) -> i64 {
    meta(object, "deletionGracePeriodSeconds").and_then(Value::as_int).unwrap_or(0)
}

/// The finalizers the garbage collector needs for this propagation, beside those already there.
fn finalizers_for(storage: &Storage, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let old = strings(object, "finalizers");
    let has = |finalizer: &str| old.iter().position(|f| *f == finalizer);
    let earlier = |a: Option<usize>, b: Option<usize>| a.is_some_and(|a| b.is_none_or(|b| a < b));
    let (orphan, foreground) = if storage.no_gc {
        (false, false)
    } else if let Some(orphan) = options.orphan_dependents {
        (orphan, false)
    } else if let Some(propagation) = options.propagation_policy {
        (propagation == Propagation::Orphan, propagation == Propagation::Foreground)
    } else if has(ORPHAN).is_some() || has(FOREGROUND).is_some() {
        // The choice of an earlier request stays.
        (earlier(has(ORPHAN), has(FOREGROUND)), earlier(has(FOREGROUND), has(ORPHAN)))
    } else {
        (storage.orphan_by_default, false)
    };
    if orphan == has(ORPHAN).is_some() && foreground == has(FOREGROUND).is_some() {
        return old.into_iter().map(str::to_owned).collect();
    }
    let others = old.into_iter().filter(|f| *f != ORPHAN && *f != FOREGROUND);
    let added = [(orphan, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(wanted, _)| *wanted);
    others.chain(added.map(|(_, f)| f)).map(str::to_owned).collect()
}

pub(crate) fn set_finalizers(new: &mut Value, finalizers: Vec<String>) {
    let metadata = new.map_at(&["metadata"]);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.set("finalizers", finalizers.into_iter().map(Value::from).collect::<Vec<_>>());
    }
}
