//! Structs: which members are kept, which are added, and their order.

use catalog::{Field, Name, Schema, Shape, StructType};

use super::error::{FieldPath, PathElement};
use super::{Pass, TypeError};
use crate::{Map, Value, deep, discard};

/// What happens to a member.
pub(super) enum Fate {
    Keep,
    /// Present, but Go would not write it; among duplicates it still counts as the last.
    Omit,
    /// Ignored: null for a value that is not a pointer.
    NoEffect,
}

/// In `Pass::order`: the member goes.
const GONE: u16 = u16::MAX;
/// In `Pass::order`: the member goes, and takes earlier ones of its name with it.
const OMITTED: u16 = 0x8000;

impl<'s> Pass<'s> {
    pub(super) fn structure(
        &mut self,
        ty: &StructType,
        value: &mut Value,
        here: &FieldPath<'_>,
    ) -> Result<(), TypeError> {
        let Value::Map(map) = value else {
            if self.first_mismatch.is_none() {
                let error = TypeError::unmarshal(value.json_type().to_owned(), here, ty.go_name.to_string());
                self.first_mismatch = Some(error);
            }
            return Ok(());
        };
        if ty.open {
            return self.open_structure(ty, map, here);
        }
        let start = self.order.len();
        let mut seen = Seen::default();
        let mut next = 0;
        // Entries are in declaration order, each once, none dropped: nothing to move.
        let mut settled = true;
        let mut repeated = false;
        for (name, member) in map.entries_mut() {
            let Some((at, field)) = self.memo.find(ty, next, name) else {
                self.strict.unknown(here, name);
                discard(std::mem::replace(member, Value::Null));
                self.order.push(GONE);
                settled = false;
                continue;
            };
            if seen.insert(at) {
                repeated = true;
                self.strict.duplicate(here, name);
            }
            settled &= at >= next;
            next = at + 1;
            let path = FieldPath { parent: Some(here), element: PathElement::Field(ty, &field.name) };
            let position = match self.member(field, member, &path)? {
                Fate::Keep => at as u16,
                Fate::Omit => at as u16 | OMITTED,
                Fate::NoEffect => GONE,
            };
            settled &= position == at as u16;
            self.order.push(position);
        }
        if !settled {
            rearrange(map.entries_mut(), &mut self.order, start, repeated);
        }
        self.add_absent(ty, map, start);
        self.order.truncate(start);
        Ok(())
    }

    /// Adds what Go writes for unset fields. `order[start..]` holds the positions of the entries, ascending.
    fn add_absent(&mut self, ty: &StructType, map: &mut Map, start: usize) {
        let mut present = start;
        let mut added = 0;
        for at in &ty.always_written {
            while self.order.get(present).is_some_and(|p| p < at) {
                present += 1;
            }
            if self.order.get(present) != Some(at) {
                let field = &ty.fields[usize::from(*at)];
                let zero = when_absent(self.schema, field, 0);
                map.entries_mut().insert(present - start + added, (field.name.clone(), zero));
                added += 1;
            }
        }
    }

    pub(super) fn member(
        &mut self,
        field: &Field,
        value: &mut Value,
        here: &FieldPath<'_>,
    ) -> Result<Fate, TypeError> {
        if value.is_null() {
            return null_member(field, value);
        }
        self.value(&field.shape, value, here)?;
        let collection = matches!(field.shape, Shape::List(_) | Shape::Map(_));
        if collection && !field.pointer && is_empty(&field.shape, value) {
            if self.keep_empty {
                self.kept_empty = true;
                return Ok(Fate::Keep);
            }
            // Upstream's storage keeps no difference between empty and absent, and answers with what it would read back.
            if !field.omit_empty && !self.writes_empty {
                *value = Value::Null;
            }
        }
        let omit = if field.pointer {
            // A zero time turned into null.
            value.is_null() && field.omit_empty
        } else if field.omit_zero {
            is_zero(value)
        } else {
            field.omit_empty && is_empty(&field.shape, value)
        };
        Ok(if omit { Fate::Omit } else { Fate::Keep })
    }
}

fn null_member(field: &Field, value: &mut Value) -> Result<Fate, TypeError> {
    if field.pointer {
        return Ok(if field.omit_empty { Fate::Omit } else { Fate::Keep });
    }
    match &field.shape {
        Shape::Struct(_)
        | Shape::String
        | Shape::Bool
        | Shape::Int32
        | Shape::Int64
        | Shape::Float64
        | Shape::Any => {
            return Ok(Fate::NoEffect);
        }
        Shape::List(_) | Shape::Map(_) | Shape::Bytes => {
            return Ok(if field.omit_empty { Fate::Omit } else { Fate::Keep });
        }
        Shape::Time | Shape::MicroTime => {}
        Shape::Quantity => *value = Value::from("0"),
        Shape::IntOrString => *value = Value::Int(0),
        // The one type whose reader does not know null: it reads the empty text.
        Shape::Duration => return Err(crate::time::DurationError::Invalid(String::new()).into()),
    }
    Ok(if field.omit_zero { Fate::Omit } else { Fate::Keep })
}

