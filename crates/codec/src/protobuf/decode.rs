//! Bytes to tree: equivalent to Go's generated `Unmarshal` followed by a JSON encoding.

mod special;

pub(super) use special::SCHEMA_TYPE;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::{AnyKind, Field, Name, Schema, Shape, StructType, TypeId};
use object::{Map, Value, deep};

use super::envelope::{open, wrong_wire};
use super::wire::{Reader, Wire};
use super::{MAX_DEPTH, ProtobufError};

/// Decodes a body. The envelope's kind is looked up with `find_type`; `default` is the type if the envelope has no kind, or
/// one with the default's name that is not found (`DeleteOptions` is sent in the version of the deleted resource).
/// The tree is what the JSON of the same object would parse to, and still needs `object::normalise`.
pub fn decode(
    schema: &Schema,
    bytes: &[u8],
    find_type: &dyn Fn(&str, &str) -> Option<TypeId>,
    default: Option<TypeId>,
) -> std::result::Result<Value, ProtobufError> {
    Decoder { schema, find_type, depth: 0 }.body(bytes, default).map_err(|e| *e)
}

/// Decodes a message without an envelope.
pub fn decode_message(
    schema: &Schema,
    ty: TypeId,
    bytes: &[u8],
) -> std::result::Result<Value, ProtobufError> {
    let mut decoder = Decoder { schema, find_type: &|_, _| None, depth: 0 };
    decoder.structure(ty, bytes).map(Value::Map).map_err(|e| *e)
}

/// Errors are boxed, so that the stack frames of a deep message are small.
type Result<T> = std::result::Result<T, Box<ProtobufError>>;

struct Decoder<'s> {
    schema: &'s Schema,
    /// For nested bodies: a `RawExtension` may contain one.
    find_type: &'s dyn Fn(&str, &str) -> Option<TypeId>,
    depth: u32,
}

