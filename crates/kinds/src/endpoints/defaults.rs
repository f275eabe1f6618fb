//! Endpoints: ports speak TCP.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, each, fill, plain};

const PORT: &[Default] = &[plain("protocol", Text("TCP"))];

pub(crate) fn apply(endpoints: &mut Map) {
    each(endpoints, "subsets", |subset| each(subset, "ports", |port| fill(port, PORT)));
}
