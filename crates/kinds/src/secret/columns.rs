//! Columns of secrets.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Type", "What the secret is for."),
        Column::text("Data", "How many entries it holds."),
        Column::AGE,
    ],
    |row, out| out.extend([row.name(), row.text(&["type"]).into(), row.count(&["data"]).into(), row.age()]),
);
