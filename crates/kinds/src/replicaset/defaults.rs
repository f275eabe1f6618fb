//! Replica sets: one replica.

use object::Map;

use super::fill::Literal::Int;
use super::fill::{Default, fill, inside, pointer};
use super::pod_spec;

const SPEC: &[Default] = &[pointer("replicas", Int(1))];

pub(crate) fn apply(set: &mut Map) {
    let Some(spec) = inside(set, "spec") else { return };
    fill(spec, SPEC);
    pod_spec::template(spec);
}
