//! Columns of namespaces.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("Status", "Active or Terminating."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["status", "phase"]).into(), row.age()]),
);
