//! Columns of volume attributes classes.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("DriverName", "Driver the class is for."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["driverName"]).into(), row.age()]),
);
