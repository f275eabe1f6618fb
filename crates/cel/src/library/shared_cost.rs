//! Costs that several of Kubernetes' libraries have in common.

use crate::cost::{self, ActualCall, CallEstimate, Cost, EstimatedCall, Range, STRING_TRAVERSAL};

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
