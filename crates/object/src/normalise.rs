//! Normalises a tree: the result of decoding into the Go type and encoding again.
//!
//! ```text
//! tree from JSON, YAML, a patch     unknown and duplicate names ──> Strict (messages in document order)
//!            │                      a value of the wrong type    ──> TypeError (worded as Go's decoder)
//!            v  along the schema
//! structs in declaration order, maps sorted, nulls and empty optional values dropped, values Go always writes filled in,
//! quantities, times, durations and base64 in canonical form
//! ```
//! Equal objects become equal bytes, and running it again changes nothing.

mod check;
mod error;
mod go_names;
mod memo;
mod open;
mod restore;
mod scalar;
mod strict;
mod structure;

#[cfg(test)]
mod tests;

pub use check::is_normalised;
pub use error::TypeError;
pub use memo::FieldMemo;
pub use restore::{restore_error, restore_numbers};
pub use scalar::format_float;
pub use strict::Strict;

use std::cmp::Ordering;

use catalog::{Name, Schema, Shape, TypeId};

use crate::{LEVELS_AT_ONCE, Map, Value, deep};
use error::{FieldPath, PathElement};

/// Maximum nesting. Parsers stop at the same depth; a patch could build more.
pub const MAX_DEPTH: u32 = crate::MAX_DEPTH as u32;

/// Normalises `value` for the type. After an error the value is partly changed and must be dropped.
pub fn normalise(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    strict: &mut Strict,
) -> Result<(), TypeError> {
    run(schema, ty, value, strict, false).map(|_| ())
}

/// As [`normalise`], but keeps empty lists and maps: Go decodes them to an empty value, not
/// nil, which defaulting and validation distinguish. Returns whether there is one: then [`normalise`] must still
/// run before the object is encoded, because storage does not distinguish them.
pub fn normalise_decoded(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    strict: &mut Strict,
) -> Result<bool, TypeError> {
    run(schema, ty, value, strict, true)
}

/// As [`normalise`], but an empty list or map stays where Go writes one: what an object is compared by before it is stored.
pub fn normalise_written(schema: &Schema, ty: TypeId, value: &mut Value) -> Result<(), TypeError> {
    let mut strict = Strict::off();
    let mut pass = Pass::new(schema, &mut strict);
    pass.writes_empty = true;
    pass.value(&Shape::Struct(ty), value, &FieldPath::ROOT)?;
    pass.first_mismatch.map_or(Ok(()), Err)
}

fn run(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    strict: &mut Strict,
    keep_empty: bool,
) -> Result<bool, TypeError> {
    if value.is_null() {
        *value = Value::map();
    }
    let mut pass = Pass::new(schema, strict);
    pass.keep_empty = keep_empty;
    pass.value(&Shape::Struct(ty), value, &FieldPath::ROOT)?;
    match pass.first_mismatch {
        Some(error) => Err(error),
        None => Ok(pass.kept_empty),
    }
}

struct Pass<'s> {
    schema: &'s Schema,
    strict: &'s mut Strict,
    /// Go reports the first value of a wrong type, but only after reading everything: a string that its
    /// type cannot parse (a quantity, a time) ends the pass at once and is reported instead.
    first_mismatch: Option<TypeError>,
    /// Scratch of [`structure`]: positions of the members of all open structs.
    order: Vec<u16>,
    memo: FieldMemo,
    depth: u32,
    /// The depth at which to check the stack next.
    look_at: u32,
    /// Empty lists and maps stay, and whether one did.
    keep_empty: bool,
    kept_empty: bool,
    /// Empty lists and maps stay where Go writes them.
    writes_empty: bool,
}

