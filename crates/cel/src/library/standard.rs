//! The standard library: operators, conversions, strings, sizes. Times are in [`time`](super::time).

use std::cmp::Ordering;

use regexp::{LazyRegexp, Regexp};

use super::{Library, time};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::ops;
use crate::types::Type::{self, Bool, Bytes, Double, Duration, Int, Null, String, Timestamp, Uint};
use crate::value::Val;

pub fn library() -> Library {
    let mut functions = logic();
    functions.extend(arithmetic());
    functions.extend(relations());
    functions.extend(collections());
    functions.extend(conversions());
    functions.extend(strings());
    functions.extend(time::functions());
    let types = [
        Bool,
        Bytes,
        Double,
        Duration,
        Int,
        list_of_a(),
        map_of_ab(),
        Null,
        String,
        Timestamp,
        Type::Type(None),
        Uint,
    ];
    Library { functions, types: types.to_vec(), ..Library::default() }
}

fn a() -> Type {
    Type::param("A")
}
fn list_of_a() -> Type {
    Type::list(a())
}
fn map_of_ab() -> Type {
    Type::map(a(), Type::param("B"))
}
fn global(id: &'static str, parameters: impl Into<Vec<Type>>, result: Type) -> Overload {
    Overload::declared(id, false, parameters, result)
}
fn member(id: &'static str, parameters: impl Into<Vec<Type>>, result: Type) -> Overload {
    Overload::declared(id, true, parameters, result)
}

fn logic() -> Vec<Function> {
    vec![
        // Evaluated by nodes of their own.
        Function::new("_?_:_", [global("conditional", [Bool, a(), a()], a())]),
        Function::new("_&&_", [global("logical_and", [Bool, Bool], Bool)]),
        Function::new("_||_", [global("logical_or", [Bool, Bool], Bool)]),
        Function::new("_==_", [global("equals", [a(), a()], Bool)]),
        Function::new("_!=_", [global("not_equals", [a(), a()], Bool)]),
        Function::new("!_", [global("logical_not", [Bool], Bool)]).singleton(|args| match &args[0] {
            Val::Bool(b) => Ok(Val::Bool(!b)),
            _ => Err(Error::no_such_overload()),
        }),
        Function::new("@not_strictly_false", [global("not_strictly_false", [Bool], Bool)]).singleton(
            |args| match &args[0] {
                Val::Bool(b) => Ok(Val::Bool(*b)),
                _ => Ok(Val::Bool(true)),
            },
        ),
    ]
}

fn arithmetic() -> Vec<Function> {
    vec![
        Function::new(
            "_+_",
            [
                global("add_bytes", [Bytes, Bytes], Bytes),
                global("add_double", [Double, Double], Double),
                global("add_duration_duration", [Duration, Duration], Duration),
                global("add_duration_timestamp", [Duration, Timestamp], Timestamp),
                global("add_timestamp_duration", [Timestamp, Duration], Timestamp),
                global("add_int64", [Int, Int], Int),
                global("add_list", [list_of_a(), list_of_a()], list_of_a()),
                global("add_string", [String, String], String),
                global("add_uint64", [Uint, Uint], Uint),
            ],
        )
        .singleton(|args| ops::add(&args[0], &args[1])),
        Function::new(
            "_/_",
            [
                global("divide_double", [Double, Double], Double),
                global("divide_int64", [Int, Int], Int),
                global("divide_uint64", [Uint, Uint], Uint),
            ],
        )
        .singleton(|args| ops::divide(&args[0], &args[1])),
        Function::new(
            "_%_",
            [global("modulo_int64", [Int, Int], Int), global("modulo_uint64", [Uint, Uint], Uint)],
        )
        .singleton(|args| ops::modulo(&args[0], &args[1])),
        Function::new(
            "_*_",
            [
                global("multiply_double", [Double, Double], Double),
                global("multiply_int64", [Int, Int], Int),
                global("multiply_uint64", [Uint, Uint], Uint),
            ],
        )
        .singleton(|args| ops::multiply(&args[0], &args[1])),
        Function::new("-_", [global("negate_double", [Double], Double), global("negate_int64", [Int], Int)])
            .singleton(|args| ops::negate(&args[0])),
        Function::new(
            "_-_",
            [
                global("subtract_double", [Double, Double], Double),
                global("subtract_duration_duration", [Duration, Duration], Duration),
                global("subtract_int64", [Int, Int], Int),
                global("subtract_timestamp_duration", [Timestamp, Duration], Timestamp),
                global("subtract_timestamp_timestamp", [Timestamp, Timestamp], Duration),
                global("subtract_uint64", [Uint, Uint], Uint),
            ],
        )
        .singleton(|args| ops::subtract(&args[0], &args[1])),
    ]
}

