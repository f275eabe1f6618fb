//! Columns of stateful sets.

use crate::columns::row::containers;
use crate::columns::workload::ready_of_desired;
use crate::columns::{Column, StaticPrinter};
use crate::workload::POD_SPEC;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Ready", "Pods that are ready, of those there should be."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
    ],
    |row, out| {
        out.extend([row.name(), ready_of_desired(row), row.age()]);
        out.extend(containers(row.object, POD_SPEC));
    },
);
