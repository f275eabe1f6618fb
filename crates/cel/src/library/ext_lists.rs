//! cel-go's own functions of lists: `slice`, `flatten`, `sort`, `sortBy`, `lists.range`, `reverse`, `distinct`.
//!
//! `sortBy` is a macro; what it expands to calls `@sortByAssociatedKeys`.

mod cost;
mod sort;

use crate::environment::Feature;
use crate::error::Error;
use crate::function::{Function, Overload};
use crate::library::Library;
use crate::library::arguments::{MAX_COMPARISONS, MAX_ELEMENTS, int, list, unaffordable};
use crate::library::lists::comparable;
use crate::ops;
use crate::types::Type;
use crate::value::{List, Val};

/// More than this costs more than an expression may: the cost is the length.
const MAX_RANGE: i64 = 1_000_000;

pub fn library() -> Library {
    let items = || Type::list(Type::param("T"));
    let anything = || Type::list(Type::Dyn);
    let functions = vec![
        Function::new(
            "slice",
            [Overload::member("list_slice", [items(), Type::Int, Type::Int], items(), slice)
                .cost(cost::SLICE)],
        ),
        Function::new(
            "flatten",
            [
                Overload::member("list_flatten", [Type::list(items())], items(), flatten).cost(cost::FLATTEN),
                Overload::member("list_flatten_int", [anything(), Type::Int], anything(), flatten_to_depth)
                    .cost(cost::FLATTEN),
            ],
        )
        // A list that is flat already is taken, too.
        .unguarded(),
        Function::new("sort", {
            let overload = |id, item: Type, cost| {
                Overload::declared(id, true, [Type::list(item.clone())], Type::list(item)).cost(cost)
            };
            [
                overload("list_int_sort", Type::Int, cost::SORT),
                overload("list_uint_sort", Type::Uint, cost::SORT),
                overload("list_double_sort", Type::Double, cost::SORT),
                overload("list_bool_sort", Type::Bool, cost::SORT),
                overload("list_google.protobuf.Duration_sort", Type::Duration, cost::SORT),
                overload("list_google.protobuf.Timestamp_sort", Type::Timestamp, cost::SORT),
                overload("list_string_sort", Type::String, cost::SORT_TEXTS),
                overload("list_bytes_sort", Type::Bytes, cost::SORT_TEXTS),
            ]
        })
        .singleton(sort)
        .unguarded(),
        Function::new("@sortByAssociatedKeys", {
            let overload = |id, key: Type, cost| {
                Overload::declared(id, true, [items(), Type::list(key)], items()).cost(cost)
            };
            [
                overload("list_int_sortByAssociatedKeys", Type::Int, cost::SORT_BY),
                overload("list_uint_sortByAssociatedKeys", Type::Uint, cost::SORT_BY),
                overload("list_double_sortByAssociatedKeys", Type::Double, cost::SORT_BY),
                overload("list_bool_sortByAssociatedKeys", Type::Bool, cost::SORT_BY),
                overload("list_google.protobuf.Duration_sortByAssociatedKeys", Type::Duration, cost::SORT_BY),
                overload(
                    "list_google.protobuf.Timestamp_sortByAssociatedKeys",
                    Type::Timestamp,
                    cost::SORT_BY,
                ),
                overload("list_string_sortByAssociatedKeys", Type::String, cost::SORT_BY_TEXTS),
                overload("list_bytes_sortByAssociatedKeys", Type::Bytes, cost::SORT_BY_TEXTS),
            ]
        })
        .singleton(sort_by_keys)
        .unguarded(),
        Function::new(
            "lists.range",
            [Overload::global("lists_range", [Type::Int], Type::list(Type::Int), range).cost(cost::RANGE)],
        ),
        Function::new(
            "reverse",
            [Overload::member("list_reverse", [items()], items(), reverse).cost(cost::REVERSE)],
        ),
        Function::new(
            "distinct",
            [Overload::member("list_distinct", [items()], items(), distinct).cost(cost::DISTINCT)],
        )
        .unguarded(),
    ];
    Library { functions, features: vec![Feature::SortBy], ..Library::default() }
}

fn slice<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (items, start, end) = (list(args, 0)?, int(args, 1)?, int(args, 2)?);
    let wrong = |why: String| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return wrong(String::from("negative indexes not supported"));
    };
    if from > to {
        return wrong(String::from("start index must be less than or equal to end index"));
    }
    if to > items.len() {
        return wrong(format!("list is length {}", items.len()));
    }
    let part: Result<Vec<_>, _> = (from..to).filter_map(|at| items.get(at)).collect();
    part.map(Val::list)
}

fn flatten<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let Some(items) = args[0].as_list() else {
        return Err(Error::new(format!("no such overload: {}.flatten()", args[0].ty())));
    };
    flattened(items, 1)
}