fn relations() -> Vec<Function> {
    macro_rules! relation {
        ($function:literal, $name:literal, $holds:pat) => {
            Function::new(
                $function,
                [
                    global(concat!($name, "_bool"), [Bool, Bool], Bool),
                    global(concat!($name, "_int64"), [Int, Int], Bool),
                    global(concat!($name, "_int64_double"), [Int, Double], Bool),
                    global(concat!($name, "_int64_uint64"), [Int, Uint], Bool),
                    global(concat!($name, "_uint64"), [Uint, Uint], Bool),
                    global(concat!($name, "_uint64_double"), [Uint, Double], Bool),
                    global(concat!($name, "_uint64_int64"), [Uint, Int], Bool),
                    global(concat!($name, "_double"), [Double, Double], Bool),
                    global(concat!($name, "_double_int64"), [Double, Int], Bool),
                    global(concat!($name, "_double_uint64"), [Double, Uint], Bool),
                    global(concat!($name, "_string"), [String, String], Bool),
                    global(concat!($name, "_bytes"), [Bytes, Bytes], Bool),
                    global(concat!($name, "_timestamp"), [Timestamp, Timestamp], Bool),
                    global(concat!($name, "_duration"), [Duration, Duration], Bool),
                ],
            )
            .singleton(|args| {
                ops::compare($function, &args[0], &args[1]).map(|order| Val::Bool(matches!(order, $holds)))
            })
        };
    }
    vec![
        relation!("_<_", "less", Ordering::Less),
        relation!("_<=_", "less_equals", Ordering::Less | Ordering::Equal),
        relation!("_>_", "greater", Ordering::Greater),
        relation!("_>=_", "greater_equals", Ordering::Greater | Ordering::Equal),
    ]
}

fn collections() -> Vec<Function> {
    vec![
        // Evaluated as an attribute.
        Function::new(
            "_[_]",
            [
                global("index_list", [list_of_a(), Int], a()),
                global("index_map", [map_of_ab(), a()], Type::param("B")),
            ],
        ),
        Function::new(
            "@in",
            [global("in_list", [a(), list_of_a()], Bool), global("in_map", [a(), map_of_ab()], Bool)],
        )
        .singleton(|args| ops::contains(&args[1], &args[0]).map(Val::Bool)),
        Function::new(
            "size",
            [
                global("size_bytes", [Bytes], Int),
                member("bytes_size", [Bytes], Int),
                global("size_list", [list_of_a()], Int),
                member("list_size", [list_of_a()], Int),
                global("size_map", [map_of_ab()], Int),
                member("map_size", [map_of_ab()], Int),
                global("size_string", [String], Int),
                member("string_size", [String], Int),
            ],
        )
        .singleton(|args| match &args[0] {
            Val::Str(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_) => {
                Ok(Val::Int(args[0].cost_size() as i64))
            }
            Val::Duration(_) | Val::Timestamp(_) => Err(Error::no_such_overload()),
            _ => Err(Error::new("no such overload: size")),
        }),
    ]
}

