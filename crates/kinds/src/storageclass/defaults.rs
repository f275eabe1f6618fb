//! Storage classes: volumes go with their claims and are bound at once.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, fill, pointer};

const CLASS: &[Default] =
    &[pointer("reclaimPolicy", Text("Delete")), pointer("volumeBindingMode", Text("Immediate"))];

pub(crate) fn apply(class: &mut Map) {
    fill(class, CLASS);
}
