//! Priority classes: preemption of lower priorities is allowed.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, fill, pointer};

const CLASS: &[Default] = &[pointer("preemptionPolicy", Text("PreemptLowerPriority"))];

pub(crate) fn apply(class: &mut Map) {
    fill(class, CLASS);
}
