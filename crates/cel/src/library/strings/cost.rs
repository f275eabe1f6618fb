//! What functions of strings cost: mostly reading the receiver.

use crate::cost::{ActualCall, CallEstimate, Cost, EstimatedCall, Range, STRING_TRAVERSAL, SizeEstimate};
use crate::library::costs::{ceil, receiver_size};
use crate::value::Val;

const READ_AND_WRITE: f64 = 2.0 * STRING_TRAVERSAL;

/// The receiver is read once; the result is not longer.
pub const READ: Cost = Cost {
    actual: read,
    estimate: |call| {
        let size = call.size(call.target?);
        Some(CallEstimate { cost: size.scale(STRING_TRAVERSAL), result_size: Some(size) })
    },
};

pub const REPLACE: Cost = Cost { actual: read_and_write, estimate: estimate_replace };

pub const SPLIT: Cost = Cost { actual: read_and_write, estimate: estimate_split };

/// The result is written, and was read before.
pub const JOIN: Cost = Cost {
    actual: |call| call.args.first().map(|_| ceil(call.result.cost_size(), READ_AND_WRITE)),
    estimate: estimate_join,
};

fn read(call: &ActualCall<'_, '_>) -> Option<u64> {
    receiver_size(call).map(|size| ceil(size, STRING_TRAVERSAL))
}

fn read_and_write(call: &ActualCall<'_, '_>) -> Option<u64> {
    receiver_size(call).map(|size| ceil(size, READ_AND_WRITE))
}

fn estimate_replace(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let [old, new, ..] = call.args else { return None };
    let size = call.size(call.target?);
    let (old, new) = (call.size(old), call.size(new));
    let (longest_count, longest_kept) = most(size.max, old.min, new.max <= old.min);
    let (shortest_count, shortest_kept) = most(size.min, old.max, old.max <= new.min);
    let count = Range { min: shortest_count, max: longest_count };
    let kept = Range { min: shortest_kept, max: longest_kept };
    let result = count * new + kept;
    Some(CallEstimate { cost: size.scale(READ_AND_WRITE), result_size: Some(result) })
}

/// How many replacements make the result the longest, or the shortest, and how much of the text is kept beside them.
fn most(size: u64, old: u64, none_is_best: bool) -> (u64, u64) {
    if old == 0 {
        // Around every character.
        (size.saturating_add(1), size)
    } else if none_is_best {
        (0, size)
    } else {
        ((size as f64 / old as f64).ceil() as u64, 0)
    }
}

fn estimate_split(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let size = call.size(call.target?);
    let max = match call.args.get(1).and_then(|limit| limit.literal) {
        // A negative limit is none.
        Some(Val::Int(limit)) => *limit as u64,
        // At worst into characters.
        _ => size.max,
    };
    Some(CallEstimate { cost: size.scale(READ_AND_WRITE), result_size: Some(Range { min: 0, max }) })
}

fn estimate_join(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let count = call.size(target);
    let mut size: SizeEstimate =
        call.element(target).map_or(Range::ZERO, |element| count * call.size(&element));
    if let Some(separator) = call.args.first() {
        let gaps = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        size = size + call.size(separator) * gaps;
    }
    Some(CallEstimate { cost: size.scale(STRING_TRAVERSAL), result_size: Some(size) })
}
