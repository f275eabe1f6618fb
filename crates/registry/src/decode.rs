//! From a body's raw tree to a canonical object of the request's version.

use std::borrow::Cow;

use catalog::{Catalog, Resource, Schema, Storage, Subresource, TypeId};
use object::normalise::{Strict, normalise_decoded};
use object::{FieldValidation, Status, Value};

use crate::{Registry, RequestContext, scheme};

/// What a body is read as: the resource's own type, or that of a subresource.
#[derive(Clone, Copy)]
pub struct BodyType<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub ty: TypeId,
    /// Where `ty` is looked up.
    pub schema: &'a Schema,
    /// For the kind's own error about an object that cannot be converted to its stored form.
    storage: Option<&'a Storage>,
    /// An object of a CustomResourceDefinition, which no scheme knows.
    pub custom: bool,
}

impl<'a> BodyType<'a> {
    pub fn of(resource: &'a Resource) -> BodyType<'a> {
        let Resource { group, version, kind, .. } = resource;
        let (schema, storage) = (resource.schema(), resource.storage.as_deref());
        BodyType { group, version, kind, ty: resource.ty, schema, storage, custom: resource.custom }
    }

    /// `None` where a subresource takes no body.
    pub fn of_subresource(resource: &'a Resource, subresource: &'a Subresource) -> Option<BodyType<'a>> {
        let Subresource { group, version, kind, .. } = subresource;
        let schema = resource.schema();
        Some(BodyType { group, version, kind, ty: subresource.ty?, schema, storage: None, custom: false })
    }

    pub(crate) fn api_version(&self) -> Cow<'a, str> {
        match self.group {
            "" => Cow::Borrowed(self.version),
            group => Cow::Owned(format!("{group}/{}", self.version)),
        }
    }
}

/// Checks kind and apiVersion, prunes, reports unknown and duplicate fields, and fills in the defaults.
pub(crate) fn object(
    catalog: &Catalog,
    of: BodyType<'_>,
    mut body: Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let BodyType { group, mut version, kind, ty, schema, storage, custom } = of;
    let said = body.str_at(&["apiVersion"]).unwrap_or("").to_owned();
    match custom {
        true => check_version_is_text(kind, &body)?,
        false => check_type(catalog, kind, &of.api_version(), &body)?,
    }
    if custom {
        version = said.rsplit('/').next().unwrap_or("");
    }
    let mut messages = normalised(schema, ty, kind, version, &mut body, validation)?;
    let strategy = match storage {
        Some(storage) => kinds::kind_of(storage),
        None => kinds::unstored_kind(group, kind),
    };
    messages
        .extend(pruned(strategy, version, &mut body, validation).map_err(|why| unfit(kind, version, &why))?);
    if let Some(why) = strategy.unconvertible(&body) {
        return Err(unfit(kind, version, &why));
    }
    let warnings = unless_strict(kind, version, messages, validation)?;
    if custom {
        check_custom_version(&of.api_version(), &said).map_err(|s| s.after_warnings(warnings.clone()))?;
    }
    kinds::defaults::apply(strategy, version, &mut body);
    Ok((body, warnings))
}

