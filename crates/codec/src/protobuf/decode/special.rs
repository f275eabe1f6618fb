//! Types with a special encoding: times, durations, quantities, IntOrString, raw JSON, JSONSchemaPropsOr*.

use catalog::{AnyKind, Name, Shape};
use object::{Value, time};

use super::{Decoder, Result, text};
use crate::json;
use crate::protobuf::envelope::wrong_wire;
use crate::protobuf::wire::{Reader, Wire};
use crate::protobuf::{MAX_DEPTH, ProtobufError};

/// What CRD schemas are made of.
pub(in crate::protobuf) const SCHEMA_TYPE: &str = "apiextensions.v1.JSONSchemaProps";

/// A value that has no members in JSON, but is a message.
#[inline(never)]
pub(super) fn leaf(shape: &Shape, bytes: &[u8]) -> Result<Value> {
    // Three fields are the most any of them has.
    let mut numbers = [0i64; 3];
    let mut string = "";
    let mut owned = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        let is_text = matches!((shape, number), (Shape::Quantity, 1) | (Shape::IntOrString, 3));
        let is_number = match shape {
            Shape::Time | Shape::MicroTime | Shape::IntOrString => number <= 2,
            Shape::Duration => number == 1,
            _ => false,
        };
        match wire {
            Wire::Length if is_text => match std::str::from_utf8(reader.bytes()?) {
                Ok(valid) => string = valid,
                Err(_) => owned = "\u{fffd}".to_owned(),
            },
            Wire::Varint if is_number => numbers[number as usize] = reader.varint()? as i64,
            wire if is_text || is_number => return Err(wrong_wire(wire, type_name(shape)).into()),
            wire => reader.skip(wire)?,
        }
    }
    if !owned.is_empty() {
        string = &owned;
    }
    let [_, first, second] = numbers;
    Ok(match shape {
        // Nothing on the wire is the zero time, which is null in JSON.
        Shape::Time | Shape::MicroTime if bytes.is_empty() => Value::Null,
        Shape::Time => Value::Str(time::format_seconds(first)),
        Shape::MicroTime => {
            let nanos = i64::from(second as i32) / 1_000 * 1_000;
            let seconds = first.saturating_add(nanos.div_euclid(1_000_000_000));
            Value::Str(time::format_micros(seconds, nanos.rem_euclid(1_000_000_000) as u32))
        }
        Shape::Duration => Value::Str(time::format_duration(first)),
        Shape::Quantity if bytes.is_empty() => Value::from("0"),
        Shape::Quantity => Value::from(string),
        // Its type, then the number, then the string: the type says which of them counts.
        Shape::IntOrString => match first {
            0 => Value::Int(i64::from(second as i32)),
            1 => Value::from(string),
            other => return Err(ProtobufError::IntOrString(other).into()),
        },
        _ => Value::Null,
    })
}

/// The bytes of `RawExtension`, `FieldsV1` or `JSON`.
#[inline(never)]
pub(super) fn raw<'b>(bytes: &'b [u8], name: &Name) -> Result<&'b [u8]> {
    let mut raw: &[u8] = b"";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, Wire::Length) => raw = reader.bytes()?,
            (1, wire) => return Err(wrong_wire(wire, name).into()),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(raw)
}

impl Decoder<'_> {
    #[inline(never)]
    pub(super) fn json(&mut self, raw: &[u8], name: &Name) -> Result<Value> {
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        // The JSON reader has its own limit, but the object is one.
        if self.depth + json_depth(raw) > MAX_DEPTH {
            return Err(ProtobufError::TooDeep.into());
        }
        json::parse(raw, None)
            .map_err(|source| ProtobufError::Json { field: name.to_string(), source }.into())
    }

    /// A schema, or one of its alternatives (a bool, a list).
    #[inline(never)]
    pub(super) fn schema_or(&mut self, kind: AnyKind, name: &Name, bytes: &[u8]) -> Result<Value> {
        self.descend()?;
        let schema_number = if kind == AnyKind::SchemaOrBool { 2 } else { 1 };
        let mut schema = None;
        let mut items = Vec::new();
        let mut allows = false;
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, Wire::Varint) if kind == AnyKind::SchemaOrBool => allows = reader.varint()? != 0,
                (n, Wire::Length) if n == schema_number => schema = self.json_schema(reader.bytes()?)?,
                (2, Wire::Length) if kind == AnyKind::SchemaOrArray => {
                    items.extend(self.json_schema(reader.bytes()?)?);
                }
                (2, Wire::Length) => items.push(Value::Str(text(reader.bytes()?))),
                (1 | 2, wire) => return Err(wrong_wire(wire, name).into()),
                (_, wire) => reader.skip(wire)?,
            }
        }
        self.depth -= 1;
        // Which one wins when both came is Go's choice, and differs by type.
        Ok(match (kind, schema) {
            (AnyKind::SchemaOrBool, Some(schema)) => schema,
            (AnyKind::SchemaOrBool, None) => Value::Bool(allows),
            (_, _) if !items.is_empty() => Value::List(items),
            (_, schema) => schema.unwrap_or(Value::Null),
        })
    }

    fn json_schema(&mut self, bytes: &[u8]) -> Result<Option<Value>> {
        // Without this type no field of the schema leads here.
        let Some(ty) = self.schema.find(SCHEMA_TYPE) else { return Ok(None) };
        self.structure(ty, bytes).map(|map| Some(Value::Map(map)))
    }
}

/// How deep the brackets nest.
fn json_depth(raw: &[u8]) -> u32 {
    let (mut depth, mut deepest) = (0u32, 0);
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth = depth.saturating_add(1);
                deepest = depth.max(deepest);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    // Far above any limit, so that adding to it is safe.
    deepest.min(u32::MAX / 2)
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

fn type_name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Time | Shape::MicroTime => "Timestamp",
        Shape::Duration => "Duration",
        Shape::Quantity => "Quantity",
        _ => "IntOrString",
    }
}
