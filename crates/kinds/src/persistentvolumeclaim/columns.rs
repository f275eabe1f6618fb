//! Columns of persistent volume claims.

use crate::columns::row::{Row, quantity};
use crate::columns::volume::{
    ACCESS_MODES, ATTRIBUTES_CLASS, CAPACITY, STORAGE_CLASS, VOLUME_MODE, access_modes, phase, storage_class,
};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
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
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
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
