//! Limit ranges: a container without limits gets the largest allowed, one without requests its limits or the least.

use object::Map;

use crate::defaults::amounts;
use crate::defaults::fill::{copy_missing, each, inside, text};

pub(crate) fn apply(range: &mut Map) {
    let Some(spec) = inside(range, "spec") else { return };
    each(spec, "limits", |item| {
        if text(item, "type") == "Container" {
            copy_missing(item, "max", "default");
            copy_missing(item, "default", "defaultRequest");
            copy_missing(item, "min", "defaultRequest");
        }
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            amounts::round(item, list);
        }
    });
}
