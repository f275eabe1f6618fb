//! Columns of CSI nodes.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::integer("Drivers", "How many drivers the node has."), Column::AGE],
    |row, out| out.extend([row.name(), row.count(&["spec", "drivers"]).into(), row.age()]),
);
