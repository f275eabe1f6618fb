//! Warnings about valid objects: deprecated fields, surprising values, unfortunate names.
//!
//! ```text
//! write ─ prepared ─ validated ─ of(kind, new, old) ─> texts ─ deduplicated, cut and sent as `Warning` headers
//! ```
//!
//! The rules themselves are in the kind's folder. Texts, paths and order are upstream's (v1.36, feature gates
//! at their defaults), mistakes included: clients compare them.

mod list;

#[cfg(test)]
mod tests;

use object::Value;

use crate::kind::{Context, Kind};

pub use list::Warnings;

/// A valid write.
pub struct Accepted<'a> {
    pub new: &'a Value,
    /// What is stored; `None` for a create.
    pub old: Option<&'a Value>,
}

static NULL: Value = Value::Null;

impl<'a> Accepted<'a> {
    pub(crate) fn is_create(&self) -> bool {
        self.old.is_none()
    }
    /// A create, or an update that counts as a new generation: others get no warnings again.
    pub(crate) fn is_new_generation(&self) -> bool {
        let generation = |v: &Value| v.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
        self.old.is_none_or(|old| generation(old) != generation(self.new))
    }
    pub(crate) fn spec(&self) -> &'a Value {
        self.new.get("spec").unwrap_or(&NULL)
    }
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.new.str_at(&["metadata", "annotations", key])
    }
}

/// The warnings of a write that passed validation, in order.
pub fn of(kind: &dyn Kind, new: &Value, old: Option<&Value>, ctx: &Context<'_>) -> Vec<String> {
    let (write, mut warnings) = (Accepted { new, old }, Warnings::default());
    if ctx.is_object() {
        kind.warn(&write, &mut warnings);
    } else if ctx.is_status() {
        kind.warn_status(&write, &mut warnings);
    }
    warnings.into_list()
}
