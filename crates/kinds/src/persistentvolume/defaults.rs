//! Persistent volumes: pending, retained, a file system.

use object::Map;

use crate::defaults::amounts;
use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, fill, inside, plain, pointer};
use crate::pod;

const STATUS: &[Default] = &[plain("phase", Text("Pending"))];
const SPEC: &[Default] =
    &[plain("persistentVolumeReclaimPolicy", Text("Retain")), pointer("volumeMode", Text("Filesystem"))];

pub(crate) fn apply(object: &mut Map) {
    if let Some(status) = inside(object, "status") {
        fill(status, STATUS);
    }
    if let Some(spec) = inside(object, "spec") {
        fill(spec, SPEC);
        amounts::round(spec, "capacity");
        pod::defaults::persistent_source(spec);
    }
}
