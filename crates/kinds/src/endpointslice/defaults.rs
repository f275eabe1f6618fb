//! Endpoint slices: ports have the empty name and speak TCP.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, each, fill, pointer};

const PORT: &[Default] = &[pointer("name", Text("")), pointer("protocol", Text("TCP"))];

pub(crate) fn apply(slice: &mut Map) {
    each(slice, "ports", |port| fill(port, PORT));
}
