//! Columns of persistent volumes.

use crate::columns::row::{Row, quantity};
use crate::columns::volume::{
    ACCESS_MODES, ATTRIBUTES_CLASS, CAPACITY, STORAGE_CLASS, VOLUME_MODE, access_modes, phase, storage_class,
};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
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
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
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
