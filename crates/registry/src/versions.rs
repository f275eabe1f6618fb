//! Objects in the versions that extensions of admission ask for, and back in the one at hand: the storage version of built-in kinds,
//! the request's version of those that convert last.

use std::sync::Arc;

use admission::{Attempt, Body, UnknownFields, Versions};
use catalog::Resource;
use object::normalise::{Strict, normalise, normalise_decoded};
use object::{Status, Value};
use store::BoxFuture;

use crate::{Registry, convert};

impl Versions for Registry {
    fn to_version<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(async move {
            if attempt.body != Body::Resource {
                return Ok(object.clone());
            }
            if kinds::kind_of(attempt.storage).converts_last() {
                return self.between(attempt, attempt.resource, resource, object.clone()).await;
            }
            let mut value = object.clone();
            convert::from_storage(resource, attempt.storage, &mut value);
            // As it would be encoded: what was emptied is not there.
            let _ = normalise(resource.schema(), resource.ty, &mut value, &mut Strict::off());
            Ok(value)
        })
    }

    fn decode<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        mut object: Value,
        unknown: UnknownFields,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(async move {
            let (schema, ty) = match attempt.body {
                Body::Resource => (resource.schema(), resource.ty),
                Body::Other { ty: Some(ty), .. } => (attempt.catalog.schema(), ty),
                // Its type is not known, so it stays as it is.
                Body::Other { ty: None, .. } => return Ok(object),
            };
            let unfit = |error| Status::internal(format!("{error}"));
            if attempt.body == Body::Resource {
                check_kind(attempt, resource, &object)?;
            }
            // Custom resources have no type that could lack a field.
            let has_type = attempt.body != Body::Resource || !resource.custom;
            let mut strict = match unknown {
                UnknownFields::Refused if has_type => Strict::on(),
                _ => Strict::off(),
            };
            normalise_decoded(schema, ty, &mut object, &mut strict).map_err(unfit)?;
            if !strict.messages().is_empty() {
                let messages = strict.messages().join(", ");
                return Err(Status::internal(format!("strict decoding error: {messages}")));
            }
            if attempt.body == Body::Resource {
                kinds::defaults::apply(kinds::kind_of(attempt.storage), &resource.version, &mut object);
            }
            Ok(object)
        })
    }

    fn from_version<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        resource: &'a Arc<Resource>,
        mut object: Value,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(async move {
            if attempt.body != Body::Resource {
                return Ok(object);
            }
            let (storage, kind) = (attempt.storage, kinds::kind_of(attempt.storage));
            if !kind.converts_last() {
                convert::to_storage(resource, storage, &mut object)?;
                return Ok(object);
            }
            let mut object = self.between(attempt, resource, attempt.resource, object).await?;
            // What an extension added and the schema does not have.
            kind.prune(&attempt.resource.version, &mut object, false).map_err(Status::internal)?;
            let _ =
                normalise(attempt.resource.schema(), attempt.resource.ty, &mut object, &mut Strict::off());
            Ok(object)
        })
    }
}

/// Who changes an object may not make another of it.
fn check_kind(attempt: &Attempt<'_>, resource: &Resource, object: &Value) -> Result<(), Status> {
    let text = |name: &str| object.str_at(&[name]).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version == resource.api_version() && kind == &*resource.kind {
        return Ok(());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Err(Status::internal(match attempt.catalog.find_kind(group, version, kind) {
        // Differs from kube-apiserver, which says what keeps the object from being one of the other kind.
        Some(_) => format!(
            "expected {}, Kind={}, got {api_version}, Kind={kind}",
            resource.api_version(),
            resource.kind
        ),
        None => format!(
            "no kind {} is registered for version {} in scheme {}",
            object::quote(kind),
            object::quote(api_version),
            object::quote("pkg/api/legacyscheme/scheme.go:30")
        ),
    }))
}

impl Registry {
    /// An object of a kind that converts last in another of its versions.
    async fn between(
        &self,
        attempt: &Attempt<'_>,
        from: &Arc<Resource>,
        to: &Arc<Resource>,
        object: Value,
    ) -> Result<Value, Status> {
        let storage = attempt.storage;
        if from.version == to.version {
            return Ok(object);
        }
        if !kinds::kind_of(storage).converts_by_webhook() {
            let mut converted = convert::between(from, to, storage, &object)?;
            // Something that is read has one; something that is about to be created has none yet.
            if object.at(&["metadata", "generation"]).is_none() {
                converted.map_at(&["metadata"]).remove("generation");
            }
            return Ok(converted);
        }
        let converted = self.call_webhook(storage, vec![object], &to.api_version()).await?;
        Ok(converted.into_iter().next().unwrap_or(Value::Null))
    }
}
