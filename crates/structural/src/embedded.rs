//! Embedded resources: their metadata is decoded as that of any resource is, and validated.

use catalog::Schema;
use object::normalise::{Strict, TypeError, normalise};
use object::patch::go_type;
use object::{FieldError, Map, Value, deep, validate_text};

use crate::at::At;
use crate::coerce::sort;
use crate::node::{Flags, NodeId, Structural};
use crate::show::show;

const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// The rules of an object's metadata, which are not this crate's: given a resource, its errors, with paths from `metadata` on.
/// An empty name is not one of them.
pub type CheckMetadata<'c> = &'c dyn Fn(&Value) -> Vec<FieldError>;

/// Metadata that cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataError {
    /// Of the object itself: what Go's decoder says.
    Root(String),
    /// Of an embedded resource, or its kind or apiVersion.
    Embedded(FieldError),
}

impl std::fmt::Display for MetadataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MetadataError::Root(message) => f.write_str(message),
            MetadataError::Embedded(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for MetadataError {}

/// How metadata is decoded.
pub(crate) struct Decode<'s> {
    pub(crate) types: &'s Schema,
    pub(crate) drop_malformed: bool,
    pub(crate) list_unknown: bool,
}

impl Decode<'_> {
    /// The metadata of the object itself.
    pub(crate) fn root(&self, value: &mut Value, unknown: &mut Vec<String>) -> Result<(), MetadataError> {
        let Some(map) = value.as_map_mut() else { return Ok(()) };
        let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
        if !self.drop_malformed {
            // Nobody sees the object if it cannot be decoded, so nothing is kept of it.
            let Some(ty) = self.types.find(OBJECT_META) else { return Ok(()) };
            let mut strict = self.strict();
            let done = normalise(self.types, ty, metadata, &mut strict);
            done.map_err(|error| MetadataError::Root(error.to_string()))?;
            list_unknown(&strict, "metadata", unknown);
            sort(metadata);
            return Ok(());
        }
        let not_an_object = format!("invalid metadata: expected object, got {}", go_type(metadata));
        match self.metadata(metadata, "metadata", unknown) {
            Ok(()) => Ok(()),
            Err(Some(error)) => Err(MetadataError::Root(error.to_string())),
            Err(None) => Err(MetadataError::Root(not_an_object)),
        }
    }

    fn strict(&self) -> Strict {
        if self.list_unknown { Strict::on() } else { Strict::off() }
    }

    /// Decodes one metadata and writes it again; `path` leads to it. `None`: it is no object, and malformed ones were to be dropped.
    fn metadata(
        &self,
        metadata: &mut Value,
        path: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), Option<TypeError>> {
        let Some(ty) = self.types.find(OBJECT_META) else { return Ok(()) };
        let mut decoded = metadata.clone();
        let mut strict = self.strict();
        let mut done = normalise(self.types, ty, &mut decoded, &mut strict);
        if done.is_err() && self.drop_malformed {
            let Value::Map(fields) = metadata else { return Err(None) };
            strict = self.strict();
            decoded = Value::Map(
                fields
                    .iter()
                    .filter(|(name, value)| {
                        let mut one = Value::Map([((*name).clone(), (*value).clone())].into_iter().collect());
                        normalise(self.types, ty, &mut one, &mut Strict::off()).is_ok()
                    })
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            );
            done = normalise(self.types, ty, &mut decoded, &mut strict);
        }
        done.map_err(Some)?;
        list_unknown(&strict, path, unknown);
        sort(&mut decoded);
        *metadata = decoded;
        Ok(())
    }
}

/// The unknown fields below a path.
fn list_unknown(strict: &Strict, path: &str, unknown: &mut Vec<String>) {
    for message in strict.messages() {
        // `unknown field "labels.x"`, quoted as Go quotes.
        if let Some(field) = message.split_once('"').and_then(|(_, rest)| rest.strip_suffix('"')) {
            unknown.push(format!("{path}.{field}"));
        }
    }
}

impl Structural {
    /// Decodes the metadata of all embedded resources; that of the root is not one of them.
    pub(crate) fn coerce_embedded(
        &self,
        value: &mut Value,
        decode: &Decode<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), MetadataError> {
        self.coerce_node(self.root, value, false, decode, &At::Root, unknown)
    }

    /// The same for a default.
    pub(crate) fn coerce_embedded_at(
        &self,
        id: NodeId,
        value: &mut Value,
        types: &Schema,
    ) -> Result<(), MetadataError> {
        let decode = Decode { types, drop_malformed: true, list_unknown: false };
        self.coerce_node(id, value, false, &decode, &At::Root, &mut Vec::new())
    }

