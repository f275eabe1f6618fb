//! Tree to bytes: the same bytes as Go's generated `Marshal`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::{AnyKind, Field, Name, Schema, Shape, StructType, TypeId};
use object::{Map, Value, deep, time};

use super::decode::{SCHEMA_TYPE, wrapped_list};
use super::envelope::seal;
use super::wire::{Wire, close, open, put_bytes, put_tag, put_varint};
use crate::json;

/// Appends a body: the canonical `value` of type `ty` in its envelope. Equal values give equal bytes. A value that does not match
/// its type is written as zero: canonical values always match, except in the schemas of a CRD.
pub fn encode(schema: &Schema, ty: TypeId, api_version: &str, kind: &str, value: &Value, out: &mut Vec<u8>) {
    seal(api_version, kind, out, |out| encode_message(schema, ty, value, out));
}

/// Appends the message without an envelope: a list item, its metadata.
pub fn encode_message(schema: &Schema, ty: TypeId, value: &Value, out: &mut Vec<u8>) {
    Encoder { schema, out }.members(schema.get(ty), value.as_map(), &[]);
}

struct Encoder<'s, 'o> {
    schema: &'s Schema,
    out: &'o mut Vec<u8>,
}

impl Encoder<'_, '_> {
    /// Writes the fields at `path`, by ascending number. Without a map all of them are zero.
    fn members(&mut self, ty: &StructType, map: Option<&Map>, path: &[u32]) {
        let mut last = 0;
        let mut near = 0;
        while let Some((number, at)) = next_number(ty, path, last, near) {
            (last, near) = (number, at);
            let field = &ty.fields[at];
            if field.within.len() == path.len() {
                self.member(field, map.and_then(|m| m.get(&field.name)));
                continue;
            }
            let within = &field.within[..=path.len()];
            let absent = |f: &Field| map.and_then(|m| m.get(&f.name)).is_none_or(Value::is_null);
            if wrapped_list(ty, within).is_some_and(absent) {
                continue;
            }
            let start = open(self.out, number);
            self.members(ty, map, within);
            close(self.out, start);
        }
    }

    fn member(&mut self, field: &Field, value: Option<&Value>) {
        let value = value.filter(|v| !v.is_null());
        match &field.shape {
            Shape::List(inner) => {
                for item in value.and_then(Value::as_list).unwrap_or_default() {
                    self.value(field.number, inner, field.any, Some(item));
                }
            }
            Shape::Map(inner) => {
                if let Some(map) = value.and_then(Value::as_map) {
                    self.map(field, inner, map);
                }
            }
            // A nil slice is not on the wire, an empty one is.
            Shape::Bytes if value.is_none() => {}
            _ if field.pointer && value.is_none() => {}
            shape => self.value(field.number, shape, field.any, value),
        }
    }