/// The meaning of a field number in a message.
enum Meaning<'s> {
    Field(usize, &'s Field),
    /// An embedded message: its fields are members of the same struct. Holds the way to it.
    Embedded(&'s [u32]),
}

impl<'s> Decoder<'s> {
    #[inline(never)]
    fn body(&mut self, bytes: &[u8], default: Option<TypeId>) -> Result<Value> {
        let sealed = open(bytes)?;
        let by_default = || default.filter(|ty| self.schema.get(*ty).short == *sealed.kind);
        let ty = if sealed.kind.is_empty() {
            default.ok_or(ProtobufError::NoKind)?
        } else {
            (self.find_type)(sealed.api_version, sealed.kind).or_else(by_default).ok_or_else(|| {
                ProtobufError::UnknownKind {
                    api_version: sealed.api_version.to_owned(),
                    kind: sealed.kind.to_owned(),
                }
            })?
        };
        let mut map = Map::default();
        for (name, text) in [("kind", sealed.kind), ("apiVersion", sealed.api_version)] {
            if !text.is_empty() {
                map.push(Name::Static(name), Value::from(text));
            }
        }
        map.entries_mut().append(self.structure(ty, sealed.message)?.entries_mut());
        Ok(Value::Map(map))
    }

    fn structure(&mut self, ty: TypeId, bytes: &[u8]) -> Result<Map> {
        self.descend()?;
        let mut map = Map::default();
        let mut seen = 0;
        deep(|| self.members(self.schema.get(ty), &[], bytes, &mut map, &mut seen))?;
        self.depth -= 1;
        Ok(map)
    }

    /// Every descent is followed by `depth -= 1`, except on failure, when decoding ends.
    fn descend(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(ProtobufError::TooDeep.into());
        }
        self.depth += 1;
        Ok(())
    }

    /// Decodes the fields at `path` into `map`. `seen` has a bit for each of the struct's first fields.
    #[inline(never)]
    fn members(
        &mut self,
        ty: &'s StructType,
        path: &[u32],
        bytes: &[u8],
        map: &mut Map,
        seen: &mut u128,
    ) -> Result<()> {
        let mut reader = Reader::new(bytes);
        let mut near = 0;
        while let Some((number, wire)) = reader.tag()? {
            match meaning(ty, path, number, near) {
                None => reader.skip(wire)?,
                Some(Meaning::Field(at, field)) => {
                    near = at;
                    self.member(at, field, &mut reader, wire, map, seen)?;
                }
                Some(Meaning::Embedded(within)) => {
                    if wire != Wire::Length {
                        return Err(wrong_wire(wire, &ty.short).into());
                    }
                    self.members(ty, within, reader.bytes()?, map, seen)?;
                    if let Some(wrapped) = wrapped_list(ty, within)
                        && !map.contains(&wrapped.name)
                    {
                        map.push(wrapped.name.clone(), Value::List(Vec::new()));
                    }
                }
            }
        }
        Ok(())
    }

    fn member(
        &mut self,
        at: usize,
        field: &Field,
        reader: &mut Reader<'_>,
        wire: Wire,
        map: &mut Map,
        seen: &mut u128,
    ) -> Result<()> {
        match &field.shape {
            Shape::List(inner) => {
                let Value::List(items) = repeated(map, field, || Value::List(Vec::new())) else {
                    return Ok(());
                };
                if wire == Wire::Length && is_packable(inner) {
                    let mut packed = Reader::new(reader.bytes()?);
                    while !packed.is_empty() {
                        items.push(number(inner, field, &mut packed)?);
                    }
                    return Ok(());
                }
                items.push(self.value(inner, field, reader, wire)?);
            }
            Shape::Map(inner) => {
                if wire != Wire::Length {
                    return Err(wrong_wire(wire, &field.name).into());
                }
                let (key, value) = self.entry(inner, field, reader.bytes()?)?;
                if let Value::Map(entries) = repeated(map, field, Value::map) {
                    entries.push(key, value);
                }
            }
            shape => {
                let value = self.value(shape, field, reader, wire)?;
                // Never sent by Go; the last one wins.
                let again = match 1u128.checked_shl(at as u32) {
                    Some(bit) => std::mem::replace(seen, *seen | bit) & bit != 0,
                    None => map.contains(&field.name),
                };
                match (again, is_omitted(field, &value)) {
                    (true, true) => drop(map.remove(&field.name)),
                    (true, false) => map.set(field.name.clone(), value),
                    (false, true) => {}
                    (false, false) => map.push(field.name.clone(), value),
                }
            }
        }
        Ok(())
    }

    /// One value of a field: itself, an element of its list, or a value of its map.
    fn value(&mut self, shape: &Shape, field: &Field, reader: &mut Reader<'_>, wire: Wire) -> Result<Value> {
        if let (Shape::Struct(id), Wire::Length) = (shape, wire) {
            return self.structure(*id, reader.bytes()?).map(Value::Map);
        }
        self.other_value(shape, field, reader, wire)
    }

    /// Separate from [`Self::value`] to keep its stack frame small: nearly all nesting is by structs.
    #[inline(never)]
    fn other_value(
        &mut self,
        shape: &Shape,
        field: &Field,
        reader: &mut Reader<'_>,
        wire: Wire,
    ) -> Result<Value> {
        let expected = match shape {
            Shape::Bool | Shape::Int32 | Shape::Int64 => Wire::Varint,
            Shape::Float64 => Wire::Fixed64,
            _ => Wire::Length,
        };
        if wire != expected {
            return Err(wrong_wire(wire, &field.name).into());
        }
        if is_packable(shape) {
            return number(shape, field, reader);
        }
        let bytes = reader.bytes()?;
        Ok(match shape {
            Shape::String => Value::Str(text(bytes)),
            Shape::Bytes => Value::Str(STANDARD.encode(bytes)),
            Shape::Any => self.any(field.any, &field.name, bytes)?,
            Shape::List(inner) => self.list_message(inner, field, bytes)?,
            _ => special::leaf(shape, bytes)?,
        })
    }

    /// A map entry. Go fills in a missing key or value.
    #[inline(never)]
    fn entry(&mut self, inner: &Shape, field: &Field, bytes: &[u8]) -> Result<(Name, Value)> {
        self.descend()?;
        let mut reader = Reader::new(bytes);
        let mut key = String::new();
        let mut value = None;
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 if wire == Wire::Length => key = text(reader.bytes()?),
                1 => return Err(wrong_wire(wire, &field.name).into()),
                2 => value = Some(self.value(inner, field, &mut reader, wire)?),
                _ => reader.skip(wire)?,
            }
        }
        self.depth -= 1;
        let value = match value {
            Some(value) => value,
            None => match inner {
                Shape::Struct(_) => Value::map(),
                Shape::String | Shape::Bytes => Value::from(""),
                Shape::List(_) => Value::List(Vec::new()),
                // Null is the zero of its type to `normalise`.
                _ => Value::Null,
            },
        };
        Ok((Name::from(key), value))
    }

    /// A map value that is a list: protobuf has no such type, so a message wraps it in field 1.
    #[inline(never)]
    fn list_message(&mut self, inner: &Shape, field: &Field, bytes: &[u8]) -> Result<Value> {
        let mut reader = Reader::new(bytes);
        let mut items = Vec::new();
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 => items.push(self.value(inner, field, &mut reader, wire)?),
                _ => reader.skip(wire)?,
            }
        }
        Ok(Value::List(items))
    }

    #[inline(never)]
    fn any(&mut self, kind: AnyKind, name: &Name, bytes: &[u8]) -> Result<Value> {
        match kind {
            AnyKind::Raw | AnyKind::Fields | AnyKind::Json => {
                let raw = special::raw(bytes, name)?;
                if kind == AnyKind::Raw && raw.starts_with(super::MAGIC) {
                    self.descend()?;
                    let object = self.body(raw, None)?;
                    self.depth -= 1;
                    return Ok(object);
                }
                self.json(raw, name)
            }
            AnyKind::SchemaOrArray | AnyKind::SchemaOrBool | AnyKind::SchemaOrStrings => {
                self.schema_or(kind, name, bytes)
            }
        }
    }
}

