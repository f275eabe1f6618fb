//! The strategy of custom resources: what their definition says, done to their objects.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use catalog::{Name, Resource, Storage, Types};
use cel_schema::Limits;
use kinds::columns::Printer;
use kinds::warnings::{Accepted, Warnings};
use kinds::{Context, Defaults, FieldError, Finalizers, Generation, Kind, Rules, ScalePaths};
use object::{FieldErrorKind, Map, Status, Value, deep, quote};
use structural::{Coerce, Structural};

use crate::columns::Columns;
use crate::definition::{DefinitionError, Served};
use crate::scale::{self, scale_paths};

const RULES: Rules = Rules::PLAIN
    .with_finalizers(Finalizers::Qualified)
    // From 1; what moves it is said below, since it depends on whether there is a status.
    .with_generation(Generation::Once);

/// One resource's strategy, for all its versions.
pub struct CustomResource {
    group: Name,
    kind: Name,
    versions: Vec<Version>,
    /// The version objects are stored in.
    stored: Name,
    preserve_unknown_fields: bool,
    converts_by_webhook: bool,
    /// UID and generation of the definition.
    defined_by: (Box<str>, i64),
    scale_columns: Columns,
    /// For the metadata of objects.
    types: Types,
}

/// What a version has of its own.
struct Version {
    name: Name,
    schema: Arc<Structural>,
    /// The CEL rules of the schema; `None` where it has none.
    rules: Option<cel_schema::Rules>,
    /// The schema's defaults; `None` where it has none.
    defaults: Option<Box<Defaults>>,
    has_status: bool,
    scale: Option<ScalePaths>,
    columns: Columns,
}

impl CustomResource {
    pub(crate) fn new(crd: &Served<'_>, types: &Types) -> Result<CustomResource, DefinitionError> {
        let versions = crd.each_version().map(|(name, version)| Version::new(name, version, types));
        Ok(CustomResource {
            group: Name::from(crd.group().to_owned()),
            kind: Name::from(crd.kind().to_owned()),
            versions: versions.collect::<Result<_, _>>()?,
            stored: Name::from(crd.storage_version().to_owned()),
            preserve_unknown_fields: crd.preserves_unknown_fields(),
            converts_by_webhook: crd.converts_by_webhook(),
            defined_by: (crd.uid().into(), crd.generation()),
            scale_columns: Columns::of_scale(),
            types: types.clone(),
        })
    }

    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == *name)
    }

    /// The version an object says it is in.
    fn version_of(&self, value: &Value) -> Option<&Version> {
        self.version(value.str_at(&["apiVersion"])?.strip_prefix(&*self.group)?.strip_prefix('/')?)
    }

    /// Drops what the schema does not have. The root's metadata was decoded before.
    fn coerce(
        &self,
        version: &Version,
        value: &mut Value,
        strict: bool,
        drop_malformed_metadata: bool,
    ) -> Result<Vec<String>, String> {
        let how = Coerce {
            strict,
            preserve_unknown_fields: self.preserve_unknown_fields,
            drop_malformed_metadata,
            skip_root_metadata: true,
        };
        version.schema.coerce(value, &self.types, how).map_err(|error| error.to_string())
    }

    /// Kind and apiVersion must be the resource's: decoding lets others pass.
    fn check_type(&self, new: &Value, version: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let wanted = format!("{}/{version}", self.group);
        for (field, wanted) in [("kind", &*self.kind), ("apiVersion", &wanted)] {
            let said = new.str_at(&[field]).unwrap_or_default();
            if said != wanted {
                errors.push(FieldError::invalid(field, quote(said), format!("must be {wanted}")));
            }
        }
        errors
    }
}

