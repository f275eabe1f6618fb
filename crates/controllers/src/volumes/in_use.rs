//! Finalizers that keep an object as long as something uses it: added where admission did not, removed when it may go.

use std::sync::Arc;

use client::{Client, Gvr, WriteOptions};
use object::{Obj, Status, Value};
use runtime::finalizers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// It lacks the finalizer.
    Add,
    /// It is to go, and something uses it.
    Keep,
    /// It is to go, and nothing uses it.
    Remove,
}

impl Protection {
    pub(crate) fn of(deleting: bool, used: impl FnOnce() -> bool) -> Protection {
        match deleting {
            false => Protection::Add,
            true if used() => Protection::Keep,
            true => Protection::Remove,
        }
    }
}

/// Lives without the finalizer, or is deleted with it: nothing else is anybody's concern.
pub(crate) fn is_concern(obj: &Obj, finalizer: &str) -> bool {
    obj.deleting() == finalizers::has(obj, finalizer)
}

/// A conflict if the object changed since it was read; well too if it is gone.
pub(crate) async fn apply(
    client: &dyn Client,
    resource: &Gvr,
    obj: &Arc<Obj>,
    finalizer: &str,
    what: Protection,
) -> Result<(), Status> {
    let mut names = finalizers::of(obj);
    match what {
        Protection::Add => names.push(finalizer.to_owned()),
        Protection::Remove => names.retain(|name| name != finalizer),
        Protection::Keep => return Ok(()),
    }
    let mut tree = runtime::tree(obj);
    let names = names.into_iter().map(Value::Str).collect::<Vec<Value>>();
    tree.map_at(&["metadata"]).set("finalizers", names);
    match client.update(resource.of(obj), tree, WriteOptions::default()).await {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}