    pub(crate) fn coerce_node(
        &self,
        id: NodeId,
        value: &mut Value,
        resource: bool,
        decode: &Decode<'_>,
        at: &At<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), MetadataError> {
        let node = self.node(id);
        if !resource && !node.flags.has(Flags::EMBEDDED_BELOW) {
            return Ok(());
        }
        match value {
            Value::Map(map) => deep(|| {
                if resource || node.flags.has(Flags::EMBEDDED) {
                    coerce_resource(map, decode, at, unknown)?;
                }
                let mut next = 0;
                for (name, member) in map.iter_mut() {
                    if let Some(property) = self.property(node, name, &mut next) {
                        self.coerce_node(property, member, false, decode, &At::Child(at, name), unknown)?;
                    } else if let Some(schema) = node.additional.some() {
                        self.coerce_node(schema, member, false, decode, &At::Key(at, name), unknown)?;
                    }
                }
                Ok(())
            }),
            Value::List(list) => {
                let Some(items) = node.items.some() else { return Ok(()) };
                deep(|| {
                    for (i, item) in list.iter_mut().enumerate() {
                        self.coerce_node(items, item, false, decode, &At::Index(at, i), unknown)?;
                    }
                    Ok(())
                })
            }
            _ => Ok(()),
        }
    }

    /// The errors of embedded resources: a kind, an apiVersion, metadata that obeys the rules of any.
    pub fn validate_embedded(&self, value: &Value, check: CheckMetadata<'_>, errors: &mut Vec<FieldError>) {
        self.validate_embedded_at(self.root, value, check, &At::Root, errors);
    }

    pub(crate) fn validate_embedded_at(
        &self,
        id: NodeId,
        value: &Value,
        check: CheckMetadata<'_>,
        at: &At<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let node = self.node(id);
        if !node.flags.has(Flags::EMBEDDED_BELOW) {
            return;
        }
        match value {
            Value::Map(map) => deep(|| {
                if node.flags.has(Flags::EMBEDDED) {
                    check_resource(value, map, check, at, errors);
                }
                let mut next = 0;
                for (name, member) in map.iter() {
                    if let Some(property) = self.property(node, name, &mut next) {
                        self.validate_embedded_at(property, member, check, &At::Child(at, name), errors);
                    } else if let Some(schema) = node.additional.some() {
                        self.validate_embedded_at(schema, member, check, &At::Key(at, name), errors);
                    }
                }
            }),
            Value::List(list) => {
                let Some(items) = node.items.some() else { return };
                deep(|| {
                    for (i, item) in list.iter().enumerate() {
                        self.validate_embedded_at(items, item, check, &At::Index(at, i), errors);
                    }
                });
            }
            _ => {}
        }
    }
}

fn coerce_resource(
    map: &mut Map,
    decode: &Decode<'_>,
    at: &At<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), MetadataError> {
    for name in ["apiVersion", "kind"] {
        let Some(value) = map.get(name).filter(|value| value.as_str().is_none()) else { continue };
        if !decode.drop_malformed {
            let field = At::Child(at, name).to_string();
            return Err(MetadataError::Embedded(FieldError::invalid(field, show(value), "must be a string")));
        }
        map.remove(name);
    }
    let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
    let path = At::Child(at, "metadata").to_string();
    match decode.metadata(metadata, &path, unknown) {
        Err(Some(error)) if !decode.drop_malformed => {
            let error = FieldError::invalid(path, show(metadata), error.to_string());
            return Err(MetadataError::Embedded(error));
        }
        // What could not be decoded at all stays as it is.
        _ => {}
    }
    if let Some(map) = metadata.as_map_mut()
        && map.get("creationTimestamp").is_some_and(Value::is_null)
    {
        map.remove("creationTimestamp");
    }
    Ok(())
}

/// One embedded resource: required first, then member by member.
pub(crate) fn check_resource(
    resource: &Value,
    map: &Map,
    check: CheckMetadata<'_>,
    at: &At<'_>,
    errors: &mut Vec<FieldError>,
) {
    for name in ["apiVersion", "kind"] {
        if !map.contains(name) {
            errors.push(FieldError::required(At::Child(at, name).to_string(), ""));
        }
    }
    if let Some(value) = map.get("apiVersion") {
        let problem = match value.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) if text.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {text}"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            let field = At::Child(at, "apiVersion").to_string();
            errors.push(FieldError::invalid(field, show(value), problem));
        }
    }
    if let Some(value) = map.get("kind") {
        let problem = match value.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) => {
                let problems = validate_text::dns1035_label(&text.to_lowercase());
                (!problems.is_empty()).then(|| {
                    format!("may have mixed case, but should otherwise match: {}", problems.join(","))
                })
            }
        };
        if let Some(problem) = problem {
            errors.push(FieldError::invalid(At::Child(at, "kind").to_string(), show(value), problem));
        }
    }
    if map.contains("metadata") {
        for mut error in check(resource) {
            let rest = error.field.split_once('.').map_or("", |(first, _)| &error.field[first.len()..]);
            error.field = format!("{}{rest}", At::Child(at, "metadata"));
            errors.push(error);
        }
    }
}
