//! What the columns of persistent volumes and of claims share.

use super::row::{Row, strings};
use super::{Cell, Column};

/// The class was an annotation before it was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) const CAPACITY: Column<'static> = Column::text("Capacity", "Storage the volume has.");
pub(crate) const ACCESS_MODES: Column<'static> =
    Column::text("Access Modes", "How nodes may mount it, in short.");
pub(crate) const STORAGE_CLASS: Column<'static> =
    Column::text("StorageClass", "Storage class it belongs to.");
pub(crate) const ATTRIBUTES_CLASS: Column<'static> =
    Column::text("VolumeAttributesClass", "Volume attributes class it belongs to.");
pub(crate) const VOLUME_MODE: Column<'static> = Column::text("VolumeMode", "Filesystem or Block.").wide();

pub(crate) fn phase(row: &Row<'_>) -> Cell {
    if row.is_deleted() { "Terminating".into() } else { row.text(&["status", "phase"]).into() }
}

pub(crate) fn storage_class(row: &Row<'_>) -> Cell {
    row.annotation(CLASS_ANNOTATION).unwrap_or_else(|| row.text(&["spec", "storageClassName"])).into()
}

pub(crate) fn access_modes(row: &Row<'_>, part: &str) -> Cell {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = strings(row.list(&[part, "accessModes"]));
    let shown: Vec<&str> = SHORT.iter().filter(|(m, _)| modes.contains(m)).map(|(_, s)| *s).collect();
    shown.join(",").into()
}
