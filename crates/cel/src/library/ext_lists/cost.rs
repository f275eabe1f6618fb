//! What these functions cost: the length of what they return, or the comparisons they might make.

use crate::cost::{
    ActualCall, CREATE_LIST, CallEstimate, Cost, EstimatedCall, Node, Range, STRING_TRAVERSAL,
};
use crate::value::{List, Val};

const CALL: u64 = 1;
/// Of a comparison, and of one of texts.
const COMPARISON: f64 = 2.0;
const TEXT_COMPARISON: f64 = COMPARISON + STRING_TRAVERSAL;

pub const SLICE: Cost = Cost { actual: result_length, estimate: estimate_slice };
pub const REVERSE: Cost = Cost { actual: result_length, estimate: estimate_reverse };
pub const RANGE: Cost = Cost { actual: actual_range, estimate: estimate_range };
pub const FLATTEN: Cost = Cost { actual: actual_flatten, estimate: estimate_flatten };
pub const DISTINCT: Cost = Cost {
    actual: |call| comparisons(call, 0),
    // Unlike at run time, texts cost no more.
    estimate: |call| Some(pairs(call, receiver_only(call)?, COMPARISON)),
};
pub const SORT: Cost = Cost {
    actual: |call| comparisons(call, 0),
    estimate: |call| Some(pairs(call, receiver_only(call)?, COMPARISON)),
};
pub const SORT_TEXTS: Cost = Cost {
    actual: |call| comparisons(call, 0),
    estimate: |call| Some(pairs(call, receiver_only(call)?, TEXT_COMPARISON)),
};
pub const SORT_BY: Cost =
    Cost { actual: |call| comparisons(call, 1), estimate: |call| Some(pairs(call, keys(call)?, COMPARISON)) };
pub const SORT_BY_TEXTS: Cost = Cost {
    actual: |call| comparisons(call, 1),
    estimate: |call| Some(pairs(call, keys(call)?, TEXT_COMPARISON)),
};

/// A call that makes a list. The product is converted as Go does it on amd64, where a negative number becomes a large one.
fn creation(size: u64, factor: f64) -> u64 {
    let product = size as f64 * factor;
    let cost = if product < 0.0 { product as i64 as u64 } else { product as u64 };
    cost.wrapping_add(CALL + CREATE_LIST)
}

fn result_length(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(creation(call.result.cost_size(), 1.0))
}

fn actual_range(call: &ActualCall<'_, '_>) -> Option<u64> {
    match (call.result, call.args) {
        // A range too long to be made costs what it would.
        (Val::Null, [Val::Int(length @ 1..)]) => Some(creation(*length as u64, 1.0)),
        _ => result_length(call),
    }
}

fn actual_flatten(call: &ActualCall<'_, '_>) -> Option<u64> {
    let depth = match call.args {
        [_, depth] => depth.as_int()? as f64,
        _ => 1.0,
    };
    Some(creation(call.args.first()?.cost_size(), depth))
}

/// All elements of an argument compared with each other.
fn comparisons(call: &ActualCall<'_, '_>, index: usize) -> Option<u64> {
    let size = call.args.get(index)?.cost_size();
    let first = call.args.get(index)?.as_list().and_then(|list: &List<'_>| list.get(0));
    let factor = match first {
        Some(Ok(Val::Str(_) | Val::Bytes(_))) => TEXT_COMPARISON,
        _ => COMPARISON,
    };
    Some(creation(size.saturating_mul(size), factor))
}

fn receiver_only<'c>(call: &EstimatedCall<'c>) -> Option<&'c Node<'c>> {
    if call.args.is_empty() { call.target } else { None }
}

fn keys<'c>(call: &EstimatedCall<'c>) -> Option<&'c Node<'c>> {
    match (call.target, call.args) {
        (Some(_), [keys]) => Some(keys),
        _ => None,
    }
}

fn estimated(size: Range, factor: f64) -> CallEstimate {
    let cost = size.scale(factor) + Range::fixed(CALL) + Range::fixed(CREATE_LIST);
    CallEstimate { cost, result_size: Some(size) }
}

/// The result is taken to be as long as there are pairs, as upstream has it.
fn pairs(call: &EstimatedCall<'_>, node: &Node<'_>, factor: f64) -> CallEstimate {
    let size = call.size(node);
    estimated(size * size, factor)
}

fn estimate_slice(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let (target, [start, end]) = (call.target?, call.args) else { return None };
    let start = literal(start, 0);
    let end = literal(end, call.size(target).max);
    // Of bounds the wrong way round, upstream's difference wraps.
    Some(estimated(Range::fixed(end.wrapping_sub(start)), 1.0))
}

fn estimate_range(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    match (call.target, call.args) {
        (None, [length]) => Some(estimated(Range::fixed(literal(length, u64::MAX)), 1.0)),
        _ => None,
    }
}

fn estimate_reverse(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    Some(estimated(call.size(receiver_only(call)?), 1.0))
}

fn estimate_flatten(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let depth = match call.args {
        [] => 1,
        [depth] => literal(depth, u64::MAX),
        _ => return None,
    };
    Some(estimated(call.size(call.target?), depth as f64))
}

/// The value of an integer literal, 0 if it is negative.
fn literal(node: &Node<'_>, otherwise: u64) -> u64 {
    match node.literal {
        Some(Val::Int(i)) => u64::try_from(*i).unwrap_or(0),
        _ => otherwise,
    }
}
