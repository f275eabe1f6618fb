//! Conversion by webhooks: they are asked before an object is shown or stored, and nothing of ours is locked meanwhile.
//!
//! ```text
//! stored object ── kept from before? ── yes, and that will do ─────────────────────────┐
//!                     └ no, or a read of the newest state: ask ── keep with the object ──┴── the object as its version serves it
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use catalog::{Resource, Storage};
use codec::json;
use object::normalise::{Strict, normalise};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use store::BoxFuture;
use table::{EventKind, Selection, WatchEvent};
use tokio::time::Instant;

use super::{is_storage_version, set_type, tree};
use crate::Registry;
use crate::write::check_size;

/// Calls the conversion webhook of a custom resource.
pub trait ConversionWebhook: Send + Sync {
    fn convert<'a>(
        &'a self,
        storage: &'a Storage,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}

/// When the webhook must have been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Now, for a read of the newest state: what a webhook said before it was repaired must not be shown for ever.
    Now,
    /// Ever: for watches, and for reads that are content with any version.
    Once,
}

/// For those who are content with what was asked once: one question at a time for each version of a resource. Whoever waited
/// finds the answer of the one before, so a thousand watches ask once. It delays nobody but them.
#[derive(Default)]
pub(crate) struct Turns {
    /// By resource. Guards the list, not the turns.
    of: Mutex<BTreeMap<u32, Weak<Turn>>>,
}

/// The last failure, and when it came: those who waited for the question fail with it.
type Turn = tokio::sync::Mutex<Option<(Instant, Status)>>;

impl Turns {
    fn of(&self, resource: &Resource) -> Arc<Turn> {
        let mut of = self.of.lock();
        if let Some(turn) = of.get(&resource.id.0).and_then(Weak::upgrade) {
            return turn;
        }
        of.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::default());
        of.insert(resource.id.0, Arc::downgrade(&turn));
        turn
    }
}

/// The storage of a resource whose versions a webhook converts.
pub(crate) fn converted_storage(resource: &Resource) -> Option<&Storage> {
    resource.storage.as_deref().filter(|storage| kinds::kind_of(storage).converts_by_webhook())
}

/// Does a webhook have to convert the object before the resource can serve it?
pub(super) fn needs_webhook(resource: &Resource, storage: &Storage, obj: &Obj) -> bool {
    kinds::kind_of(storage).converts_by_webhook()
        && !obj.is_converted()
        && !obj.is_of_version(&resource.version)
}

/// Takes what was kept; whether that is all.
fn take_kept(resource: &Resource, storage: &Storage, objects: &mut [Arc<Obj>]) -> bool {
    let mut all = true;
    for obj in objects.iter_mut().filter(|obj| needs_webhook(resource, storage, obj)) {
        match obj.converted(resource.id.0) {
            Some(kept) => *obj = kept,
            None => all = false,
        }
    }
    all
}

impl Registry {
    /// Puts in the place of objects that a webhook has to convert what it made of them.
    pub(crate) async fn convert_for(
        &self,
        resource: &Resource,
        objects: &mut [Arc<Obj>],
        asked: Asked,
    ) -> Result<(), Status> {
        let Some(storage) = converted_storage(resource) else { return Ok(()) };
        if asked == Asked::Now {
            return self.ask_webhook(resource, storage, objects).await;
        }
        if take_kept(resource, storage, objects) {
            return Ok(());
        }
        let since = self.env().monotonic();
        let turn = self.turns.of(resource);
        let mut turn = turn.lock().await;
        if take_kept(resource, storage, objects) {
            return Ok(());
        }
        if let Some((_, failure)) = turn.as_ref().filter(|(at, _)| *at >= since) {
            return Err(failure.clone());
        }
        let converted = self.ask_webhook(resource, storage, objects).await;
        *turn = converted.as_ref().err().map(|failure| (self.env().monotonic(), failure.clone()));
        converted
    }

    /// The one object.
    pub(crate) async fn convert_one(
        &self,
        resource: &Resource,
        obj: &Arc<Obj>,
        asked: Asked,
    ) -> Result<Arc<Obj>, Status> {
        let mut one = [obj.clone()];
        self.convert_for(resource, &mut one, asked).await?;
        let [one] = one;
        Ok(one)
    }