impl<'s> Pass<'s> {
    fn new(schema: &'s Schema, strict: &'s mut Strict) -> Pass<'s> {
        Pass {
            schema,
            strict,
            first_mismatch: None,
            order: Vec::new(),
            memo: FieldMemo::new(),
            depth: 0,
            look_at: LEVELS_AT_ONCE,
            keep_empty: false,
            kept_empty: false,
            writes_empty: false,
        }
    }

    /// Normalises one value. The caller handles nulls: they differ in fields, lists and maps.
    fn value(&mut self, shape: &'_ Shape, value: &mut Value, here: &FieldPath<'_>) -> Result<(), TypeError> {
        match shape {
            Shape::String if matches!(value, Value::Str(_)) => Ok(()),
            Shape::Struct(_) | Shape::List(_) | Shape::Map(_) | Shape::Any => {
                if self.depth == self.look_at {
                    return self.with_room(shape, value, here);
                }
                self.depth += 1;
                let done = match shape {
                    Shape::Struct(id) => self.structure(self.schema.get(*id), value, here),
                    Shape::List(inner) => self.list(inner, shape, value, here),
                    Shape::Map(inner) => self.map(inner, shape, value, here),
                    _ => self.any(value),
                };
                self.depth -= 1;
                done
            }
            _ => self.scalar(shape, value, here),
        }
    }

    /// [`value`](Pass::value) after checking the stack and the depth.
    #[cold]
    #[inline(never)]
    fn with_room(&mut self, shape: &Shape, value: &mut Value, here: &FieldPath<'_>) -> Result<(), TypeError> {
        if self.depth >= MAX_DEPTH {
            return Err(TypeError::TooDeep);
        }
        let look_at = self.look_at;
        self.look_at = MAX_DEPTH.min(look_at + LEVELS_AT_ONCE);
        let done = deep(|| self.value(shape, value, here));
        self.look_at = look_at;
        done
    }

    fn list(
        &mut self,
        inner: &Shape,
        shape: &Shape,
        value: &mut Value,
        here: &FieldPath<'_>,
    ) -> Result<(), TypeError> {
        let Value::List(items) = value else {
            self.mismatch(shape, value, here);
            return Ok(());
        };
        for (i, item) in items.iter_mut().enumerate() {
            self.element(inner, item, &FieldPath { parent: Some(here), element: PathElement::Index(i) })?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        inner: &Shape,
        shape: &Shape,
        value: &mut Value,
        here: &FieldPath<'_>,
    ) -> Result<(), TypeError> {
        let Value::Map(map) = value else {
            self.mismatch(shape, value, here);
            return Ok(());
        };
        let sorted = map.entries_mut().is_sorted_by(|(a, _), (b, _)| a < b);
        let twice = if sorted || !self.strict.is_on() { Vec::new() } else { strict::repeated(map) };
        let mut twice = twice.into_iter().peekable();
        for (i, (name, item)) in map.iter_mut().enumerate() {
            if twice.next_if_eq(&i).is_some() {
                self.strict.duplicate(here, name);
            }
            self.element(inner, item, &FieldPath { parent: Some(here), element: PathElement::Key(name) })?;
        }
        if !sorted {
            sort_keeping_last(map, Name::cmp);
        }
        Ok(())
    }

    /// A member of a map or an element of a list: null is the zero value of its type.
    fn element(&mut self, inner: &Shape, item: &mut Value, here: &FieldPath<'_>) -> Result<(), TypeError> {
        if item.is_null() {
            *item = match inner {
                // Upstream's storage reads no bytes back as empty ones.
                Shape::Bytes => Value::from(""),
                inner => structure::zero(self.schema, inner, 0),
            };
            return Ok(());
        }
        self.value(inner, item, here)
    }

    /// Unchanged except for numbers: equal numbers become equal values, and so equal bytes.
    fn any(&mut self, value: &mut Value) -> Result<(), TypeError> {
        match value {
            Value::Float(_) => scalar::shorten_float(value),
            Value::List(items) => items.iter_mut().try_for_each(|item| self.any_inside(item))?,
            Value::Map(map) => map.iter_mut().try_for_each(|(_, item)| self.any_inside(item))?,
            _ => {}
        }
        Ok(())
    }

    /// Only what can hold something is a level of its own.
    fn any_inside(&mut self, item: &mut Value) -> Result<(), TypeError> {
        match item {
            Value::List(_) | Value::Map(_) => self.value(&Shape::Any, item, &FieldPath::ROOT),
            _ => self.any(item),
        }
    }

    fn mismatch(&mut self, shape: &Shape, value: &Value, here: &FieldPath<'_>) {
        if self.first_mismatch.is_none() {
            let found = value.json_type().to_owned();
            let wanted = go_names::named_type(here).unwrap_or_else(|| error::go_type(self.schema, shape));
            self.first_mismatch = Some(TypeError::unmarshal(found, here, wanted));
        }
    }
}

/// Sorts by name; of duplicate names the last one stays.
fn sort_keeping_last(map: &mut Map, order: impl Fn(&Name, &Name) -> Ordering) {
    let entries = map.entries_mut();
    entries.sort_by(|(a, _), (b, _)| order(a, b));
    // dedup keeps the first of a run, so the later one is moved into its place.
    entries.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
}