fn flatten_to_depth<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let Some(depth) = args[1].as_int() else {
        // Upstream finds out while it counts the cost of the call, and panics.
        let ty = go_type(&args[1]);
        return Err(Error::internal(format_args!("interface conversion: ref.Val is {ty}, not types.Int")));
    };
    let Some(items) = args[0].as_list() else {
        return Err(Error::new(format!("no such overload: {}.flatten(int)", args[0].ty())));
    };
    match u64::try_from(depth) {
        Ok(depth) => flattened(items, depth),
        Err(_) => Err(Error::new("level must be non-negative")),
    }
}

fn flattened<'a>(list: &List<'a>, depth: u64) -> Result<Val<'a>, Error> {
    let mut out = Vec::new();
    flatten_into(list, depth, &mut 0, &mut out)?;
    Ok(Val::list(out))
}

fn flatten_into<'a>(
    list: &List<'a>,
    depth: u64,
    visited: &mut usize,
    out: &mut Vec<Val<'a>>,
) -> Result<(), Error> {
    for item in list.iter() {
        // Differs from kube-apiserver: a list that holds another one twice, and that one twice, and so on, is not followed forever.
        *visited += 1;
        if *visited > MAX_ELEMENTS {
            return Err(Error::cost_limit_exceeded());
        }
        match item? {
            Val::List(inner) if depth > 0 => {
                object::deep(|| flatten_into(&inner, depth - 1, visited, out))?;
            }
            other => out.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::List(items)] => sorted(items, items),
        // Types with methods of their own answer for themselves.
        [Val::Str(_) | Val::Duration(_) | Val::Timestamp(_)] => Err(Error::no_such_overload()),
        _ => Err(Error::new("no such overload: sort")),
    }
}

fn sort_by_keys<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match args {
        [Val::List(items), Val::List(keys)] => sorted(items, keys),
        _ => Err(Error::new("no such overload: @sortByAssociatedKeys")),
    }
}

/// A list in the order of the keys its elements have in another one.
fn sorted<'a>(items: &List<'a>, keys: &List<'a>) -> Result<Val<'a>, Error> {
    if items.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, \
             but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let keys = keys.to_vec()?;
    let Some(first) = keys.first() else { return Ok(Val::List(items.clone())) };
    if !comparable(first) {
        return Err(Error::new("list elements must be comparable"));
    }
    let ty = std::mem::discriminant(first);
    if keys.iter().any(|key| std::mem::discriminant(key) != ty) {
        return Err(Error::new("list elements must have the same type"));
    }
    let sorted: Result<Vec<_>, _> =
        sort::order_of(&keys).into_iter().filter_map(|at| items.get(at)).collect();
    sorted.map(Val::list)
}

fn range<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    match int(args, 0)? {
        length @ ..=MAX_RANGE => Ok(Val::list((0..length).map(Val::Int).collect())),
        _ => Err(unaffordable()),
    }
}

fn reverse<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let mut items = list(args, 0)?.to_vec()?;
    items.reverse();
    Ok(Val::list(items))
}

fn distinct<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let Some(items) = args[0].as_list() else {
        // Upstream finds out while it counts the cost of the call, and panics.
        let missing = if addable(&args[0]) { "Contains" } else { "Add" };
        let ty = go_type(&args[0]);
        return Err(Error::internal(format_args!(
            "interface conversion: {ty} is not traits.Lister: missing method {missing}"
        )));
    };
    if items.is_empty() {
        return Ok(args[0].clone());
    }
    if items.len().saturating_mul(items.len()) > MAX_COMPARISONS {
        return Err(unaffordable());
    }
    let mut distinct: Vec<Val<'a>> = Vec::new();
    for item in items.iter() {
        let item = item?;
        if !distinct.iter().any(|other| matches!(ops::same(&item, other), Ok(true))) {
            distinct.push(item);
        }
    }
    Ok(Val::list(distinct))
}

/// Whether the type has `+`.
fn addable(value: &Val<'_>) -> bool {
    comparable(value) && !matches!(value, Val::Bool(_))
}

/// What upstream's values are in Go.
fn go_type(value: &Val<'_>) -> String {
    let name = match value {
        Val::Null => "types.Null",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::Str(_) => "types.String",
        Val::Bytes(_) => "types.Bytes",
        Val::Duration(_) => "types.Duration",
        Val::Timestamp(_) => "types.Timestamp",
        Val::List(_) => "*types.baseList",
        Val::Map(_) => "*types.baseMap",
        Val::Type(_) => "*types.Type",
        Val::Optional(_) => "*types.Optional",
        Val::Preserved(_) => "*common.unknownPreserved",
        Val::Object(_) => "*dynamic.ObjectVal",
        Val::Opaque(value) => {
            let ty = value.ty();
            return format!("cel.{}", ty.name().rsplit('.').next().unwrap_or_default());
        }
    };
    String::from(name)
}

#[cfg(test)]
mod tests;
