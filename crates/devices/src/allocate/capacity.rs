//! Parts of devices: how much of a device's capacity a request consumes, and whether that much is left.

use std::sync::Arc;

use object::quantity::{Format, Quantity};

use crate::read::find;
use crate::slice::{Capacity, RequestPolicy, ValidRange};

type Amounts = [(Arc<str>, Quantity)];

/// Whether a request fits into a device, besides what others have and are about to get of it.
pub(super) fn fits(
    requested: &Amounts,
    capacity: &[(Arc<str>, Capacity)],
    allocated: &Amounts,
    allocating: &Amounts,
) -> bool {
    if requested.iter().any(|(name, _)| find(capacity, name).is_none()) {
        return false;
    }
    capacity.iter().all(|(name, capacity)| {
        let amount = consumed(find(requested, name), capacity);
        if capacity.policy.as_ref().is_some_and(|policy| violates(&amount, policy)) {
            return false;
        }
        let before = find(allocated, name).map_or(amount, |allocated| *allocated + amount);
        let total = find(allocating, name).map_or(before, |allocating| before + *allocating);
        total <= capacity.value
    })
}

/// What a request consumes of a device.
pub(super) fn consumes(requested: &Amounts, capacity: &[(Arc<str>, Capacity)]) -> Vec<(Arc<str>, Quantity)> {
    capacity
        .iter()
        .map(|(name, capacity)| (name.clone(), consumed(find(requested, name), capacity)))
        .collect()
}

/// Without a request it is the default, or everything; otherwise it is rounded up to what may be had.
fn consumed(requested: Option<&Quantity>, capacity: &Capacity) -> Quantity {
    let policy = capacity.policy.as_ref();
    let Some(requested) = requested else {
        return policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    };
    match policy {
        Some(RequestPolicy { valid_range: Some(ValidRange { min: Some(min), step, .. }), .. }) => {
            round_up(requested, min, step.as_ref())
        }
        Some(RequestPolicy { valid_values, .. }) => {
            // They are sorted.
            *valid_values.iter().find(|valid| requested <= *valid).unwrap_or(requested)
        }
        None => *requested,
    }
}

fn round_up(requested: &Quantity, min: &Quantity, step: Option<&Quantity>) -> Quantity {
    if requested < min {
        return *min;
    }
    let Some(step) = step.map(Quantity::as_i64) else { return *requested };
    let min = min.as_i64();
    let above = requested.as_i64().wrapping_sub(min);
    let steps = above.checked_div(step).unwrap_or(0);
    let more = i64::from(above.checked_rem(step).unwrap_or(0) != 0);
    let rounded = min.wrapping_add(step.wrapping_mul(steps.wrapping_add(more)));
    Quantity::from_i64(rounded, Format::BinarySi)
}

fn violates(amount: &Quantity, policy: &RequestPolicy) -> bool {
    if policy.default.is_some_and(|default| default == *amount && default.format() == amount.format()) {
        return false;
    }
    match &policy.valid_range {
        Some(range) => {
            let min = range.min.map_or(0, |min| min.as_i64());
            let between = |step: Quantity| {
                // Nothing is a multiple of a step of zero, which is never stored.
                amount.as_i64().wrapping_sub(min).checked_rem(step.as_i64()) != Some(0)
            };
            range.max.is_some_and(|max| *amount > max) || range.step.is_some_and(between)
        }
        None => !policy.valid_values.is_empty() && !policy.valid_values.contains(amount),
    }
}
