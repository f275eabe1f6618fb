//! Priority classes: the higher may take the place of the lower.

use object::Map;

use super::fill::Literal::Text;
use super::fill::{Default, fill, pointer};

const CLASS: &[Default] = &[pointer("preemptionPolicy", Text("PreemptLowerPriority"))];

pub(crate) fn apply(class: &mut Map) {
    fill(class, CLASS);
}
