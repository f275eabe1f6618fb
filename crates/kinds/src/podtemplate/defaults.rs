//! Pod templates: the spec's defaults.

use object::Map;

use crate::pod;

pub(crate) fn apply(object: &mut Map) {
    pod::defaults::template(object);
}
