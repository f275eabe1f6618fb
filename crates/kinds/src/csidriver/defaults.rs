//! CSI drivers: they attach, and need nothing else.

use object::{Map, Value};

use crate::defaults::fill::Literal::{Bool, Text};
use crate::defaults::fill::{Default, fill, inside, is_empty, pointer};

const SPEC: &[Default] = &[
    pointer("attachRequired", Bool(true)),
    pointer("podInfoOnMount", Bool(false)),
    pointer("storageCapacity", Bool(false)),
    pointer("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
    pointer("requiresRepublish", Bool(false)),
    pointer("seLinuxMount", Bool(false)),
];

pub(crate) fn apply(driver: &mut Map) {
    let Some(spec) = inside(driver, "spec") else { return };
    fill(spec, SPEC);
    if is_empty(spec, "volumeLifecycleModes") {
        spec.set("volumeLifecycleModes", vec![Value::from("Persistent")]);
    }
}
