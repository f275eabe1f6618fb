//! Optional values.

use super::Library;
use crate::environment::Feature;
use crate::error::Error;
use crate::function::{Function, Overload};
use crate::types::Type;
use crate::value::Val;

pub fn library() -> Library {
    let v = || Type::param("V");
    let optional = || Type::optional(v());
    let list = || Type::list(v());
    let map = || Type::map(Type::param("K"), v());
    let key = || Type::param("K");
    let declared = |id, parameters: &[Type], result| Overload::declared(id, false, parameters, result);
    let functions = vec![
        Function::new(
            "optional.of",
            [Overload::global("optional_of", [v()], optional(), |args| Ok(Val::some(args[0].clone())))],
        ),
        Function::new(
            "optional.ofNonZeroValue",
            [Overload::global("optional_ofNonZeroValue", [v()], optional(), |args| {
                Ok(if is_zero(&args[0]) { Val::none() } else { Val::some(args[0].clone()) })
            })],
        ),
        Function::new(
            "optional.none",
            [Overload::global("optional_none", [], optional(), |_| Ok(Val::none()))],
        ),
        Function::new(
            "value",
            [Overload::member("optional_value", [optional()], v(), |args| match &args[0] {
                Val::Optional(Some(value)) => Ok((**value).clone()),
                Val::Optional(None) => Err(Error::new("optional.none() dereference")),
                _ => Err(Error::no_such_overload()),
            })],
        ),
        Function::new(
            "hasValue",
            [Overload::member("optional_hasValue", [optional()], Type::Bool, |args| match &args[0] {
                Val::Optional(value) => Ok(Val::Bool(value.is_some())),
                _ => Err(Error::no_such_overload()),
            })],
        ),
        // Evaluated by nodes of their own.
        Function::new(
            "or",
            [Overload::declared("optional_or_optional", true, [optional(), optional()], optional())],
        ),
        Function::new(
            "orValue",
            [Overload::declared("optional_orValue_value", true, [optional(), v()], v())],
        ),
        Function::new("_?._", [declared("select_optional_field", &[Type::Dyn, Type::String], optional())]),
        Function::new(
            "_[?_]",
            [
                declared("list_optindex_optional_int", &[list(), Type::Int], optional()),
                declared(
                    "optional_list_optindex_optional_int",
                    &[Type::optional(list()), Type::Int],
                    optional(),
                ),
                declared("map_optindex_optional_value", &[map(), key()], optional()),
                declared("optional_map_optindex_optional_value", &[Type::optional(map()), key()], optional()),
            ],
        ),
        Function::new(
            "_[_]",
            [
                declared("optional_list_index_int", &[Type::optional(list()), Type::Int], optional()),
                declared("optional_map_index_value", &[Type::optional(map()), key()], optional()),
            ],
        ),
        Function::new(
            "last",
            [Overload::member("list_last", [list()], optional(), |args| {
                element(&args[0], |len| len.checked_sub(1))
            })],
        ),
        Function::new(
            "first",
            [Overload::member("list_first", [list()], optional(), |args| element(&args[0], |_| Some(0)))],
        ),
        Function::new(
            "optional.unwrap",
            [Overload::global("optional_unwrap", [Type::list(optional())], list(), unwrap)],
        ),
        Function::new(
            "unwrapOpt",
            [Overload::member("optional_unwrapOpt", [Type::list(optional())], list(), unwrap)],
        ),
    ];
    Library {
        functions,
        types: vec![Type::opaque("optional_type", [])],
        features: vec![Feature::OptionalSyntax],
    }
}

fn element<'a>(list: &Val<'a>, index: fn(usize) -> Option<usize>) -> Result<Val<'a>, Error> {
    let list = list.as_list().ok_or_else(Error::no_such_overload)?;
    match index(list.len()).and_then(|index| list.get(index)) {
        Some(value) => value.map(Val::some),
        None => Ok(Val::none()),
    }
}

/// The values of those that have one.
fn unwrap<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let list = args[0].as_list().ok_or_else(Error::no_such_overload)?;
    let mut values = Vec::with_capacity(list.len());
    for item in list.iter() {
        match item? {
            Val::Optional(Some(value)) => values.push((*value).clone()),
            Val::Optional(None) => {}
            other => return Err(Error::new(format!("value {other} is not optional"))),
        }
    }
    Ok(Val::list(values))
}

/// Whether a value is its type's zero. Views of the object have none.
fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(b) => !b,
        Val::Int(i) => *i == 0,
        Val::Uint(u) => *u == 0,
        Val::Double(d) => *d == 0.0,
        Val::Str(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Duration(nanos) => *nanos == 0,
        Val::Timestamp(time) => (time.seconds, time.nanos) == (object::time::ZERO_SECONDS, 0),
        Val::List(list) => list.kind().is_none() && list.is_empty(),
        Val::Map(map) => !matches!(map, crate::value::Map::View { schema: Some(_), .. }) && map.is_empty(),
        Val::Opaque(value) => value.is_zero().unwrap_or(false),
        Val::Object(object) => object.fields.is_empty(),
        Val::Type(_) | Val::Optional(_) | Val::Preserved(_) => false,
    }
}
