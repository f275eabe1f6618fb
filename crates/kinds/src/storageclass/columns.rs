//! Columns of storage classes.

use crate::columns::row::Row;
use crate::columns::{Cell, Column, StaticPrinter};

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Provisioner", "Who makes volumes of the class."),
        Column::text("ReclaimPolicy", "What becomes of a volume when its claim goes."),
        Column::text("VolumeBindingMode", "When volumes are made and bound."),
        Column::text("AllowVolumeExpansion", "Whether claims may grow."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let name = row.text(&["metadata", "name"]);
    let default = DEFAULT_CLASS.iter().any(|a| row.annotation(a) == Some("true"));
    out.extend([
        if default { format!("{name} (default)").into() } else { name.into() },
        row.text(&["provisioner"]).into(),
        row.optional(&["reclaimPolicy"], "Delete").into(),
        row.optional(&["volumeBindingMode"], "Immediate").into(),
        row.flag(&["allowVolumeExpansion"]).unwrap_or(false).into(),
        row.age(),
    ]);
}
