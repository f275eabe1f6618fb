//! From `metadata.managedFields`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use catalog::Name;
use object::{Value, quote, time};
use thiserror::Error;

use super::{Manager, ManagerId, Managers, Operation};
use crate::set::{FieldsError, Set};

/// Fewer are compared one by one.
const FEW: usize = 32;

/// Why `metadata.managedFields` say nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {} in managed fields entry {index}", quote(.fields_type))]
    FieldsType { fields_type: String, index: usize },
    #[error("error decoding versioned set from {manager}: error decoding set: {source}")]
    Fields { manager: String, source: FieldsError },
}

impl Managers {
    /// From the list of an object, which may be taken apart. `None`, as any value that is no list, is an object without.
    pub fn decode(entries: Option<Value>) -> Result<Managers, DecodeError> {
        let mut managers = Managers::default();
        let Some(Value::List(entries)) = entries else { return Ok(managers) };
        // A client may send tens of thousands.
        let mut known = HashMap::new();
        let many = entries.len() > FEW;
        for (index, mut entry) in entries.into_iter().enumerate() {
            let (id, fields_type) = id_of(&entry)?;
            match fields_type.as_str() {
                "FieldsV1" => {}
                "" => return Err(DecodeError::NoFieldsType(index)),
                _ => return Err(DecodeError::FieldsType { fields_type, index }),
            }
            let time = entry.get("time").and_then(Value::as_str).and_then(time::parse);
            let fields = entry.as_map_mut().and_then(|entry| entry.remove("fieldsV1"));
            let (set, text) = read(fields.unwrap_or_else(Value::map))
                .map_err(|source| DecodeError::Fields { manager: id.to_string(), source })?;
            let manager = Manager { id, time: time.map(|(seconds, _)| seconds), set, text };
            // Of two with one identity the last counts.
            if !many {
                managers.put(manager);
                continue;
            }
            match known.entry(manager.id.identifier()) {
                Entry::Occupied(at) => managers.0[*at.get()] = manager,
                Entry::Vacant(at) => {
                    at.insert(managers.0.len());
                    managers.0.push(manager);
                }
            }
        }
        Ok(managers)
    }
}

/// The set, and the text it came from if it would be written the same way.
fn read(fields: Value) -> Result<(Set, Option<Box<str>>), FieldsError> {
    match fields {
        Value::Raw(text) => {
            let (set, canonical) = Set::read_text(&text)?;
            Ok((set, canonical.then_some(text)))
        }
        fields => Ok((Set::from_fields(&fields)?, None)),
    }
}

fn id_of(entry: &Value) -> Result<(ManagerId, String), DecodeError> {
    let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(DecodeError::Operation),
    };
    if text("apiVersion").is_empty() {
        return Err(DecodeError::ApiVersion);
    }
    let name = |name| Name::from(text(name).to_owned());
    let id = ManagerId {
        name: name("manager"),
        operation,
        api_version: name("apiVersion"),
        subresource: if text("subresource").is_empty() { Name::EMPTY } else { name("subresource") },
    };
    Ok((id, text("fieldsType").to_owned()))
}
