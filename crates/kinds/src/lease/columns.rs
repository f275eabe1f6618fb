//! Columns of leases.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("Holder", "Who holds the lease."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["spec", "holderIdentity"]).into(), row.age()]),
);
