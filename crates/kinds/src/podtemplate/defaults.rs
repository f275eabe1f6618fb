//! Pod templates: the spec's defaults.

use object::Map;

use super::pod_spec;

pub(crate) fn apply(object: &mut Map) {
    pod_spec::template(object);
}
