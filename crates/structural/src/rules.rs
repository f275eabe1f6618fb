//! The rules that a schema of a definition must obey.
//!
//! ```text
//! shape     structural: the shape of an object is said once, plainly; what is under `allOf` and the like only validates values
//! defaults  are what an object could be: pruned, with valid metadata, and valid
//! words     what OpenAPI has and definitions may not use; Kubernetes' own words for lists and maps
//! ```
//! CEL rules are not compiled here: [`Checked::sites`] says where those are that could be.

mod defaults;
mod errors;
mod path;
mod shape;
mod shown;
mod words;

use catalog::Schema;
use object::{FieldError, Value};

use crate::at::At;
use crate::embedded::CheckMetadata;
use crate::node::{Node, Structural};
use crate::read::{flag, items, member, text};
use errors::Errors;
pub use path::{FieldPath, find as find_path};
pub use words::any;

/// What stored schemas already break may stay broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lenience {
    types: bool,
    sets: bool,
    keys: bool,
    unpruned_defaults: bool,
    /// Not structural.
    shape: bool,
}

impl Lenience {
    /// That the schemas of the stored definition are reason for.
    pub fn of<'v>(schemas: impl Iterator<Item = &'v Value>, types: &Schema) -> Lenience {
        let mut lenience = Lenience::default();
        for schema in schemas {
            lenience.types |= words::has_odd_type(schema);
            lenience.sets |= words::has_broken_set(schema);
            lenience.keys |= words::has_broken_keys(schema);
            lenience.shape |= !is_structural(schema);
            lenience.unpruned_defaults |= has_unpruned_defaults(schema, types);
        }
        lenience
    }
}

/// What [`check`] needs to know.
pub struct Options<'c> {
    pub lenience: &'c Lenience,
    /// The resource has a status of its own: nothing else may hang on the root.
    pub has_status: bool,
    /// The definition may go on without structural schemas if its stored ones are not either.
    pub may_be_unstructured: bool,
    /// Has the type of metadata.
    pub types: &'c Schema,
    /// The rules of metadata, for defaults of embedded resources.
    pub check_metadata: CheckMetadata<'c>,
    /// The CEL rules of a default's node, run on the default when all else is well: node, default, its path.
    pub check_rules: &'c dyn Fn(Node<'_>, &Value, &str) -> Vec<FieldError>,
}

/// What [`check`] found.
#[derive(Debug, Default)]
pub struct Checked {
    pub errors: Vec<FieldError>,
    /// Where CEL rules are whose schemas are right, in the order upstream compiles them (what is inside comes first). None when the
    /// schema as a whole is not structural or its defaults are wrong.
    pub sites: Vec<RuleSite>,
}

/// A place with CEL rules.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSite {
    /// `...properties[spec].x-kubernetes-validations`.
    pub at: String,
    /// From the root to the node.
    pub steps: Vec<Step>,
    /// The list around it, if any, whose elements cannot be correlated: its rules cannot use `oldSelf`.
    pub uncorrelatable: Option<String>,
}

/// One step into a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Property(Box<str>),
    Items,
    Additional,
}

/// Checks the schema of a version; `at` is the path of its parent (`spec.validation`, `spec.versions[0].schema`).
pub fn check(schema: &Value, at: &str, options: &Options<'_>) -> Checked {
    let parent = At::Text(at);
    let here = parent.child("openAPIV3Schema");
    let mut errors = Errors::default();
    if options.has_status {
        words::check_root(schema, &parent, &mut errors);
    }
    if flag(schema, "nullable") {
        errors.forbidden(&here.child("nullable"), "nullable cannot be true at the root");
    }
    let structural = !(options.lenience.shape && options.may_be_unstructured);
    let mut unreadable = None;
    let mut well = false;
    if structural {
        match Structural::parse(schema) {
            Err(error) => unreadable = Some(error),
            Ok(parsed) => {
                let broken = shape::check(schema, &here);
                well = broken.is_empty();
                errors.extend(broken);
                if well {
                    let broken = defaults::check(&parsed, &here, options);
                    well = broken.is_empty();
                    errors.extend(broken);
                }
            }
        }
    }
    let mut walk = words::Walk::new(options.lenience);
    walk.check(schema, &here);
    errors.extend(walk.errors.list);
    if let Some(error) = unreadable
        && errors.list.is_empty()
    {
        // What else cannot be read has its own words, and those come first.
        errors.invalid(&here, "", error);
    }
    Checked { errors: errors.list, sites: if well { walk.sites } else { Vec::new() } }
}

/// The schema as upstream's messages show it: Go's struct.
pub fn shown_schema(schema: &Value) -> String {
    shown::schema(schema)
}

/// Whether a schema says the shape of its objects plainly.
pub fn is_structural(schema: &Value) -> bool {
    shape::is_convertible(schema) && shape::check(schema, &At::Text("schema")).is_empty()
}

/// What is not structural in a schema, whose path is `at`; `Err` where it cannot even be read as one.
pub fn violations(schema: &Value, at: &str) -> Result<Vec<FieldError>, String> {
    // Reading it all is dear, and almost all schemas can be read.
    if !shape::is_convertible(schema) {
        Structural::parse(schema)?;
    }
    Ok(shape::check(schema, &At::Text(at)))
}

/// Whether a schema is published with its definition: it is structural, and its types exist.
pub fn is_published(schema: &Value) -> bool {
    !words::has_odd_type(schema) && is_structural(schema)
}

/// Whether a schema has one of Kubernetes' own words, which only structural schemas may.
pub fn has_extensions(schema: &Value) -> bool {
    any(schema, &|schema| {
        flag(schema, "x-kubernetes-embedded-resource")
            || member(schema, "x-kubernetes-preserve-unknown-fields").is_some()
            || flag(schema, "x-kubernetes-int-or-string")
            || !items(schema, "x-kubernetes-list-map-keys").is_empty()
            || member(schema, "x-kubernetes-list-type").is_some()
            || !items(schema, "x-kubernetes-validations").is_empty()
    })
}

pub fn has_defaults(schema: &Value) -> bool {
    any(schema, &|schema| member(schema, "default").is_some())
}

/// Whether a field can select objects: it is a string, a boolean or an integer.
pub fn is_selectable(schema: &Value) -> bool {
    matches!(text(schema, "type"), "string" | "boolean" | "integer")
}

fn has_unpruned_defaults(schema: &Value, types: &Schema) -> bool {
    if !has_defaults(schema) || !is_structural(schema) {
        return false;
    }
    let Ok(mut pruned) = Structural::parse(schema) else { return false };
    let before: Vec<Option<Value>> = pruned.nodes.iter().map(|node| node.default().cloned()).collect();
    pruned.prune_defaults(types);
    pruned.nodes.iter().zip(&before).any(|(node, before)| node.default() != before.as_ref())
}
