//! Kubernetes' own functions of lists: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`.

use std::cmp::Ordering;

use crate::error::Error;
use crate::function::{Function, Overload};
use crate::library::Library;
use crate::library::arguments::list;
use crate::library::costs::RECEIVER_READ;
use crate::ops;
use crate::types::Type;
use crate::value::Val;

pub fn library() -> Library {
    let any = || Type::param("A");
    let functions = vec![
        Function::new("isSorted", {
            let overload = |id, item| Overload::member(id, [Type::list(item)], Type::Bool, is_sorted);
            [
                overload("list_int_is_sorted_bool", Type::Int),
                overload("list_uint_is_sorted_bool", Type::Uint),
                overload("list_double_is_sorted_bool", Type::Double),
                overload("list_bool_is_sorted_bool", Type::Bool),
                overload("list_duration_is_sorted_bool", Type::Duration),
                overload("list_timestamp_is_sorted_bool", Type::Timestamp),
                overload("list_string_is_sorted_bool", Type::String),
                overload("list_bytes_is_sorted_bool", Type::Bytes),
            ]
        }),
        Function::new(
            "sum",
            [
                Overload::member("list_int_sum_int", [Type::list(Type::Int)], Type::Int, |args| {
                    sum(args, Val::Int(0))
                }),
                Overload::member("list_uint_sum_uint", [Type::list(Type::Uint)], Type::Uint, |args| {
                    sum(args, Val::Uint(0))
                }),
                Overload::member(
                    "list_double_sum_double",
                    [Type::list(Type::Double)],
                    Type::Double,
                    |args| sum(args, Val::Double(0.0)),
                ),
                Overload::member(
                    "list_duration_sum_duration",
                    [Type::list(Type::Duration)],
                    Type::Duration,
                    |args| sum(args, Val::Duration(0)),
                ),
            ],
        ),
        Function::new("max", {
            let overload = |id, item: Type| Overload::member(id, [Type::list(item.clone())], item, max);
            [
                overload("list_int_max_int", Type::Int),
                overload("list_uint_max_uint", Type::Uint),
                overload("list_double_max_double", Type::Double),
                overload("list_bool_max_bool", Type::Bool),
                overload("list_duration_max_duration", Type::Duration),
                overload("list_timestamp_max_timestamp", Type::Timestamp),
                overload("list_string_max_string", Type::String),
                overload("list_bytes_max_bytes", Type::Bytes),
            ]
        }),
        Function::new("min", {
            let overload = |id, item: Type| Overload::member(id, [Type::list(item.clone())], item, min);
            [
                overload("list_int_min_int", Type::Int),
                overload("list_uint_min_uint", Type::Uint),
                overload("list_double_min_double", Type::Double),
                overload("list_bool_min_bool", Type::Bool),
                overload("list_duration_min_duration", Type::Duration),
                overload("list_timestamp_min_timestamp", Type::Timestamp),
                overload("list_string_min_string", Type::String),
                overload("list_bytes_min_bytes", Type::Bytes),
            ]
        }),
        Function::new(
            "indexOf",
            [Overload::member("list_a_index_of_int", [Type::list(any()), any()], Type::Int, index_of)],
        ),
        Function::new(
            "lastIndexOf",
            [Overload::member(
                "list_a_last_index_of_int",
                [Type::list(any()), any()],
                Type::Int,
                last_index_of,
            )],
        ),
    ];
    let functions = functions.into_iter().map(|function| function.cost(RECEIVER_READ)).collect();
    Library { functions, ..Library::default() }
}

/// Whether values of its type have an order.
pub(super) fn comparable(value: &Val<'_>) -> bool {
    matches!(
        value,
        Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Str(_)
            | Val::Bytes(_)
            | Val::Duration(_)
            | Val::Timestamp(_)
    )
}

/// The elements of a list of comparable ones. Two that cannot be compared with each other count as equal.
fn comparables<'a>(args: &[Val<'a>]) -> Result<impl Iterator<Item = Result<Val<'a>, Error>>, Error> {
    Ok(list(args, 0)?.iter().map(|item| {
        let item = item?;
        if comparable(&item) { Ok(item) } else { Err(Error::no_such_overload()) }
    }))
}

/// The order of two values; `None` if they have none.
pub(super) fn order(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    ops::compare("compare", left, right).ok()
}

fn is_sorted<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let mut previous: Option<Val<'_>> = None;
    for item in comparables(args)? {
        let item = item?;
        if previous.is_some_and(|previous| order(&previous, &item) == Some(Ordering::Greater)) {
            return Ok(false.into());
        }
        previous = Some(item);
    }
    Ok(true.into())
}

fn sum<'a>(args: &[Val<'a>], zero: Val<'a>) -> Result<Val<'a>, Error> {
    list(args, 0)?.iter().try_fold(zero, |sum, item| ops::add(&sum, &item?))
}

fn min<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    best(args, Ordering::Greater)?.ok_or_else(|| Error::new("min called on empty list"))
}

fn max<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    best(args, Ordering::Less)?.ok_or_else(|| Error::new("max called on empty list"))
}

/// The element none follows that it compares `worse` to.
fn best<'a>(args: &[Val<'a>], worse: Ordering) -> Result<Option<Val<'a>>, Error> {
    let mut best: Option<Val<'a>> = None;
    for item in comparables(args)? {
        let item = item?;
        if best.as_ref().is_none_or(|best| order(best, &item) == Some(worse)) {
            best = Some(item);
        }
    }
    Ok(best)
}

fn index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    Ok(position(list(args, 0)?.iter().position(|own| is(own, &args[1]))))
}

fn last_index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let items = list(args, 0)?;
    let found = (0..items.len()).rev().find(|&at| items.get(at).is_some_and(|own| is(own, &args[1])));
    Ok(position(found))
}

/// Whether an element is the one looked for; one that cannot be read or compared is not.
fn is(element: Result<Val<'_>, Error>, item: &Val<'_>) -> bool {
    element.is_ok_and(|element| matches!(ops::same(&element, item), Ok(true)))
}

fn position<'a>(found: Option<usize>) -> Val<'a> {
    Val::Int(found.map_or(-1, |at| at as i64))
}

#[cfg(test)]
mod tests;
