//! Finalizers: an object stays until those who put their name on it have cleaned up.
//!
//! ```text
//! lives, without the name ── add it ──> Live
//! lives, with it ─────────────────────> Live
//! is being deleted, with it ── cleanup ── well? ── take the name off ──> Gone
//!                                          └ failed: the name stays, the reconcile fails and is tried again
//! is being deleted, without it ───────> Gone
//! ```

use std::future::Future;
use std::sync::Arc;

use client::{Client, Gvr, Patch, WriteOptions};
use object::{Obj, Status, Value};

use crate::Failure;

/// What a controller goes on with.
pub enum Finalized {
    /// Do the usual work; this is the object with the finalizer on it.
    Live(Arc<Obj>),
    /// Nothing more to do: the cleanup is done, or was not ours.
    Gone,
}

/// Puts the finalizer on a live object before any work that needs cleaning up, and cleans up when it is deleted.
/// `cleanup` may be called again after it succeeded: the write that says so may fail.
pub async fn finalize<F>(
    client: &dyn Client,
    resource: &Gvr,
    obj: &Arc<Obj>,
    finalizer: &str,
    cleanup: impl FnOnce() -> F,
) -> Result<Finalized, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    match (obj.deleting(), has(obj, finalizer)) {
        (false, true) => Ok(Finalized::Live(obj.clone())),
        (false, false) => Ok(Finalized::Live(add(client, resource, obj, finalizer).await?)),
        (true, false) => Ok(Finalized::Gone),
        (true, true) => {
            cleanup().await?;
            remove(client, resource, obj, finalizer).await?;
            Ok(Finalized::Gone)
        }
    }
}

pub fn has(obj: &Obj, finalizer: &str) -> bool {
    of(obj).iter().any(|name| name == finalizer)
}

/// All finalizers of an object, in their order.
pub fn of(obj: &Obj) -> Vec<String> {
    let Ok(metadata) = codec::json::parse(obj.metadata(), None) else { return Vec::new() };
    let names = metadata.get("finalizers").and_then(Value::as_list).unwrap_or_default();
    names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The object with the finalizer on it; a conflict if it changed since it was read.
pub async fn add(
    client: &dyn Client,
    resource: &Gvr,
    obj: &Arc<Obj>,
    finalizer: &str,
) -> Result<Arc<Obj>, Status> {
    let mut names = of(obj);
    if names.iter().any(|name| name == finalizer) {
        return Ok(obj.clone());
    }
    names.push(finalizer.to_owned());
    client.patch(resource.of(obj), Patch::Merge(patch(obj, names)), WriteOptions::default()).await
}

/// Takes the finalizer off; well too if the object has gone meanwhile.
pub async fn remove(
    client: &dyn Client,
    resource: &Gvr,
    obj: &Arc<Obj>,
    finalizer: &str,
) -> Result<(), Status> {
    let mut names = of(obj);
    let before = names.len();
    names.retain(|name| name != finalizer);
    if names.len() == before {
        return Ok(());
    }
    match client.patch(resource.of(obj), Patch::Merge(patch(obj, names)), WriteOptions::default()).await {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// The whole list, for the very version that was read: others may have changed theirs.
fn patch(obj: &Obj, names: Vec<String>) -> Value {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", obj.uid());
    metadata.set("resourceVersion", obj.revision().to_string());
    let names = names.into_iter().map(Value::Str).collect();
    metadata.set("finalizers", Value::List(names));
    patch
}

#[cfg(test)]
mod tests {
    use client::resources::CONFIG_MAPS;
    use object::About;

    use super::*;
    use crate::testing::{Scripted, map_with};

    const OURS: &str = "example.com/ours";

    fn object(finalizers: &str, deleting: bool) -> Arc<Obj> {
        let deleting = if deleting { ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"" } else { "" };
        map_with("a", "u", 7, &format!("{deleting},\"finalizers\":[{finalizers}]"))
    }

    async fn run(
        obj: &Arc<Obj>,
        clean: Result<(), Failure>,
    ) -> (Result<Finalized, Failure>, bool, Vec<Value>) {
        let client = Scripted::new(vec![]);
        let mut cleaned = false;
        let result = finalize(&*client, &CONFIG_MAPS, obj, OURS, || {
            cleaned = true;
            async { clean }
        })
        .await;
        let sent = client.sent.lock().clone();
        (result, cleaned, sent)
    }

    fn finalizers(patch: &Value) -> Vec<&str> {
        let list = patch.at(&["metadata", "finalizers"]).unwrap().as_list().unwrap();
        list.iter().map(|name| name.as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_live_object_gets_the_finalizer_once() {
        let (result, cleaned, sent) = run(&object("\"other\"", false), Ok(())).await;
        assert!(matches!(result, Ok(Finalized::Live(_))) && !cleaned);
        assert_eq!(finalizers(&sent[0]), ["other", OURS]);
        assert_eq!(sent[0].str_at(&["metadata", "resourceVersion"]), Some("7"));
        let (result, _, sent) = run(&object("\"example.com/ours\"", false), Ok(())).await;
        assert!(matches!(result, Ok(Finalized::Live(_))) && sent.is_empty());
    }

    #[tokio::test]
    async fn a_deleted_object_is_cleaned_up_before_its_finalizer_is_removed() {
        let going = object("\"example.com/ours\",\"other\"", true);
        let (result, cleaned, sent) = run(&going, Ok(())).await;
        assert!(matches!(result, Ok(Finalized::Gone)) && cleaned);
        assert_eq!(finalizers(&sent[0]), ["other"]);
        let (result, cleaned, sent) = run(&going, Err(Failure::Other("not yet".into()))).await;
        assert!(result.is_err() && cleaned && sent.is_empty());
        let (result, cleaned, sent) = run(&object("\"other\"", true), Ok(())).await;
        assert!(matches!(result, Ok(Finalized::Gone)) && !cleaned && sent.is_empty());
    }

    #[tokio::test]
    async fn removing_a_finalizer_of_a_deleted_object_is_no_error() {
        let client = Scripted::new(vec![]);
        let about = About { group: "", resource: "configmaps" };
        client.answers.lock().push_back(Err(Status::not_found(about, "a")));
        remove(&*client, &CONFIG_MAPS, &object("\"example.com/ours\"", true), OURS).await.unwrap();
    }
}