impl Registry {
    /// As the body of a create is read, for objects that are answered and never stored: the object, and the warnings about it.
    pub fn read_answered(
        &self,
        request: &RequestContext<'_>,
        of: BodyType<'_>,
        body: Value,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let (mut body, warnings) = object(request.catalog, of, body, validation)?;
        match check_namespace(request, &mut body) {
            Ok(()) => Ok((body, warnings)),
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }
}

/// Normalises a body of any type, with the empty lists and maps in it; `kind` and `version` are for the error message.
pub(crate) fn canonical(
    schema: &Schema,
    ty: TypeId,
    kind: &str,
    version: &str,
    body: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let messages = normalised(schema, ty, kind, version, body, validation)?;
    unless_strict(kind, version, messages, validation)
}

/// Why upstream cannot convert an object to its internal form; there is none of objects that are not stored.
pub(crate) fn unconvertible(storage: Option<&Storage>, object: &Value) -> Option<String> {
    kinds::kind_of(storage?).unconvertible(object)
}

fn normalised(
    schema: &Schema,
    ty: TypeId,
    kind: &str,
    version: &str,
    body: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let mut strict = if validation == FieldValidation::Ignore { Strict::off() } else { Strict::on() };
    normalise_decoded(schema, ty, body, &mut strict).map_err(|e| unfit(kind, version, &e.to_string()))?;
    Ok(strict.into_messages())
}

/// Drops what the kind's own schema does not have, and says so as for unknown fields of a type.
pub(crate) fn pruned(
    kind: &dyn kinds::Kind,
    version: &str,
    body: &mut Value,
    validation: FieldValidation,
) -> Result<impl Iterator<Item = String>, String> {
    let unknown = kind.prune(version, body, validation != FieldValidation::Ignore)?;
    Ok(unknown.into_iter().map(|path| format!("unknown field {}", object::quote(&path))))
}

/// The warnings about unknown and duplicate fields; with strict validation the refusal.
fn unless_strict(
    kind: &str,
    version: &str,
    messages: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    if validation == FieldValidation::Strict && !messages.is_empty() {
        return Err(unfit(kind, version, &format!("strict decoding error: {}", messages.join(", "))));
    }
    Ok(messages)
}

fn unfit(kind: &str, version: &str, why: &str) -> Status {
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// The error if a document's kind or apiVersion is no string, or no version. Upstream reads these two before everything else, and
/// there ignores case.
pub fn unreadable_type(document: &Value) -> Option<String> {
    let named = |name: &str| ["kind", "apiVersion"].into_iter().find(|n| n.eq_ignore_ascii_case(name));
    let mut wrong = document.as_map()?.iter().filter(|(_, v)| !v.is_null() && v.as_str().is_none());
    let Some((name, what)) = wrong.find_map(|(name, value)| Some((named(name)?, value.json_type()))) else {
        let version = document.str_at(&["apiVersion"]).filter(|v| v.matches('/').count() > 1)?;
        return Some(format!("unexpected GroupVersion string: {version}"));
    };
    let field = format!("Go struct field .{name} of type string");
    Some(format!("couldn't get version/kind; json parse error: json: cannot unmarshal {what} into {field}"))
}

/// A body may leave out its type; if it names one, it must be the resource's.
pub(crate) fn check_type(
    catalog: &Catalog,
    kind: &str,
    api_version: &str,
    body: &Value,
) -> Result<(), Status> {
    let body_kind = body.str_at(&["kind"]).filter(|k| !k.is_empty()).unwrap_or(kind);
    let body_version = body.str_at(&["apiVersion"]).filter(|v| !v.is_empty()).unwrap_or(api_version);
    if body_kind == kind && body_version == api_version {
        return Ok(());
    }
    let version = body_version.rsplit('/').next().unwrap_or("");
    let refuse = |why: String| {
        Err(Status::bad_request(format!(
            "{body_kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        )))
    };
    let (wanted_group, wanted_version) = api_version.split_once('/').unwrap_or(("", api_version));
    let scheme = scheme::of_group(wanted_group);
    if !scheme.knows(body_version, body_kind) {
        return refuse(format!(
            "no kind \"{body_kind}\" is registered for version \"{body_version}\" in scheme \"{}\"",
            scheme.name
        ));
    }
    // All versions of a kind can be converted to each other, also where it moved from one group to another.
    if body_kind == kind {
        return Err(Status::bad_request(format!(
            "the API version in the data ({body_version}) does not match the expected API version ({api_version})"
        )));
    }
    let stored = catalog.find_kind(wanted_group, wanted_version, kind).and_then(|r| r.storage.as_ref());
    let group = stored.map_or(wanted_group, |storage| &storage.group);
    let package = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or("") };
    refuse(format!("converting ({version}.{body_kind}) to ({package}.{kind}): unknown conversion"))
}

fn check_version_is_text(kind: &str, body: &Value) -> Result<(), Status> {
    if body.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(unfit(kind, "", why));
    }
    Ok(())
}

/// A custom resource is decoded in the version it names, and must have named the resource's. A kind that is not the resource's is
/// left to validation, as upstream does.
fn check_custom_version(api_version: &str, said: &str) -> Result<(), Status> {
    if said == api_version {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({said}) does not match the expected API version ({api_version})"
    )))
}

/// Whether a document is of the kind, but in another version upstream can read.
pub(crate) fn is_in_another_version(kind: &str, api_version: &str, document: &Value) -> bool {
    let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
    let said = document.str_at(&["apiVersion"]).unwrap_or("");
    document.str_at(&["kind"]) == Some(kind)
        && said != api_version
        && scheme::of_group(group).knows(said, kind)
}

/// The object must be the one the URL names.
pub(crate) fn check_place(request: &RequestContext<'_>, body: &mut Value) -> Result<(), Status> {
    let metadata = body.map_at(&["metadata"]);
    if !request.name.is_empty() {
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or("");
        if name.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                request.name
            )));
        } else if name != request.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                request.name
            )));
        }
    }
    check_namespace(request, body)
}