/// Starts at the field found last: Go writes fields in order.
#[inline(never)]
fn meaning<'s>(ty: &'s StructType, path: &[u32], number: u32, near: usize) -> Option<Meaning<'s>> {
    let (before, after) = ty.fields.split_at(near.min(ty.fields.len()));
    let after = after.iter().enumerate().map(|(i, f)| (near + i, f));
    after.chain(before.iter().enumerate()).find_map(|(at, field)| {
        let deeper = field.within.strip_prefix(path)?;
        match deeper.first() {
            None if field.number == number => Some(Meaning::Field(at, field)),
            Some(outer) if *outer == number => Some(Meaning::Embedded(&field.within[..=path.len()])),
            _ => None,
        }
    })
}

/// A list that has a message of its own, so that empty and absent differ (`APIResource.verbs`): the only embedded
/// field that JSON writes even when empty and that is no value.
pub(super) fn wrapped_list<'s>(ty: &'s StructType, within: &[u32]) -> Option<&'s Field> {
    let mut fields = ty.fields.iter().filter(|f| f.within.starts_with(within));
    let only = fields.next().filter(|f| matches!(f.shape, Shape::List(_)) && !f.omit_empty)?;
    fields.next().is_none().then_some(only)
}

/// The list or map of a repeated field, nearly always the last entry.
fn repeated<'m>(map: &'m mut Map, field: &Field, empty: impl FnOnce() -> Value) -> &'m mut Value {
    let entries = map.entries_mut();
    let at = match entries.iter().rposition(|(name, _)| *name == field.name) {
        Some(at) => at,
        None => {
            entries.push((field.name.clone(), empty()));
            entries.len() - 1
        }
    };
    &mut entries[at].1
}

/// Zeros that Go's JSON omits although protobuf has them. `normalise` would drop them too, but not inside an `Any`.
fn is_omitted(field: &Field, value: &Value) -> bool {
    field.omit_empty
        && !field.pointer
        && match &field.shape {
            Shape::String | Shape::Bytes => value.as_str() == Some(""),
            Shape::Bool => *value == Value::Bool(false),
            Shape::Int32 | Shape::Int64 => *value == Value::Int(0),
            Shape::Float64 => *value == Value::Float(0.0),
            _ => false,
        }
}

fn is_packable(shape: &Shape) -> bool {
    matches!(shape, Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64)
}

#[inline(never)]
fn number(shape: &Shape, field: &Field, reader: &mut Reader<'_>) -> Result<Value> {
    Ok(match shape {
        Shape::Bool => Value::Bool(reader.varint()? != 0),
        Shape::Int32 => Value::Int(i64::from(reader.varint()? as i32)),
        Shape::Float64 => {
            let float = f64::from_bits(reader.fixed64()?);
            if !float.is_finite() {
                return Err(ProtobufError::NotFinite(field.name.to_string()).into());
            }
            Value::Float(float)
        }
        _ => Value::Int(reader.varint()? as i64),
    })
}

/// Go's strings may hold any bytes, and its JSON writes U+FFFD for invalid UTF-8.
#[inline(never)]
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
