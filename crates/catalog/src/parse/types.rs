//! `type` blocks: struct types and their fields.

use super::line::{Line, flag};
use super::{CatalogError, Problem};
use crate::name::NameMap;
use crate::{AnyKind, Field, ListKind, MapKind, Name, PatchRule, Schema, Shape, StructType, TypeId};

/// First pass: takes the type's name and what its opening line says.
pub(super) fn declare(schema: &mut Schema, line: &Line) -> Result<(), CatalogError> {
    let mut words = line.words();
    words.next();
    let name = words.need("name")?;
    // `core.v1.Pod` holds Go's `v1.Pod` and `Pod` as its ends, so all three are slices of the file.
    let Some((short, go_name)) = ends(name) else {
        return Err(line.unexpected(name, "PACKAGE.VERSION.NAME"));
    };
    let mut ty = StructType {
        name: Name::Static(name),
        short: Name::Static(short),
        go_name: Name::Static(go_name),
        fields: Vec::new(),
        gvk: None,
        atomic: false,
        open: false,
        union: None,
        always_written: Vec::new(),
        index: NameMap::default(),
    };
    for word in words {
        match flag(word) {
            ("gvk", Some(v)) => {
                let mut parts = v.split('/');
                let (Some(group), Some(version), Some(kind), None) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                else {
                    return Err(line.unexpected(v, "GROUP/VERSION/KIND"));
                };
                ty.gvk = Some((Name::Static(group), Name::Static(version), Name::Static(kind)));
            }
            ("atomic", None) => ty.atomic = true,
            ("open", None) => ty.open = true,
            ("union", Some(v)) => ty.union = Some(Name::Static(v)),
            _ => return Err(line.unexpected(word, "a flag of a type")),
        }
    }
    let id = schema.next_id();
    if schema.by_name.insert(Name::Static(name), id).is_some() {
        return Err(line.duplicate("type", name));
    }
    schema.types.push(ty);
    Ok(())
}

/// Second pass: the block's type, declared before.
pub(super) fn open(schema: &Schema, line: &Line) -> Result<TypeId, CatalogError> {
    let mut words = line.words();
    words.next();
    let name = words.need("name")?;
    find(schema, line, name, "")
}

/// Reads one field line into its type.
pub(super) fn field(schema: &mut Schema, id: TypeId, line: &Line) -> Result<(), CatalogError> {
    let mut words = line.words();
    let (within, number) = number(line, words.need("protobuf number")?)?;
    let name = words.need("field name")?;
    let package = package(schema.get(id).name.clone());
    let (shape, any) = shape(schema, line, words.need("field type")?, &package)?;
    let mut f = Field {
        name: Name::Static(name),
        number,
        within,
        shape,
        any,
        required: false,
        pointer: false,
        omit_empty: false,
        omit_zero: false,
        by_value: false,
        list: ListKind::None,
        map: MapKind::OfType,
        patch: PatchRule::default(),
        values: Vec::new(),
        default: None,
    };
    for word in words {
        match flag(word) {
            ("required", None) => f.required = true,
            ("ptr", None) => f.pointer = true,
            ("omitempty", None) => f.omit_empty = true,
            ("omitzero", None) => f.omit_zero = true,
            ("value", None) => f.by_value = true,
            ("list", Some("atomic")) => f.list = ListKind::Atomic,
            ("list", Some("set")) => f.list = ListKind::Set,
            ("list", Some(v)) if v.starts_with("map:") => {
                f.list = ListKind::Map(v["map:".len()..].split(',').map(Name::Static).collect());
            }
            ("map", Some("atomic")) => f.map = MapKind::Atomic,
            ("map", Some("granular")) => f.map = MapKind::Granular,
            ("patch", Some(v)) => {
                for strategy in v.split(',') {
                    match strategy {
                        "merge" => f.patch.merge = true,
                        "replace" => f.patch.replace = true,
                        "retainKeys" => f.patch.retain_keys = true,
                        _ => return Err(line.unexpected(strategy, "a patch strategy")),
                    }
                }
            }
            ("key", Some(v)) => f.patch.key = Some(Name::Static(v)),
            ("enum", Some(v)) => f.values = v.split('|').map(value).collect(),
            ("default", Some(v)) => f.default = Some(Name::Static(v)),
            _ => return Err(line.unexpected(word, "a flag of a field")),
        }
    }
    let StructType { fields, always_written, .. } = schema.own_mut(id);
    for other in fields.iter() {
        if other.name == f.name {
            return Err(line.duplicate("field", name));
        }
        if number != 0 && other.number == number && other.within == f.within {
            return Err(line.duplicate("protobuf number", &number.to_string()));
        }
    }
    if fields.len() >= usize::from(u16::MAX) {
        return Err(line.error(Problem::TooMany));
    }
    if f.is_always_written() {
        always_written.push(fields.len() as u16);
    }
    fields.push(f);
    Ok(())
}