/// The object must be in the namespace the URL names.
pub(crate) fn check_namespace(request: &RequestContext<'_>, body: &mut Value) -> Result<(), Status> {
    let metadata = body.map_at(&["metadata"]);
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or("");
    if request.resource.namespaced {
        if namespace.is_empty() {
            metadata.set("namespace", request.namespace);
        } else if namespace != request.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else {
        // A cluster-scoped object may be sent with a namespace; it is dropped.
        metadata.remove("namespace");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Value {
        codec::json::parse(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn a_body_may_leave_out_its_type_and_must_not_name_another() {
        let catalog = Catalog::builtin();
        let refused =
            |text: &str| check_type(&catalog, "Pod", "v1", &body(text)).err().map(|status| status.message);
        assert_eq!(refused("{}"), None);
        assert_eq!(refused(r#"{"kind":"Pod","apiVersion":"v1"}"#), None);
        let message = refused(r#"{"kind":"Nonsense","apiVersion":"v1"}"#).unwrap();
        assert!(message.contains("no kind \"Nonsense\" is registered for version \"v1\""), "{message}");
        let message = refused(r#"{"kind":"Service","apiVersion":"v1"}"#).unwrap();
        assert!(message.contains("converting (v1.Service) to (core.Pod): unknown conversion"), "{message}");
    }

    #[test]
    fn unknown_fields_are_refused_warned_about_or_ignored() {
        let catalog = Catalog::builtin();
        let pods = catalog.find("", "v1", "configmaps").unwrap();
        let text = r#"{"metadata":{"name":"a"},"dta":{}}"#;
        let read = |validation| object(&catalog, BodyType::of(pods), body(text), validation);
        let message = read(FieldValidation::Strict).unwrap_err().message;
        assert!(message.contains("strict decoding error: unknown field \"dta\""), "{message}");
        assert_eq!(read(FieldValidation::Warn).unwrap().1, ["unknown field \"dta\""]);
        let (value, warnings) = read(FieldValidation::Ignore).unwrap();
        assert!(warnings.is_empty() && value.get("dta").is_none());
    }

    #[test]
    fn an_invalid_kind_or_api_version_gets_gos_error() {
        assert_eq!(unreadable_type(&body(r#"{"kind":"Pod"}"#)), None);
        let message = unreadable_type(&body(r#"{"KIND":1}"#)).unwrap();
        assert!(message.contains("cannot unmarshal number into Go struct field .kind of type string"));
        let message = unreadable_type(&body(r#"{"apiVersion":"a/b/c"}"#)).unwrap();
        assert_eq!(message, "unexpected GroupVersion string: a/b/c");
    }
}
