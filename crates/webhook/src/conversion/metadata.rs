//! A webhook may change labels and annotations; the rest of the metadata is the original's.

use std::collections::{BTreeSet, HashMap};

use object::patch::go_type;
use object::{FieldError, Map, Value, quote, validate_text};

/// Keys and values of all annotations together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// More of them help nobody. Upstream shows all.
const MAX_ERRORS: usize = 100;

/// Puts the metadata of `original` into `converted`, with the labels and annotations of `converted`.
pub(super) fn restore(original: &Value, converted: &mut Value) -> Result<(), String> {
    let object = converted.make_map();
    let answered = object.get_mut("metadata").ok_or("missing metadata in converted object")?;
    let Value::Map(answered) = answered else {
        return Err(format!("invalid metadata of type {} in converted object", go_type(answered)));
    };
    let mut answered = std::mem::take(answered);
    let mut metadata = match original.get("metadata") {
        None => Map::default(),
        Some(Value::Map(metadata)) => metadata.clone(),
        Some(other) => return Err(format!("invalid metadata of type {} in input object", go_type(other))),
    };
    for field in [Field::Labels, Field::Annotations] {
        let name = field.name();
        let new = match answered.remove(name) {
            None | Some(Value::Null) => {
                metadata.remove(name);
                continue;
            }
            Some(Value::Map(new)) => new,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{name} of type {} in converted object",
                    go_type(&other)
                ));
            }
        };
        let old = match metadata.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Map(old)) => Some(old),
            Some(other) => {
                return Err(format!("invalid metadata.{name} of type {} in original object", go_type(other)));
            }
        };
        if field.changed(old, &new)? {
            field.validate(&new)?;
        }
        metadata.set(name, new);
    }
    object.set("metadata", metadata);
    Ok(())
}

#[derive(Clone, Copy)]
enum Field {
    Labels,
    Annotations,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::Labels => "labels",
            Field::Annotations => "annotations",
        }
    }

    fn changed(self, old: Option<&Map>, new: &Map) -> Result<bool, String> {
        // There may be thousands of them.
        let old: HashMap<&str, &Value> =
            old.into_iter().flat_map(|old| old.iter()).map(|(key, value)| (&**key, value)).collect();
        let mut changed = old.len() != new.len();
        for (key, value) in new.iter() {
            if !matches!(value, Value::Str(_)) {
                let (name, found) = (self.name(), go_type(value));
                return Err(format!(
                    "metadata.{name}[{key}] must be a string, but is {found} in converted object"
                ));
            }
            changed |= old.get(&**key).copied() != Some(value);
        }
        Ok(changed)
    }

    /// What was already there is not looked at: it may be older than a rule.
    fn validate(self, new: &Map) -> Result<(), String> {
        let mut entries: Vec<(&str, &str)> =
            new.iter().map(|(key, value)| (&**key, value.as_str().unwrap_or_default())).collect();
        entries.sort_unstable();
        let mut errors = Vec::new();
        match self {
            Field::Labels => {
                let field = "metadata.labels";
                for (key, value) in entries {
                    for problem in validate_text::qualified_name(key) {
                        errors.push(FieldError::invalid(field, quote(key), problem));
                    }
                    for problem in validate_text::label_value(value) {
                        errors.push(FieldError::invalid(field, quote(value), problem));
                    }
                }
            }
            Field::Annotations => {
                // Upstream's slip.
                let field = "metadata.annotation";
                let mut bytes = 0;
                for (key, value) in entries {
                    bytes += key.len() + value.len();
                    for problem in validate_text::qualified_name(&key.to_lowercase()) {
                        errors.push(FieldError::invalid(field, quote(key), problem));
                    }
                }
                if bytes > ANNOTATIONS_MAX_BYTES {
                    errors.push(FieldError::too_long(field, ANNOTATIONS_MAX_BYTES));
                }
            }
        }
        aggregate(&errors)
    }
}

/// One error as it is, several in brackets, each once.
fn aggregate(errors: &[FieldError]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let shown = errors.iter().map(FieldError::to_string).filter(|error| seen.insert(error.clone()));
    match &shown.take(MAX_ERRORS).collect::<Vec<_>>()[..] {
        [] => Ok(()),
        [error] => Err(error.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}
