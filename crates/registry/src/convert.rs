//! Between the version a client speaks and the version that is stored.

use bytes::Bytes;
use catalog::{Catalog, Resource, Storage};
use codec::json;
use object::normalise::{Strict, normalise};
use object::{Status, Value};
use table::Obj;

/// Is the resource served as it is stored? True for nearly all.
pub(crate) fn is_storage_version(resource: &Resource, storage: &Storage) -> bool {
    resource.group == storage.group && resource.version == storage.version
}

/// Turns an object of the resource's version into the stored one.
pub(crate) fn to_storage(resource: &Resource, storage: &Storage, value: &mut Value) -> Result<(), Status> {
    kinds::kind_of(storage).to_storage(value, resource)?;
    let map = value.make_map();
    map.set("kind", storage.kind.as_str());
    map.set("apiVersion", storage.api_version());
    Ok(())
}

/// Turns a stored object into the resource's version, canonical again.
pub(crate) fn from_storage(catalog: &Catalog, resource: &Resource, storage: &Storage, value: &mut Value) {
    if is_storage_version(resource, storage) {
        return;
    }
    kinds::kind_of(storage).from_storage(value, resource);
    let map = value.make_map();
    map.set("kind", resource.kind.as_str());
    map.set("apiVersion", resource.api_version());
    // What came out of a conversion is ours: it always fits its type.
    let _ = normalise(catalog.schema(), resource.ty, value, &mut Strict::off());
}

/// The object's body as the resource serves it; made once per revision where that is not the stored version.
pub fn served_body(catalog: &Catalog, resource: &Resource, obj: &Obj) -> Bytes {
    let Some(storage) = resource.storage.map(|id| catalog.storage(id)) else { return obj.body().clone() };
    if is_storage_version(resource, storage) {
        return obj.body().clone();
    }
    obj.form(resource.id.0, |obj| Bytes::from(json::to_vec(&body_in(catalog, resource, storage, obj))))
}

/// The object's tree as the resource serves it.
pub fn body_in(catalog: &Catalog, resource: &Resource, storage: &Storage, obj: &Obj) -> Value {
    let mut value = tree(catalog, storage, obj);
    from_storage(catalog, resource, storage, &mut value);
    value
}

/// The stored object as a tree, resourceVersion included.
pub(crate) fn tree(catalog: &Catalog, storage: &Storage, obj: &Obj) -> Value {
    // The table only holds bodies its scanner accepted; what still fails to parse is shown as an empty object.
    json::parse(obj.body(), Some((catalog.schema(), storage.ty))).unwrap_or_else(|error| {
        tracing::error!(key = &**obj.key(), %error, "a stored object does not parse");
        Value::map()
    })
}
