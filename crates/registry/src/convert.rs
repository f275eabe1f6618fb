//! Between the version a client speaks and the version that is stored.

pub(crate) mod memo;
pub(crate) mod webhook;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Resource, Storage};
use codec::{json, protobuf};
use object::normalise::{Strict, normalise};
use object::{Obj, Status, Value};

/// Is the resource served as it is stored? True for nearly all.
pub(crate) fn is_storage_version(resource: &Resource, storage: &Storage) -> bool {
    resource.group == storage.group && resource.version == storage.version
}

/// Are the object's bytes what the resource serves?
fn is_served_as_stored(resource: &Resource, storage: &Storage, obj: &Obj) -> bool {
    obj.is_converted()
        || is_storage_version(resource, storage)
            && (obj.is_of_its_revision() && storage.verified.contains(obj.revision().0)
                || !kinds::kind_of(storage).converts_last())
}

/// Turns an object of the resource's version into what strategy, admission and validation work on: the stored version, unless
/// the kind converts last.
pub(crate) fn to_storage(resource: &Resource, storage: &Storage, value: &mut Value) -> Result<(), Status> {
    let kind = kinds::kind_of(storage);
    if kind.converts_last() {
        return Ok(());
    }
    kind.to_storage(value, resource)?;
    set_type(value, &storage.kind, storage.api_version());
    Ok(())
}

/// Encodes an object as it is stored, behind everything else that is done to it.
pub(crate) fn encode(resource: &Resource, storage: &Storage, value: &Value) -> Result<Vec<u8>, Status> {
    let kind = kinds::kind_of(storage);
    let is_stored = is_storage_version(resource, storage);
    if kind.converts_last()
        && is_stored
        && value.get("status").is_none()
        && kind.defaults(&storage.version).is_some()
    {
        // The strategy may have dropped the status a client sent; what is read has its defaults.
        let mut stored = value.clone();
        kinds::defaults::apply(kind, &storage.version, &mut stored);
        return Ok(json::to_vec(&stored));
    }
    if !kind.converts_last() || is_stored || kind.converts_by_webhook() {
        return Ok(json::to_vec(value));
    }
    let mut stored = value.clone();
    kind.to_storage(&mut stored, resource)?;
    set_type(&mut stored, &storage.kind, storage.api_version());
    // Canonical again: a write that changes nothing is known by its bytes.
    normalise(storage.schema(), storage.ty, &mut stored, &mut Strict::off())
        .map_err(|error| Status::internal(format!("the object no longer fits its type: {error}")))?;
    Ok(json::to_vec(&stored))
}

/// An object of one version in another.
pub(crate) fn between(
    from: &Resource,
    to: &Resource,
    storage: &Storage,
    object: &Value,
) -> Result<Value, Status> {
    let kind = kinds::kind_of(storage);
    let mut value = object.clone();
    kind.to_storage(&mut value, from)?;
    set_type(&mut value, &storage.kind, storage.api_version());
    kind.from_storage(&mut value, to);
    set_type(&mut value, &to.kind, to.api_version());
    // What came out of a conversion is ours: it always fits its type.
    let _ = normalise(to.schema(), to.ty, &mut value, &mut Strict::off());
    Ok(value)
}

pub(crate) fn set_type(value: &mut Value, kind: &str, api_version: String) {
    let map = value.make_map();
    map.set("kind", kind);
    map.set("apiVersion", api_version);
}

/// Turns a stored object into the resource's version, canonical again.
pub(crate) fn from_storage(resource: &Resource, storage: &Storage, value: &mut Value) {
    let kind = kinds::kind_of(storage);
    if is_storage_version(resource, storage) && !kind.converts_last() {
        return;
    }
    kind.from_storage(value, resource);
    set_type(value, &resource.kind, resource.api_version());
    // What came out of a conversion is ours: it always fits its type.
    let _ = normalise(resource.schema(), resource.ty, value, &mut Strict::off());
}

