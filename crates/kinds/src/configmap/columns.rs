//! Columns of config maps.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("Data", "How many entries it holds."), Column::AGE],
    |row, out| {
        let entries = row.count(&["data"]).saturating_add(row.count(&["binaryData"]));
        out.extend([row.name(), entries.into(), row.age()]);
    },
);