impl Version {
    fn new(name: &str, version: &Value, types: &Types) -> Result<Version, DefinitionError> {
        let none = Value::map();
        let schema = version.at(&["schema", "openAPIV3Schema"]).unwrap_or(&none);
        let schema = Structural::parse_to_serve(schema, types)
            .map_err(|why| DefinitionError::Schema { version: name.to_owned(), why })?;
        let schema = Arc::new(schema);
        Ok(Version {
            name: Name::from(name.to_owned()),
            defaults: schema.has_defaults().then(|| defaults(schema.clone())),
            rules: cel_schema::Rules::new(schema.clone()),
            schema,
            has_status: version.at(&["subresources", "status"]).is_some(),
            scale: version.at(&["subresources", "scale"]).map(scale_paths),
            columns: Columns::of_version(version),
        })
    }
}

fn defaults(schema: Arc<Structural>) -> Box<Defaults> {
    Box::new(move |map: &mut Map| {
        let mut value = Value::Map(std::mem::take(map));
        schema.default(&mut value);
        if let Value::Map(defaulted) = value {
            *map = defaulted;
        }
    })
}

impl Kind for CustomResource {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, version: &str) -> Option<&Defaults> {
        self.version(version)?.defaults.as_deref()
    }

    fn reset_fields(&self, version: &str, subresource: Option<&str>) -> &[&[&str]] {
        match subresource {
            _ if self.version(version).is_none_or(|version| !version.has_status) => &[],
            Some("status") => &[&["metadata"], &["spec"]],
            None => &[&["status"]],
            _ => &[],
        }
    }

    fn versions(&self) -> Vec<&str> {
        self.versions.iter().map(|version| version.name.as_str()).collect()
    }

    fn structural(&self, version: &str) -> Option<&Arc<Structural>> {
        self.version(version).map(|version| &version.schema)
    }

    fn converts_last(&self) -> bool {
        true
    }

    fn prune(&self, _version: &str, value: &mut Value, report: bool) -> Result<Vec<String>, String> {
        // By the version the object names, which may not be the request's: that is refused later.
        match self.version_of(value).filter(|_| value.str_at(&["kind"]) == Some(&*self.kind)) {
            Some(version) => self.coerce(version, value, report, false),
            None => Ok(Vec::new()),
        }
    }

    fn printer(&self, version: &str) -> &dyn Printer {
        match self.version(version) {
            Some(version) => &version.columns,
            None => kinds::columns::generic_printer(),
        }
    }

    fn scale_printer(&self) -> &dyn Printer {
        &self.scale_columns
    }

    fn scale_paths(&self, version: &str) -> Option<&ScalePaths> {
        self.version(version)?.scale.as_ref()
    }

    fn to_storage(&self, value: &mut Value, _from: &Resource) -> Result<(), Status> {
        let Some(version) = self.version(&self.stored) else { return Ok(()) };
        value.make_map().set("apiVersion", format!("{}/{}", self.group, self.stored));
        // Defaults of the stored version are filled in when it is read.
        self.coerce(version, value, false, false).map(|_| ()).map_err(Status::internal)
    }

    fn converts_by_webhook(&self) -> bool {
        self.converts_by_webhook
    }

    fn decode_stored(&self, value: &mut Value) {
        if let Some(version) = self.version_of(value) {
            // What was stored is served, whatever its schema says by now.
            let _ = self.coerce(version, value, false, true);
            version.schema.default(value);
        }
        let metadata = value.map_at(&["metadata"]);
        if metadata.get("generation").and_then(Value::as_int).unwrap_or(0) == 0 {
            metadata.set("generation", 1i64);
        }
    }

    /// An apply may leave null of what has nothing left: if that is valid, it is gone when the object is read.
    fn canonicalise(&self, new: &mut Value) -> bool {
        let has_null = has_null(new);
        if has_null {
            self.decode_stored(new);
        }
        has_null
    }

    fn from_storage(&self, value: &mut Value, to: &Resource) {
        self.decode_stored(value);
        if self.version_of(value).is_none_or(|from| from.name != to.version) {
            value.make_map().set("apiVersion", to.api_version());
            if let Some(version) = self.version(&to.version) {
                let _ = self.coerce(version, value, false, false);
            }
        }
    }

    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        if self.version(ctx.version).is_some_and(|version| version.has_status) {
            new.make_map().remove("status");
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        if ctx.is_status() {
            let status = new.make_map().remove("status");
            // They say who wrote the status.
            let managers = new.map_at(&["metadata"]).remove("managedFields");
            *new = old.clone();
            match managers {
                Some(managers) => new.map_at(&["metadata"]).set("managedFields", managers),
                None => _ = new.map_at(&["metadata"]).remove("managedFields"),
            }
            match status {
                Some(status) => new.make_map().set("status", status),
                None => _ = new.make_map().remove("status"),
            }
            return;
        }
        if self.version(ctx.version).is_some_and(|version| version.has_status) {
            match old.get("status") {
                Some(status) => new.make_map().set("status", status.clone()),
                None => _ = new.make_map().remove("status"),
            }
        }
        if !same_content(new, old) {
            let generation = old.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
            new.map_at(&["metadata"]).set("generation", generation.saturating_add(1));
        }
    }

    fn validate(
        &self,
        storage: &Storage,
        new: &Value,
        old: Option<&Value>,
        ctx: &Context<'_>,
    ) -> Vec<FieldError> {
        let mut errors = self.check_type(new, ctx.version);
        let Some(version) = self.version(ctx.version).filter(|_| errors.is_empty()) else { return errors };
        errors.extend(kinds::check_metadata(&RULES, storage, new, old));
        let schema = &version.schema;
        match old {
            None => schema.validate(new, &mut errors),
            Some(old) if ctx.is_status() => schema.validate_status_update(new, old, &mut errors),
            Some(old) => schema.validate_update(new, old, &mut errors),
        }
        if let Some(scale) = &version.scale {
            scale::check(scale, new, ctx.is_status(), &mut errors);
        }
        if !ctx.is_status() {
            schema.validate_embedded(new, &kinds::check_embedded, &mut errors);
        }
        match old {
            None => schema.validate_lists(new, &mut errors),
            Some(old) => schema.validate_lists_update(new, old, &mut errors),
        }
        if let Some(rules) = &version.rules {
            check_rules(rules, new, old, ctx, &mut errors);
        }
        errors
    }

    fn defined_by(&self) -> Option<(&str, i64)> {
        let (uid, generation) = &self.defined_by;
        Some((uid, *generation))
    }

    fn warn(&self, write: &Accepted<'_>, warnings: &mut Warnings) {
        warnings.extend(kinds::finalizer_warnings(write.new, write.old));
    }
}

