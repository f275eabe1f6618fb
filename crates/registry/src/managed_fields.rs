//! `metadata.managedFields`: who set which field. Every write is tracked in the version it was sent in, before admission sees it; what
//! the server fills in later belongs to nobody.
//!
//! ```text
//! create, update, patch   the old object, the new one ── FieldManager::update ──> managedFields of the new one
//! apply                   the old object, the fields wanted ── FieldManager::apply ──> the new object, or conflicts
//! ```
//! Bindings, evictions and deletions change what nobody asked for by name: they leave the managers as they are, as upstream.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Catalog, Name, Resource, Storage};
use managed_fields::{
    Converter, FieldManager, Filter, Managers, PathElement, ReplicasPath, ScaleManagers, Set, TypeRef,
    take_managed_fields,
};
use object::normalise::{
    Strict, is_normalised, normalise, normalise_decoded, normalise_written, restore_error, restore_numbers,
};
use object::{Status, Value};

use crate::convert::memo::{Conversions, Unanswered};
use crate::subresource::{API_VERSION, KIND, scale_type};
use crate::{RequestContext, convert, decode};

/// The versions of one stored resource.
struct Versions<'a> {
    catalog: &'a Catalog,
    /// The version objects come in.
    resource: &'a Resource,
    storage: &'a Storage,
    /// By webhooks.
    conversions: &'a Conversions,
}

impl Versions<'_> {
    /// Upstream knows the types of the core group and those of all others apart from each other: who manages an event as an
    /// object of one is forgotten by writes to the other.
    fn find(&self, api_version: &str) -> Option<&Arc<Resource>> {
        let (group, version) = split(api_version);
        if group.is_empty() != self.resource.group.is_empty() {
            return None;
        }
        self.catalog.served_by(self.storage).find(|r| r.group == *group && r.version == *version)
    }

    /// Every version of a custom resource is converted from and to the request's, by name alone or by its webhook. What comes
    /// out is not pruned: a field that the other version does not have is an error.
    fn convert_custom(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let here = self.resource.api_version();
        let is_empty = object.as_map().is_none_or(|map| map.len() <= 2);
        if !kinds::kind_of(self.storage).converts_by_webhook() || is_empty {
            let mut object = object.clone();
            object.make_map().set("apiVersion", api_version);
            return Ok(object);
        }
        if object.str_at(&["apiVersion"]) == Some(&*here) {
            return self.conversions.convert(object, api_version);
        }
        let object = self.conversions.convert(object, &here)?;
        if here == api_version { Ok(object) } else { self.conversions.convert(&object, api_version) }
    }
}

fn split(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

impl Converter for Versions<'_> {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>> {
        if !self.resource.custom {
            return self.find(api_version).map(|resource| type_of(resource, self.storage));
        }
        // Versions that are not served (any more) are still versions.
        let (group, version) = split(api_version);
        let schema =
            kinds::kind_of(self.storage).structural(version).filter(|_| self.resource.group == *group)?;
        Some(TypeRef::custom(schema, self.resource.schema()))
    }

    fn check_missing(&self, api_version: &str) -> Result<(), String> {
        match self.resource.custom {
            true => Err(format!("request to convert CR to an invalid group/version: {api_version}")),
            false => Ok(()),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if self.resource.custom {
            return self.convert_custom(object, api_version);
        }
        let from = object.str_at(&["apiVersion"]).and_then(|from| self.find(from));
        let from = from.map_or(self.resource, |from| &**from);
        let to = self.find(api_version).ok_or_else(|| format!("no version {api_version:?} is served"))?;
        convert::between(from, to, self.storage, object).map_err(|status| status.message)
    }
}

fn type_of<'a>(resource: &'a Resource, storage: &'a Storage) -> TypeRef<'a> {
    match kinds::kind_of(storage).structural(&resource.version) {
        Some(schema) => TypeRef::custom(schema, resource.schema()),
        None => TypeRef::built_in(resource.schema(), resource.ty),
    }
}

/// An object of which nothing is set.
fn empty(resource: &Resource) -> Value {
    let mut empty = Value::map();
    convert::set_type(&mut empty, &resource.kind, resource.api_version());
    // A type always has an empty value.
    let _ = normalise(resource.schema(), resource.ty, &mut empty, &mut Strict::off());
    empty
}

