//! Flow schemas: a middling precedence.

use object::Map;

use crate::defaults::fill::Literal::Int;
use crate::defaults::fill::{Default, fill, inside, plain};

const SPEC: &[Default] = &[plain("matchingPrecedence", Int(1000))];

pub(crate) fn apply(schema: &mut Map) {
    if let Some(spec) = inside(schema, "spec") {
        fill(spec, SPEC);
    }
}
