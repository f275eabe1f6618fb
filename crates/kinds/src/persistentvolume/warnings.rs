//! Warnings about persistent volumes.

use object::Value;

use crate::check::{Path, items, text};
use crate::node::labels;
use crate::persistentvolumeclaim::warnings::{CLASS_ANNOTATION, CLASS_FIELD};
use crate::pod;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

const MOUNT_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const MOUNT_FIELD: &str = r#"deprecated since v1.31; use "mountOptions" attribute instead"#;

const GONE: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let metadata = Path::Root("metadata");
    for (key, message) in [(CLASS_ANNOTATION, CLASS_FIELD), (MOUNT_ANNOTATION, MOUNT_FIELD)] {
        if write.annotation(key).is_some() {
            warnings.push_at(&metadata.child("annotations").key(key), message);
        }
    }
    let spec = write.spec();
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
                    provisioning.";
        warnings.push_at(&SPEC.child("persistentVolumeReclaimPolicy"), text);
    }
    let none = Value::Null;
    let required = spec.at(&["nodeAffinity", "required"]).unwrap_or(&none);
    let at = SPEC.child("nodeAffinity");
    let at = at.child("required");
    let at = at.child("nodeSelectorTerms");
    for (i, term) in items(required, "nodeSelectorTerms").iter().enumerate() {
        labels::selector_term(term, false, &at.index(i), warnings);
    }
    pod::warnings::gone(spec, &GONE, &SPEC, warnings);
}