/// The object's body as the resource serves it, to copy from.
pub fn served_body<'o>(resource: &Resource, obj: &'o Obj) -> Cow<'o, [u8]> {
    match converted(resource, obj) {
        None => Cow::Borrowed(obj.body()),
        Some(line) => Cow::Owned(line[..line.len() - 1].to_vec()),
    }
}

/// The same with a newline, to hand over without a copy.
pub fn shared_body(resource: &Resource, obj: &Arc<Obj>) -> Bytes {
    converted(resource, obj).unwrap_or_else(|| obj.shared_line())
}

/// Whether every object is served as it is stored: built-in kinds in the version they are stored in.
pub fn serves_stored_objects(resource: &Resource) -> bool {
    let stored = |storage: &Arc<Storage>| {
        is_storage_version(resource, storage) && !kinds::kind_of(storage).converts_last()
    };
    resource.storage.as_ref().is_none_or(stored)
}

/// The object as the resource serves it, for clients in this process; the stored one where they are the same.
pub fn served_object(resource: &Resource, obj: &Arc<Obj>) -> Result<Arc<Obj>, Status> {
    let (Some(storage), Some(line)) = (&resource.storage, converted(resource, obj)) else {
        return Ok(obj.clone());
    };
    match obj.with_body(storage, &line[..line.len() - 1]) {
        Ok(obj) => Ok(Arc::new(obj)),
        Err(_) => {
            let (resource, path) = (resource.qualified(), obj.path());
            Err(Status::internal(format!("{resource} {path:?} could not be converted")))
        }
    }
}

/// The object as protobuf in its envelope, as the resource serves it: made once per revision, when somebody asks.
pub fn protobuf_body(resource: &Resource, obj: &Obj) -> Bytes {
    obj.form(resource.id.0 | PROTOBUF_FORM, |obj| {
        let value = match &resource.storage {
            Some(storage) => body_in(resource, storage, obj),
            None => Value::map(),
        };
        let mut out = Vec::with_capacity(obj.body().len());
        protobuf::encode(
            resource.schema(),
            resource.ty,
            &resource.api_version(),
            &resource.kind,
            &value,
            &mut out,
        );
        out.shrink_to_fit();
        Bytes::from(out)
    })
}

/// Distinguishes the protobuf form of a resource from its JSON; there are far fewer resources.
const PROTOBUF_FORM: u32 = 1 << 31;

/// With its newline; `None` where the resource serves what is stored; otherwise made once per revision.
fn converted(resource: &Resource, obj: &Obj) -> Option<Bytes> {
    let storage = resource.storage.as_deref()?;
    if is_served_as_stored(resource, storage, obj) {
        return None;
    }
    let line = obj.form(resource.id.0, |obj| {
        let mut line = json::to_vec(&body_in(resource, storage, obj));
        // An object that is stored as it is served needs no second body: an empty one says so.
        if line == obj.body() {
            return Bytes::new();
        }
        line.push(b'\n');
        Bytes::from(line)
    });
    (!line.is_empty()).then_some(line)
}

/// The object's tree as the resource serves it.
pub(crate) fn body_in(resource: &Resource, storage: &Storage, obj: &Obj) -> Value {
    let mut value = tree(storage, obj);
    if !obj.is_converted() {
        debug_assert!(!webhook::needs_webhook(resource, storage, obj), "shown before its webhook was asked");
        from_storage(resource, storage, &mut value);
    }
    value
}

/// The stored object as a tree, resourceVersion included.
pub(crate) fn tree(storage: &Storage, obj: &Obj) -> Value {
    // The table only holds bodies its scanner accepted; what still fails to parse is shown as an empty object.
    json::parse_stored(obj.body(), (storage.schema(), storage.ty)).unwrap_or_else(|error| {
        tracing::error!(key = obj.key(), %error, "a stored object does not parse");
        Value::map()
    })
}
