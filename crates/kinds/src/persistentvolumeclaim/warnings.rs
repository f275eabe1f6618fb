//! Warnings about persistent volume claims, wherever one is described.

use object::Value;

use super::{Accepted, Said};
use crate::check::Path;
use crate::workload::SPEC;

pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
pub(super) const CLASS_FIELD: &str = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.annotation(CLASS_ANNOTATION).is_some() {
        let metadata = Path::Root("metadata");
        said.about(&metadata.child("annotations").key(CLASS_ANNOTATION), CLASS_FIELD);
    }
    spec(write.spec(), &SPEC, said);
}

pub(super) fn spec(spec: &Value, at: &Path<'_>, said: &mut Said) {
    let at = at.child("resources");
    for list in ["requests", "limits"] {
        said.whole_bytes(&at.child(list), spec.at(&["resources", list]), "storage");
    }
}
