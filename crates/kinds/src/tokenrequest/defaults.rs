//! Token requests: valid for an hour.

use object::Map;

use crate::defaults::fill::Literal::Int;
use crate::defaults::fill::{Default, fill, inside, pointer};

const SPEC: &[Default] = &[pointer("expirationSeconds", Int(3600))];

pub(crate) fn apply(request: &mut Map) {
    if let Some(spec) = inside(request, "spec") {
        fill(spec, SPEC);
    }
}