/// Hands `work` the field manager of what the request writes to.
fn with_manager<T>(
    request: &RequestContext<'_>,
    storage: &Storage,
    conversions: &Conversions,
    now: i64,
    work: impl FnOnce(&FieldManager<'_>) -> T,
) -> T {
    let resource = request.resource;
    let versions = Versions { catalog: request.catalog, resource, storage, conversions };
    let kind = kinds::kind_of(storage);
    let mut reset = Vec::new();
    let mut add = |version: &str, api_version: String| {
        let fields = kind.reset_fields(version, request.subresource);
        if !fields.is_empty() {
            reset.push((Name::from(api_version), Filter::Exclude(Set::of_fields(fields))));
        }
    };
    if !resource.custom {
        request.catalog.served_by(storage).for_each(|served| add(&served.version, served.api_version()));
    } else if request.subresource.is_none() {
        // Of other versions upstream does not know it here.
        add(&resource.version, resource.api_version());
    } else {
        kind.versions().iter().for_each(|version| add(version, format!("{}/{version}", resource.group)));
    }
    work(&FieldManager {
        api_version: &resource.api_version(),
        kind: &resource.kind,
        ty: type_of(resource, storage),
        subresource: request.subresource.unwrap_or(""),
        converter: &versions,
        reset: &reset,
        empty: &empty(resource),
        now,
    })
}

/// Makes maps of the managers' fields, which trees of stored objects hold as text.
pub(crate) fn expand(object: &mut Value) {
    let metadata = object.as_map_mut().and_then(|map| map.get_mut("metadata")?.as_map_mut());
    let Some(Value::List(entries)) = metadata.and_then(|map| map.get_mut("managedFields")) else { return };
    for fields in entries.iter_mut().filter_map(|entry| entry.as_map_mut()?.get_mut("fieldsV1")) {
        if let Value::Raw(text) = fields {
            *fields = codec::json::expanded(text);
        }
    }
}

/// Notes in `new` who set what, compared with `old`; a new object is compared with nothing. Both are in the request's version.
/// `new` stays as it is while a webhook has not answered.
pub(crate) fn track(
    request: &RequestContext<'_>,
    storage: &Storage,
    conversions: &Conversions,
    old: Option<&Value>,
    new: &mut Value,
    now: i64,
) -> Result<(), Unanswered> {
    let kind = kinds::kind_of(storage);
    let sent = take_managed_fields(new);
    // Upstream decodes the metadata of a custom resource twice, and the second time an empty list is none.
    let sent =
        sent.filter(|sent| !request.resource.custom || sent.as_list().is_none_or(|list| !list.is_empty()));
    // For the next try, when the webhook has answered.
    let kept = kind.converts_by_webhook().then(|| sent.clone()).flatten();
    // Upstream compares what Go writes: without what is empty.
    let (schema, ty) = (request.resource.schema(), request.resource.ty);
    let mut written = kind.reencoded(new, request.resource).map_or(Cow::Borrowed(&*new), Cow::Owned);
    if !is_normalised(schema, ty, &written) && normalise_written(schema, ty, written.to_mut()).is_err() {
        return Ok(());
    }
    let tracked = with_manager(request, storage, conversions, now, |manager| {
        let old = old.unwrap_or(manager.empty);
        manager.managed_fields_after(old, &written, sent, &request.field_manager())
    });
    if conversions.is_unanswered() {
        if let Some(kept) = kept {
            new.map_at(&["metadata"]).set("managedFields", kept);
        }
        return Err(Unanswered);
    }
    match tracked {
        Ok(Some(fields)) => new.map_at(&["metadata"]).set("managedFields", fields),
        Ok(None) => {}
        Err(error) => tracing::warn!(
            resource = request.resource.qualified(), namespace = request.namespace, name = request.name, %error,
            "the managers of an object's fields were dropped"
        ),
    }
    Ok(())
}

/// The object with what the request's manager wants and its defaults, canonical but for what is empty; `None` for `old`: a new
/// one.
pub(crate) fn apply(
    request: &RequestContext<'_>,
    storage: &Storage,
    conversions: &Conversions,
    old: Option<&Value>,
    config: &Value,
    now: i64,
) -> Result<Value, Status> {
    with_manager(request, storage, conversions, now, |manager| {
        let live = old.unwrap_or(manager.empty);
        let apply = || manager.merge(live, config, &request.field_manager(), request.options.force);
        let (schema, ty) = (request.resource.schema(), request.resource.ty);
        let unreadable = |why| {
            Status::unknown(format!(
                "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}: {why}",
                manager.named(config),
                manager.kind_text()
            ))
        };
        let managed_fields::Applied { object: mut new, changed } = apply()?;
        // They are replaced by now, but upstream has read them before.
        let sent = config.at(&["metadata", "managedFields"]).is_some_and(|sent| !sent.is_null());
        if sent
            && !request.resource.custom
            && let Some(why) = restore_error(schema, ty, config)
        {
            return Err(unreadable(why));
        }
        // Upstream sets no defaults either: an object that was stored in another version may lack some of this one.
        if !changed {
            return Ok(new);
        }
        restore_numbers(schema, ty, &mut new);
        if let Err(error) = normalise_decoded(schema, ty, &mut new, &mut Strict::off()) {
            // The pass left half a tree.
            let why = restore_error(schema, ty, &apply()?.object);
            return Err(unreadable(why.unwrap_or_else(|| error.to_string())));
        }
        if let Some(why) = decode::unconvertible(Some(storage), &new) {
            let named = manager.named(config);
            return Err(Status::unknown(format!("failed to convert to unversioned ({named}): {why}")));
        }
        kinds::defaults::apply(kinds::kind_of(storage), &request.resource.version, &mut new);
        Ok(new)
    })
}

/// The managers of an object while its scale is written: who owns the replicas there owns them here.
pub(crate) struct ScaleFields {
    parent: Managers,
    api_version: Name,
    /// Of each version that has managers: where it has its replicas, if it has a scale.
    paths: Vec<(Name, Option<Vec<PathElement>>)>,
}

impl ScaleFields {
    pub fn of(
        request: &RequestContext<'_>,
        storage: &Storage,
        parent: &Value,
    ) -> Result<ScaleFields, Status> {
        let (kind, resource) = (kinds::kind_of(storage), request.resource);
        let conversions = Conversions::default();
        let versions = Versions { catalog: request.catalog, resource, storage, conversions: &conversions };
        let path = |api_version: &str| {
            let paths = kind.scale_paths(split(api_version).1)?;
            Some(paths.spec_replicas.iter().map(|name| PathElement::field(name)).collect())
        };
        let managers = Managers::decode(parent.at(&["metadata", "managedFields"]).cloned());
        let parent =
            managers.map_err(|error| Status::unknown(format!("failed to decode managed fields: {error}")))?;
        let api_version = Name::from(resource.api_version());
        let mut paths = vec![(api_version.clone(), path(&api_version))];
        for manager in parent.iter() {
            let version = &manager.id.api_version;
            if versions.type_of(version).is_some() && !paths.iter().any(|(known, _)| known == version) {
                paths.push((version.clone(), path(version)));
            }
        }
        Ok(ScaleFields { parent, api_version, paths })
    }

    fn managers(&self, work: impl FnOnce(ScaleManagers<'_>) -> Managers) -> Managers {
        let find = |api_version: &str| match self.paths.iter().find(|(version, _)| *version == *api_version) {
            None => ReplicasPath::Unknown,
            Some((_, None)) => ReplicasPath::None,
            Some((_, Some(path))) => ReplicasPath::At(path),
        };
        work(ScaleManagers {
            parent: self.parent.clone(),
            api_version: self.api_version.clone(),
            paths: &find,
        })
    }

    /// The scale with its managers.
    pub fn shown_in(&self, mut scale: Value) -> Value {
        if let Some(fields) = self.managers(|managers| managers.to_scale()).encode() {
            scale.map_at(&["metadata"]).set("managedFields", fields);
        }
        scale
    }

    /// Notes in the parent what became of the scale. `tracked`: the scale's own managers are noted here, too.
    pub fn track(
        &self,
        request: &RequestContext<'_>,
        before: &Value,
        scale: &mut Value,
        tracked: bool,
        parent: &mut Value,
        now: i64,
    ) {
        if tracked {
            let updated = with_scale_manager(request, now, |manager| {
                manager.update(before, scale, &request.field_manager()).map_err(|error| error.to_string())
            });
            if let Some(Err(error)) = updated {
                tracing::warn!(name = request.name, error, "the managers of a scale were dropped");
            }
        }
        // They stay in the scale: mutating admission is shown them.
        let fields = scale.at(&["metadata", "managedFields"]).cloned();
        let scale = Managers::decode(fields).unwrap_or_default();
        let metadata = parent.map_at(&["metadata"]);
        match self.managers(|managers| managers.to_parent(scale)).encode() {
            Some(fields) => metadata.set("managedFields", fields),
            None => drop(metadata.remove("managedFields")),
        }
    }
}

/// What the request's manager wants of a scale.
pub(crate) fn apply_scale(
    request: &RequestContext<'_>,
    scale: &Value,
    config: &Value,
    now: i64,
) -> Result<Value, Status> {
    let applied = with_scale_manager(request, now, |manager| {
        manager.apply(scale, config, &request.field_manager(), request.options.force)
    });
    Ok(applied.ok_or_else(Status::no_such_resource)??)
}

/// A scale has one version, and so has what is not stored.
pub(crate) struct OneVersion<'a> {
    pub api_version: &'a str,
    pub ty: TypeRef<'a>,
}

impl Converter for OneVersion<'_> {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>> {
        (api_version == self.api_version).then_some(self.ty)
    }

    fn convert(&self, object: &Value, _: &str) -> Result<Value, String> {
        Ok(object.clone())
    }
}

fn with_scale_manager<T>(
    request: &RequestContext<'_>,
    now: i64,
    work: impl FnOnce(&FieldManager<'_>) -> T,
) -> Option<T> {
    let schema = request.catalog.schema();
    let ty = scale_type(request).ok()?;
    let mut empty = Value::map();
    convert::set_type(&mut empty, KIND, API_VERSION.to_owned());
    normalise(schema, ty, &mut empty, &mut Strict::off()).ok()?;
    let ty = TypeRef::built_in(schema, ty);
    Some(work(&FieldManager {
        api_version: API_VERSION,
        kind: KIND,
        ty,
        subresource: "scale",
        converter: &OneVersion { api_version: API_VERSION, ty },
        reset: &[],
        empty: &empty,
        now,
    }))
}