    /// The events as the resource shows them. `selection`: where selectors are about what the webhook makes of the objects, and
    /// so say only now what an event is to the watcher.
    pub async fn convert_events(
        &self,
        resource: &Resource,
        selection: Option<&Selection>,
        mut events: Vec<WatchEvent>,
    ) -> Result<Vec<WatchEvent>, Status> {
        let Some(storage) = converted_storage(resource) else { return Ok(events) };
        let mut objects: Vec<Arc<Obj>> = events.iter().map(|event| event.obj.clone()).collect();
        if selection.is_some() {
            objects.extend(events.iter().filter_map(|event| event.past.clone()));
        }
        self.convert_for(resource, &mut objects, Asked::Once).await?;
        let mut objects = objects.into_iter();
        for (event, obj) in events.iter_mut().zip(objects.by_ref()) {
            event.obj = obj;
        }
        let Some(selection) = selection else { return Ok(events) };
        for event in events.iter_mut().filter(|event| event.past.is_some()) {
            event.past = objects.next();
        }
        Ok(events.into_iter().filter_map(|event| selected(storage, selection, event)).collect())
    }

    /// The bytes to store of an object that is complete in the resource's version.
    pub(crate) async fn encode_converted(
        &self,
        resource: &Resource,
        storage: &Storage,
        value: &Value,
        encoded: Vec<u8>,
    ) -> Result<Vec<u8>, Status> {
        if is_storage_version(resource, storage) || converted_storage(resource).is_none() {
            return Ok(encoded);
        }
        let converted = self.call_webhook(storage, vec![value.clone()], &storage.api_version()).await?;
        let mut stored = converted.into_iter().next().unwrap_or(Value::Null);
        kinds::kind_of(storage).to_storage(&mut stored, resource)?;
        set_type(&mut stored, &storage.kind, storage.api_version());
        normalise(storage.schema(), storage.ty, &mut stored, &mut Strict::off())
            .map_err(|error| Status::internal(format!("what the conversion webhook returned: {error}")))?;
        check_size(json::to_vec(&stored))
    }

    async fn ask_webhook(
        &self,
        resource: &Resource,
        storage: &Storage,
        objects: &mut [Arc<Obj>],
    ) -> Result<(), Status> {
        let due: Vec<&mut Arc<Obj>> =
            objects.iter_mut().filter(|obj| needs_webhook(resource, storage, obj)).collect();
        if due.is_empty() {
            return Ok(());
        }
        let kind = kinds::kind_of(storage);
        let stored = due.iter().map(|obj| {
            let mut value = tree(storage, obj);
            kind.decode_stored(&mut value);
            value
        });
        let converted = self.call_webhook(storage, stored.collect(), &resource.api_version()).await?;
        for (obj, mut value) in due.into_iter().zip(converted) {
            finish(resource, &mut value);
            let shown = obj.with_body(storage, &json::to_vec(&value)).map(Arc::new).map_err(|_| {
                Status::internal("the conversion webhook returned an object that cannot be encoded")
            })?;
            obj.keep_converted(resource.id.0, shown.clone());
            *obj = shown;
        }
        Ok(())
    }

    pub(crate) async fn call_webhook(
        &self,
        storage: &Storage,
        objects: Vec<Value>,
        api_version: &str,
    ) -> Result<Vec<Value>, Status> {
        match &self.conversion {
            Some(webhook) => webhook.convert(storage, objects, api_version).await,
            None => Err(Status::internal("this server calls no conversion webhooks")),
        }
    }
}

/// What upstream says when its cache of a version cannot be filled: its clients try again.
pub(crate) fn initializing(resource: &Resource, failure: Status) -> Status {
    let (api_version, kind) = (resource.api_version(), &resource.kind);
    let message = format!(
        "storage is (re)initializing: failed to list {api_version}, Kind={kind}: {}",
        failure.message
    );
    Status::too_many_requests(message, 1)
}

/// What an event of everything is to a selection.
fn selected(storage: &Storage, selection: &Selection, event: WatchEvent) -> Option<WatchEvent> {
    let deleted = event.kind == EventKind::Deleted;
    let was = event.past.as_ref().is_some_and(|past| selection.matches(past));
    let is = !deleted && selection.matches(&event.obj);
    let (kind, obj) = match (was, is) {
        (false, false) => return None,
        (false, true) => (EventKind::Added, event.obj),
        (true, true) => (EventKind::Modified, event.obj),
        (true, false) if deleted => (EventKind::Deleted, event.obj),
        (true, false) => {
            let left = event.past?.at_revision(storage, event.obj.revision());
            (EventKind::Deleted, Arc::new(left))
        }
    };
    Some(WatchEvent { kind, obj, past: None })
}

/// What a webhook returned, in the form the resource serves.
fn finish(resource: &Resource, value: &mut Value) {
    let kind = kinds::kind_of_resource(resource);
    set_type(value, &resource.kind, resource.api_version());
    let _ = normalise(resource.schema(), resource.ty, value, &mut Strict::off());
    let _ = kind.prune(&resource.version, value, false);
    let _ = normalise(resource.schema(), resource.ty, value, &mut Strict::off());
}