    fn map(&mut self, field: &Field, inner: &Shape, map: &Map) {
        let mut entries: Vec<(&Name, &Value)> = map.iter().collect();
        // Canonical maps are sorted; those inside a CRD's schemas are as they came.
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            entries.sort_by_key(|(name, _)| *name);
        }
        for (key, value) in entries {
            let start = open(self.out, field.number);
            put_bytes(self.out, 1, key.as_bytes());
            if *inner != Shape::Bytes || !value.is_null() {
                self.value(2, inner, field.any, Some(value));
            }
            close(self.out, start);
        }
    }

    /// One tagged value; the zero of its type when it is absent or null.
    fn value(&mut self, number: u32, shape: &Shape, any: AnyKind, value: Option<&Value>) {
        match shape {
            Shape::Bool => {
                put_tag(self.out, number, Wire::Varint);
                self.out.push(u8::from(value.and_then(Value::as_bool).unwrap_or_default()));
            }
            Shape::Int32 | Shape::Int64 => {
                put_tag(self.out, number, Wire::Varint);
                put_varint(self.out, value.and_then(Value::as_int).unwrap_or_default() as u64);
            }
            Shape::Float64 => {
                put_tag(self.out, number, Wire::Fixed64);
                self.out.extend_from_slice(&float(value).to_le_bytes());
            }
            Shape::String => put_bytes(self.out, number, text(value).as_bytes()),
            Shape::Bytes => {
                put_bytes(self.out, number, &STANDARD.decode(text(value)).unwrap_or_default());
            }
            _ => {
                let start = open(self.out, number);
                deep(|| self.message(shape, any, value));
                close(self.out, start);
            }
        }
    }

    fn message(&mut self, shape: &Shape, any: AnyKind, value: Option<&Value>) {
        match shape {
            Shape::Struct(id) => {
                let ty = self.schema.get(*id);
                self.members(ty, value.and_then(Value::as_map), &[]);
            }
            // The value of a map of lists.
            Shape::List(inner) => {
                for item in value.and_then(Value::as_list).unwrap_or_default() {
                    self.value(1, inner, any, Some(item));
                }
            }
            Shape::Time | Shape::MicroTime => {
                // The zero time is an empty message.
                if let Some((seconds, nanos)) = value.and_then(Value::as_str).and_then(time::parse) {
                    let nanos = if *shape == Shape::Time { 0 } else { nanos / 1_000 * 1_000 };
                    self.varint(1, seconds as u64);
                    self.varint(2, u64::from(nanos));
                }
            }
            Shape::Duration => {
                self.varint(1, time::parse_duration(text(value)).unwrap_or_default() as u64);
            }
            Shape::Quantity => {
                put_bytes(self.out, 1, value.and_then(Value::as_str).unwrap_or("0").as_bytes());
            }
            Shape::IntOrString => {
                let string = value.and_then(Value::as_str);
                self.varint(1, u64::from(string.is_some()));
                self.varint(2, value.and_then(Value::as_int).unwrap_or_default() as u64);
                put_bytes(self.out, 3, string.unwrap_or_default().as_bytes());
            }
            Shape::Any => self.any(any, value),
            // Scalars are written by `value`, and no map holds maps.
            _ => {}
        }
    }

    fn any(&mut self, kind: AnyKind, value: Option<&Value>) {
        let Some(value) = value else { return self.no_schema(kind, false) };
        match (kind, value) {
            (AnyKind::Raw | AnyKind::Fields | AnyKind::Json, Value::Null) => {}
            (AnyKind::Raw | AnyKind::Fields | AnyKind::Json, value) => {
                let start = open(self.out, 1);
                json::write(value, self.out);
                close(self.out, start);
            }
            (AnyKind::SchemaOrBool, Value::Map(_)) => {
                // Go says true beside every schema.
                self.varint(1, 1);
                self.json_schema(2, value);
            }
            (_, Value::Map(_)) => self.json_schema(1, value),
            (AnyKind::SchemaOrArray, Value::List(items)) => {
                for item in items {
                    self.json_schema(2, item);
                }
            }
            (AnyKind::SchemaOrStrings, Value::List(items)) => {
                for item in items {
                    put_bytes(self.out, 2, text(Some(item)).as_bytes());
                }
            }
            (kind, other) => self.no_schema(kind, other.as_bool().unwrap_or_default()),
        }
    }

    /// Neither schema nor list: only the bool is always written.
    fn no_schema(&mut self, kind: AnyKind, allows: bool) {
        if kind == AnyKind::SchemaOrBool {
            self.varint(1, u64::from(allows));
        }
    }

    fn json_schema(&mut self, number: u32, value: &Value) {
        if let Some(ty) = self.schema.find(SCHEMA_TYPE) {
            self.value(number, &Shape::Struct(ty), AnyKind::Raw, Some(value));
        }
    }

    fn varint(&mut self, number: u32, value: u64) {
        put_tag(self.out, number, Wire::Varint);
        put_varint(self.out, value);
    }
}

/// The smallest number above `last` at `path`, and a field that has it. Numbers mostly ascend with the fields, so the
/// search begins at the field found last and ends with the first that cannot be beaten.
fn next_number(ty: &StructType, path: &[u32], last: u32, near: usize) -> Option<(u32, usize)> {
    let mut best: Option<(u32, usize)> = None;
    let count = ty.fields.len();
    for at in (near..count).chain(0..near) {
        let field = &ty.fields[at];
        let Some(deeper) = field.within.strip_prefix(path) else { continue };
        let number = deeper.first().copied().unwrap_or(field.number);
        if number <= last || best.is_some_and(|(n, _)| n <= number) {
            continue;
        }
        if number == last + 1 {
            return Some((number, at));
        }
        best = Some((number, at));
    }
    best
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn float(value: Option<&Value>) -> f64 {
    match value {
        Some(Value::Float(f)) => *f,
        Some(Value::Int(i)) => *i as f64,
        _ => 0.0,
    }
}
