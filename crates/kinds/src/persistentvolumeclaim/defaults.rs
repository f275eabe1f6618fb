//! Persistent volume claims: pending, a file system.

use object::Map;

use crate::defaults::amounts;
use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, fill, inside, plain, pointer};

const STATUS: &[Default] = &[plain("phase", Text("Pending"))];
const SPEC: &[Default] = &[pointer("volumeMode", Text("Filesystem"))];

pub(crate) fn apply(claim: &mut Map) {
    spec(claim);
    if let Some(status) = inside(claim, "status") {
        fill(status, STATUS);
        amounts::round(status, "capacity");
        amounts::round(status, "allocatedResources");
    }
}

/// The spec of a claim or of the template of one.
pub(crate) fn spec(holder: &mut Map) {
    if let Some(spec) = inside(holder, "spec") {
        fill(spec, SPEC);
        amounts::round_requirements(spec, "resources");
    }
}
