//! Priority levels: shares, and the shape of their queues.

use object::Map;

use crate::defaults::fill::Literal::Int;
use crate::defaults::fill::{Default, at, fill, plain, pointer};

const LIMITED: &[Default] =
    &[pointer("nominalConcurrencyShares", Int(30)), pointer("lendablePercent", Int(0))];
const EXEMPT: &[Default] = &[pointer("nominalConcurrencyShares", Int(0)), pointer("lendablePercent", Int(0))];
const QUEUING: &[Default] =
    &[plain("handSize", Int(8)), plain("queues", Int(64)), plain("queueLengthLimit", Int(50))];

pub(crate) fn apply(level: &mut Map) {
    let Some(spec) = at(level, "spec") else { return };
    if let Some(limited) = at(spec, "limited") {
        fill(limited, LIMITED);
        if let Some(queuing) = at(limited, "limitResponse").and_then(|response| at(response, "queuing")) {
            fill(queuing, QUEUING);
        }
    }
    if let Some(exempt) = at(spec, "exempt") {
        fill(exempt, EXEMPT);
    }
}