/// The CEL rules, which are about objects that have the right types and members: others are not asked.
fn check_rules(
    rules: &cel_schema::Rules,
    new: &Value,
    old: Option<&Value>,
    ctx: &Context<'_>,
    errors: &mut Vec<FieldError>,
) {
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    };
    if errors.iter().any(blocks) {
        let detail = "some validation rules were not checked because the object was invalid; \
                      correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", "null", detail));
        return;
    }
    let outcome = rules.validate(new, old, Limits::default(), ctx.meter);
    errors.extend(outcome.errors);
    outcome.warnings.into_iter().for_each(|warning| ctx.warnings.warn(warning));
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Map(map) => deep(|| map.iter().any(|(_, member)| has_null(member))),
        Value::List(list) => deep(|| list.iter().any(has_null)),
        _ => false,
    }
}

/// Everything but the metadata, whatever order it is in.
fn same_content(new: &Value, old: &Value) -> bool {
    let content = |value: &Value| {
        value.as_map().map_or(0, |map| map.len() - usize::from(map.get("metadata").is_some()))
    };
    let members =
        new.as_map().into_iter().flat_map(|map| map.iter()).filter(|(name, _)| &**name != "metadata");
    content(new) == content(old) && members.into_iter().all(|(name, value)| old.get(name) == Some(value))
}
