//! Resource slices: a device maps to its node's resources one to one.
//!
//! The time of a taint is set by the strategy: defaults have no clock.

use object::{Map, Value};

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, at, each, fill, pointer};

const MAPPING: &[Default] = &[pointer("allocationMultiplier", Text("1"))];

pub(crate) fn apply(slice: &mut Map) {
    let Some(spec) = at(slice, "spec") else { return };
    each(spec, "devices", |device| {
        let Some(mappings) = at(device, "nodeAllocatableResourceMappings") else { return };
        for (_, mapping) in mappings.iter_mut() {
            if let Value::Map(mapping) = mapping {
                fill(mapping, MAPPING);
            }
        }
    });
}
