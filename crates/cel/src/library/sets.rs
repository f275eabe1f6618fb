//! `sets.contains`, `sets.equivalent`, `sets.intersects`: lists taken as sets.

use crate::cost::{ActualCall, CallEstimate, Cost, EstimatedCall, Range};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::library::Library;
use crate::library::arguments::{MAX_COMPARISONS, list};
use crate::ops;
use crate::types::Type;
use crate::value::Val;

const ONCE: Cost = Cost { actual: |call| actual(call, 1), estimate: |call| estimate(call, 1.0) };
/// Each list is searched for the elements of the other one.
const TWICE: Cost = Cost { actual: |call| actual(call, 2), estimate: |call| estimate(call, 2.0) };

pub fn library() -> Library {
    let lists = || [Type::list(Type::param("T")), Type::list(Type::param("T"))];
    let function = |name, id, call: Native, cost| {
        Function::new(name, [Overload::global(id, lists(), Type::Bool, call).cost(cost)])
    };
    let functions = vec![
        function("sets.contains", "list_sets_contains_list", contains, ONCE),
        function("sets.equivalent", "list_sets_equivalent_list", equivalent, TWICE),
        function("sets.intersects", "list_sets_intersects_list", intersects, ONCE),
    ];
    Library { functions, ..Library::default() }
}

fn contains<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    affordable(args)?;
    contains_all(args, 0, 1).map(Val::Bool)
}

fn equivalent<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    affordable(args)?;
    Ok((contains_all(args, 0, 1)? && contains_all(args, 1, 0)?).into())
}

fn intersects<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    affordable(args)?;
    let (left, right) = (list(args, 0)?, &args[1]);
    Ok(left.iter().any(|item| item.is_ok_and(|item| matches!(ops::contains(right, &item), Ok(true)))).into())
}

/// Whether one of the lists contains all elements of the other.
fn contains_all(args: &[Val<'_>], container: usize, items: usize) -> Result<bool, Error> {
    for item in list(args, items)?.iter() {
        if !ops::contains(&args[container], &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The cost is known before the work is done, but counted after it.
fn affordable(args: &[Val<'_>]) -> Result<(), Error> {
    match list(args, 0)?.len().saturating_mul(list(args, 1)?.len()) {
        0..=MAX_COMPARISONS => Ok(()),
        _ => Err(Error::cost_limit_exceeded()),
    }
}

fn actual(call: &ActualCall<'_, '_>, factor: u64) -> Option<u64> {
    let [left, right] = call.args else { return None };
    Some(left.cost_size().saturating_mul(right.cost_size()).saturating_mul(factor).saturating_add(1))
}

fn estimate(call: &EstimatedCall<'_>, factor: f64) -> Option<CallEstimate> {
    let [left, right] = call.args else { return None };
    Some(((call.size(left) * call.size(right)).scale(factor) + Range::fixed(1)).into())
}

#[cfg(test)]
mod tests;