fn conversions() -> Vec<Function> {
    fn identity<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
        Ok(args[0].clone())
    }
    macro_rules! conversion {
        ($name:literal, $to:expr, $($id:literal: $from:expr),+) => {{
            let convert: Native = |args| ops::convert(&args[0], &$to);
            Function::new($name, [$(Overload::global(
                $id,
                [$from],
                $to,
                if $from == $to { identity } else { convert },
            )),+])
        }};
    }
    vec![
        Function::new("type", [global("type", [a()], Type::type_of(a()))])
            .singleton(|args| ops::convert(&args[0], &Type::Type(None))),
        Function::new("dyn", [global("to_dyn", [a()], Type::Dyn)]).singleton(identity),
        conversion!("bool", Bool, "bool_to_bool": Bool, "string_to_bool": String),
        conversion!("bytes", Bytes, "bytes_to_bytes": Bytes, "string_to_bytes": String),
        conversion!(
            "double", Double,
            "double_to_double": Double, "int64_to_double": Int, "string_to_double": String, "uint64_to_double": Uint
        ),
        conversion!(
            "duration", Duration,
            "duration_to_duration": Duration, "int64_to_duration": Int, "string_to_duration": String
        ),
        conversion!(
            "int", Int,
            "int64_to_int64": Int, "double_to_int64": Double, "duration_to_int64": Duration,
            "string_to_int64": String, "timestamp_to_int64": Timestamp, "uint64_to_int64": Uint
        ),
        conversion!(
            "string", String,
            "string_to_string": String, "bool_to_string": Bool, "bytes_to_string": Bytes, "double_to_string": Double,
            "duration_to_string": Duration, "int64_to_string": Int, "timestamp_to_string": Timestamp,
            "uint64_to_string": Uint
        ),
        conversion!(
            "timestamp", Timestamp,
            "timestamp_to_timestamp": Timestamp, "int64_to_timestamp": Int, "string_to_timestamp": String
        ),
        conversion!(
            "uint", Uint,
            "uint64_to_uint64": Uint, "double_to_uint64": Double, "int64_to_uint64": Int, "string_to_uint64": String
        ),
    ]
}

fn strings() -> Vec<Function> {
    fn texts<'v>(args: &'v [Val<'_>]) -> Result<(&'v str, &'v str), Error> {
        match (args[0].as_str(), args[1].as_str()) {
            (Some(text), Some(other)) => Ok((text, other)),
            _ => Err(Error::no_such_overload()),
        }
    }
    let test = |name, id, call: Native| {
        Function::new(name, [Overload::member(id, [String, String], Bool, call)]).unguarded()
    };
    vec![
        test("contains", "contains_string", |args| {
            texts(args).map(|(text, part)| Val::Bool(text.contains(part)))
        }),
        test("endsWith", "ends_with_string", |args| {
            texts(args).map(|(text, part)| Val::Bool(text.ends_with(part)))
        }),
        test("startsWith", "starts_with_string", |args| {
            texts(args).map(|(text, part)| Val::Bool(text.starts_with(part)))
        }),
        Function::new(
            "matches",
            [global("matches", [String, String], Bool), member("matches_string", [String, String], Bool)],
        )
        .singleton(|args| match (&args[0], &args[1]) {
            (Val::Str(text), Val::Str(pattern)) => Ok(Val::Bool(Regexp::new(pattern)?.is_match(text))),
            (Val::Str(_) | Val::Duration(_) | Val::Timestamp(_), _) => Err(Error::no_such_overload()),
            _ => Err(Error::new("no such overload: matches")),
        })
        .pattern(1, |text| {
            let pattern = LazyRegexp::new(text)?;
            Ok(std::sync::Arc::new(move |args: &[Val<'_>]| match &args[0] {
                Val::Str(text) => Ok(Val::Bool(pattern.get()?.is_match(text))),
                _ => Err(Error::no_such_overload()),
            }))
        }),
    ]
}
