//! Replica sets: one replica.

use object::Map;

use crate::defaults::fill::Literal::Int;
use crate::defaults::fill::{Default, fill, inside, pointer};
use crate::pod;

const SPEC: &[Default] = &[pointer("replicas", Int(1))];

pub(crate) fn apply(set: &mut Map) {
    let Some(spec) = inside(set, "spec") else { return };
    fill(spec, SPEC);
    pod::defaults::template(spec);
}