/// What Go writes for a field that is always written, and that nobody set.
fn when_absent(schema: &Schema, field: &Field, depth: u32) -> Value {
    if field.pointer { Value::Null } else { zero(schema, &field.shape, depth) }
}

pub(super) fn is_empty(shape: &Shape, value: &Value) -> bool {
    shape.can_be_empty()
        && match value {
            Value::Bool(b) => !b,
            Value::Int(i) => *i == 0,
            Value::Float(f) => *f == 0.0,
            Value::Str(s) => s.is_empty(),
            Value::List(items) => items.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Raw(_) => false,
            Value::Null => true,
        }
}

/// All zero, for omitzero: a canonical struct holds zeros only where Go must write them.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Map(map) => deep(|| map.iter().all(|(_, member)| is_zero(member))),
        Value::Str(s) => s.is_empty() || s == "0" || s == "0s",
        Value::Int(i) => *i == 0,
        Value::Bool(b) => !b,
        Value::Null => true,
        Value::Float(f) => *f == 0.0,
        Value::List(_) | Value::Raw(_) => false,
    }
}

/// What Go writes for the zero value of a type.
pub(super) fn zero(schema: &Schema, shape: &Shape, depth: u32) -> Value {
    // Structs held by value cannot contain themselves in Go; a schema from elsewhere might say so.
    const DEEPEST: u32 = 32;
    match shape {
        Shape::Struct(id) if depth < DEEPEST => {
            let ty = schema.get(*id);
            let fields = ty.always_written.iter().map(|at| &ty.fields[usize::from(*at)]);
            let member = |f: &Field| (f.name.clone(), when_absent(schema, f, depth + 1));
            Value::Map(fields.map(member).collect())
        }
        Shape::Struct(_) => Value::map(),
        Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Any | Shape::Time | Shape::MicroTime => {
            Value::Null
        }
        Shape::String => Value::from(""),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Value::Int(0),
        Shape::Duration => Value::from("0s"),
        Shape::Quantity => Value::from("0"),
    }
}

/// Drops what goes and sorts the rest; `order[start..]` follows. Of a name that came twice the last one decides.
fn rearrange(entries: &mut Vec<(Name, Value)>, order: &mut Vec<u16>, start: usize, repeated: bool) {
    // Inserting each where it belongs needs no second vector, but only suits what a struct normally holds.
    const FEW: usize = 64;
    if repeated || entries.len() > FEW {
        return rearrange_many(entries, order, start);
    }
    let mut at = start;
    entries.retain(|_| {
        at += 1;
        order[at - 1] & OMITTED == 0
    });
    let mut sorted = start;
    for at in start..order.len() {
        let position = order[at];
        if position & OMITTED != 0 {
            continue;
        }
        let to = start + order[start..sorted].partition_point(|p| *p < position);
        if to < sorted {
            entries[to - start..=sorted - start].rotate_right(1);
            order.copy_within(to..sorted, to + 1);
        }
        order[to] = position;
        sorted += 1;
    }
    order.truncate(sorted);
}

fn rearrange_many(entries: &mut Vec<(Name, Value)>, order: &mut Vec<u16>, start: usize) {
    let mut keyed: Vec<(u16, (Name, Value))> =
        order.drain(start..).zip(entries.drain(..)).filter(|(at, _)| *at != GONE).collect();
    keyed.sort_by_key(|(at, _)| at & !OMITTED);
    let mut keyed = keyed.into_iter().peekable();
    while let Some((at, entry)) = keyed.next() {
        let again = keyed.peek().is_some_and(|(later, _)| later & !OMITTED == at & !OMITTED);
        if !again && at & OMITTED == 0 {
            order.push(at);
            entries.push(entry);
        }
    }
}

/// The fields met so far: a bit each, so that a document repeating one name a million times costs no more than another.
#[derive(Default)]
struct Seen {
    low: u128,
    high: Vec<u128>,
}

impl Seen {
    /// True when it was there already.
    fn insert(&mut self, at: usize) -> bool {
        let word = match at / 128 {
            0 => &mut self.low,
            n => {
                if self.high.len() < n {
                    self.high.resize(n, 0);
                }
                &mut self.high[n - 1]
            }
        };
        let bit = 1u128 << (at % 128);
        let seen = *word & bit != 0;
        *word |= bit;
        seen
    }
}
