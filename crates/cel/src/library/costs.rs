//! Costs several libraries share.

use crate::cost::{self, ActualCall, CallEstimate, Cost, EstimatedCall, Range, STRING_TRAVERSAL};
use crate::library::arguments::MAX_ELEMENTS;
use crate::types::Type;
use crate::value::Val;

/// Accessors, and whatever else is about as cheap.
pub(super) const NOMINAL: Cost = Cost { actual: |_| Some(1), estimate: |_| Some(Range::fixed(1).into()) };

/// Parsing the first argument: it is read once.
pub(super) const PARSE: Cost = Cost { actual: parse_cost, estimate: parse_estimate };

pub(super) fn parse_cost(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(cost::traversal(call.args.first()?.cost_size()))
}
pub(super) fn parse_estimate(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    Some(call.size(call.args.first()?).scale(STRING_TRAVERSAL).into())
}

/// `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`: the receiver is read once, and all in it.
pub(super) const RECEIVER_READ: Cost = Cost {
    actual: |call| Some(call.args.first().map_or(0, |receiver| tree_traversal(receiver, &mut 0))),
    estimate: estimate_receiver_read,
};

fn estimate_receiver_read(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let size = call.size(target);
    let Some(element) = call.element(target) else {
        return Some(size.scale(STRING_TRAVERSAL).into());
    };
    let comparison = match kind(element.ty) {
        Type::String | Type::Bytes => Range::fixed(1) + call.size(&element).scale(STRING_TRAVERSAL),
        _ => Range::fixed(1),
    };
    Some((size * comparison).into())
}

/// The type itself, of one that may be null too.
fn kind(ty: &Type) -> &Type {
    match ty {
        Type::Wrapper(inner) => inner,
        other => other,
    }
}

/// The cost of reading a value with all it holds.
fn tree_traversal(value: &Val<'_>, visited: &mut usize) -> u64 {
    *visited += 1;
    // Differs from kube-apiserver: a value that holds another one twice, and that one twice, and so on, is not followed forever.
    if *visited > MAX_ELEMENTS {
        return u64::MAX;
    }
    let read = |bytes: usize| (bytes as f64 * STRING_TRAVERSAL) as u64;
    match value {
        Val::Str(text) => read(text.len()),
        Val::Bytes(bytes) => read(bytes.len()),
        Val::List(list) => object::deep(|| {
            let mut cost = 0u64;
            for item in list.iter() {
                cost = cost.saturating_add(item.map_or(1, |item| tree_traversal(&item, visited)));
                if cost == u64::MAX {
                    break;
                }
            }
            cost
        }),
        Val::Map(map) => object::deep(|| {
            let keys = map.keys();
            // Members without a schema have no key: upstream counts 1 for that and 1 for the value it does not find.
            let mut cost = 2 * map.len().saturating_sub(keys.len()) as u64;
            for key in keys {
                let value = match map.find(&key) {
                    Some(Ok(value)) => tree_traversal(&value, visited),
                    _ => 1,
                };
                cost = cost.saturating_add(tree_traversal(&key, visited)).saturating_add(value);
                if cost == u64::MAX {
                    break;
                }
            }
            cost
        }),
        _ => 1,
    }
}

/// The receiver of a call that has been made, as a number of characters or elements.
pub(super) fn receiver_size(call: &ActualCall<'_, '_>) -> Option<u64> {
    call.args.first().map(Val::cost_size)
}

/// A product with a factor, rounded up, as run-time costs are.
pub(super) fn ceil(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
