//! Columns of resource slices.

use crate::columns::row::Row;
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Node", "Node the devices belong to."),
        Column::text("Driver", "Driver that offers the devices."),
        Column::text("Pool", "Pool the devices belong to."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    out.extend([
        row.name(),
        row.text(&["spec", "nodeName"]).into(),
        row.text(&["spec", "driver"]).into(),
        row.text(&["spec", "pool", "name"]).into(),
        row.age(),
    ]);
}
