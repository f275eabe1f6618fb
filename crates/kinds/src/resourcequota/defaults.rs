//! Resource quotas: counted in thousandths.

use object::Map;

use crate::defaults::amounts;
use crate::defaults::fill::at;

pub(crate) fn apply(quota: &mut Map) {
    if let Some(spec) = at(quota, "spec") {
        amounts::round(spec, "hard");
    }
    if let Some(status) = at(quota, "status") {
        amounts::round(status, "hard");
        amounts::round(status, "used");
    }
}
