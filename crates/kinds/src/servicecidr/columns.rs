//! Columns of service CIDRs.

use crate::columns::row::strings;
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("CIDRs", "Ranges addresses of services come from."), Column::AGE],
    |row, out| {
        out.extend([row.name(), strings(row.list(&["spec", "cidrs"])).join(",").into(), row.age()]);
    },
);
