//! Columns of runtime classes.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("Handler", "Handler the container runtime uses."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["handler"]).into(), row.age()]),
);