/// A value of an enum; `_` stands for a space, which would end the word.
fn value(word: &'static str) -> Name {
    if word.contains('_') { Name::from(word.replace('_', " ")) } else { Name::Static(word) }
}

/// After the last line: indexes the fields of wide types.
pub(super) fn finish(schema: &mut Schema) {
    for ty in &mut schema.types {
        if ty.fields.len() > StructType::SCANNED {
            ty.index = ty.fields.iter().enumerate().map(|(i, f)| (f.name.clone(), i as u16)).collect();
        }
    }
}

/// A type by its full name, or by its last part in `package`.
pub(super) fn find(
    schema: &Schema,
    line: &Line,
    name: &'static str,
    package: &str,
) -> Result<TypeId, CatalogError> {
    let found =
        if name.contains('.') { schema.find(name) } else { schema.find(&format!("{package}.{name}")) };
    found.ok_or_else(|| line.error(Problem::UnknownType(name.to_owned())))
}

fn shape(
    schema: &Schema,
    line: &Line,
    word: &'static str,
    package: &str,
) -> Result<(Shape, AnyKind), CatalogError> {
    if let Some(element) = word.strip_prefix("[]") {
        let (shape, any) = shape(schema, line, element, package)?;
        return Ok((Shape::List(Box::new(shape)), any));
    }
    if let Some(element) = word.strip_prefix("map[string]") {
        let (shape, any) = shape(schema, line, element, package)?;
        return Ok((Shape::Map(Box::new(shape)), any));
    }
    let any = match word {
        "fields-v1" => AnyKind::Fields,
        "json" => AnyKind::Json,
        "schema-or-array" => AnyKind::SchemaOrArray,
        "schema-or-bool" => AnyKind::SchemaOrBool,
        "schema-or-strings" => AnyKind::SchemaOrStrings,
        _ => AnyKind::Raw,
    };
    let shape = match word {
        "string" => Shape::String,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "double" => Shape::Float64,
        "bytes" => Shape::Bytes,
        "time" => Shape::Time,
        "micro-time" => Shape::MicroTime,
        "duration" => Shape::Duration,
        "quantity" => Shape::Quantity,
        "int-or-string" => Shape::IntOrString,
        "any" | "fields-v1" | "json" | "schema-or-array" | "schema-or-bool" | "schema-or-strings" => {
            Shape::Any
        }
        _ => Shape::Struct(find(schema, line, word, package)?),
    };
    Ok((shape, any))
}

/// `2.1` is number 1 within the embedded message 2; `-` is none.
fn number(line: &Line, word: &'static str) -> Result<(Vec<u32>, u32), CatalogError> {
    if word == "-" {
        return Ok((Vec::new(), 0));
    }
    let wrong = || line.unexpected(word, "a protobuf number (`1`, `2.1` or `-`)");
    let parse = |part: &str| part.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(wrong);
    match word.rsplit_once('.') {
        None => Ok((Vec::new(), parse(word)?)),
        Some((outer, last)) => Ok((outer.split('.').map(parse).collect::<Result<_, _>>()?, parse(last)?)),
    }
}

/// `Pod` and `v1.Pod` of `core.v1.Pod`.
fn ends(name: &'static str) -> Option<(&'static str, &'static str)> {
    let (before, short) = name.rsplit_once('.')?;
    let (_, version) = before.rsplit_once('.')?;
    Some((short, &name[name.len() - short.len() - 1 - version.len()..]))
}

/// `core.v1` of `core.v1.Pod`.
fn package(name: Name) -> Name {
    match name {
        Name::Static(s) => Name::Static(s.rsplit_once('.').map_or("", |(package, _)| package)),
        Name::Shared(s) => Name::from(s.rsplit_once('.').map_or("", |(package, _)| package).to_owned()),
    }
}
