//! Columns of webhook configurations.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::integer("Webhooks", "How many webhooks are called."), Column::AGE],
    |row, out| out.extend([row.name(), row.count(&["webhooks"]).into(), row.age()]),
);
