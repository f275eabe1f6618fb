//! Warnings about persistent volume claims, wherever one is described.

use object::Value;

use crate::check::Path;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
pub(crate) const CLASS_FIELD: &str = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.annotation(CLASS_ANNOTATION).is_some() {
        let metadata = Path::Root("metadata");
        warnings.push_at(&metadata.child("annotations").key(CLASS_ANNOTATION), CLASS_FIELD);
    }
    spec(write.spec(), &SPEC, warnings);
}

pub(crate) fn spec(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let at = at.child("resources");
    for list in ["requests", "limits"] {
        warnings.whole_bytes(&at.child(list), spec.at(&["resources", list]), "storage");
    }
}
