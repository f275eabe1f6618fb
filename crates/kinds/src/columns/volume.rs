//! Columns of persistent volumes and claims.

use super::row::{Row, quantity, strings};
use super::{Cell, Column, Printer};

/// The class was an annotation before it was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const CAPACITY: Column = Column::text("Capacity", "Storage the volume has.");
const ACCESS_MODES: Column = Column::text("Access Modes", "How nodes may mount it, in short.");
const STORAGE_CLASS: Column = Column::text("StorageClass", "Storage class it belongs to.");
const ATTRIBUTES_CLASS: Column =
    Column::text("VolumeAttributesClass", "Volume attributes class it belongs to.");
const VOLUME_MODE: Column = Column::text("VolumeMode", "Filesystem or Block.").wide();

pub(super) static PERSISTENT_VOLUME: Printer = Printer::new(
    &[
        Column::NAME,
        CAPACITY,
        ACCESS_MODES,
        Column::text("Reclaim Policy", "What becomes of the volume when its claim goes."),
        Column::text("Status", "Phase of the volume."),
        Column::text("Claim", "Claim the volume is bound to."),
        STORAGE_CLASS,
        ATTRIBUTES_CLASS,
        Column::text("Reason", "Why the volume is in its phase."),
        Column::AGE,
        VOLUME_MODE,
    ],
    persistent_volume,
);

fn persistent_volume(row: &Row<'_>, out: &mut Vec<Cell>) {
    let claim = match row.at(&["spec", "claimRef"]) {
        Some(_) => {
            let claim = |name| row.text(&["spec", "claimRef", name]);
            format!("{}/{}", claim("namespace"), claim("name"))
        }
        None => String::new(),
    };
    out.extend([
        row.name(),
        quantity(row.object, &["spec", "capacity", "storage"]).into(),
        access_modes(row, "spec"),
        row.text(&["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase(row),
        claim.into(),
        storage_class(row),
        row.optional(&["spec", "volumeAttributesClassName"], "<unset>").into(),
        row.text(&["status", "reason"]).into(),
        row.age(),
        row.optional(&["spec", "volumeMode"], "<unset>").into(),
    ]);
}

pub(super) static PERSISTENT_VOLUME_CLAIM: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Status", "Phase of the claim."),
        Column::text("Volume", "Volume the claim is bound to."),
        CAPACITY,
        ACCESS_MODES,
        STORAGE_CLASS,
        ATTRIBUTES_CLASS,
        Column::AGE,
        VOLUME_MODE,
    ],
    persistent_volume_claim,
);

fn persistent_volume_claim(row: &Row<'_>, out: &mut Vec<Cell>) {
    let volume = row.text(&["spec", "volumeName"]);
    // Without a volume there is nothing to have a size yet.
    let (capacity, modes) = match volume {
        "" => ("".into(), "".into()),
        _ => (quantity(row.object, &["status", "capacity", "storage"]).into(), access_modes(row, "status")),
    };
    out.extend([
        row.name(),
        phase(row),
        volume.into(),
        capacity,
        modes,
        storage_class(row),
        row.optional(&["spec", "volumeAttributesClassName"], "<unset>").into(),
        row.age(),
        row.optional(&["spec", "volumeMode"], "<unset>").into(),
    ]);
}

fn phase(row: &Row<'_>) -> Cell {
    if row.is_deleted() { "Terminating".into() } else { row.text(&["status", "phase"]).into() }
}

fn storage_class(row: &Row<'_>) -> Cell {
    row.annotation(CLASS_ANNOTATION).unwrap_or_else(|| row.text(&["spec", "storageClassName"])).into()
}

fn access_modes(row: &Row<'_>, part: &str) -> Cell {
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
