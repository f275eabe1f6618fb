//! Columns of `scale`: the same for every workload.

use crate::columns::{Column, StaticPrinter};

pub(crate) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column { format: "", ..Column::NAME },
        Column::integer("Desired", "Pods there should be."),
        Column::integer("Available", "Pods there are."),
        Column::AGE,
    ],
    |row, out| {
        let (desired, present) = (row.int(&["spec", "replicas"]), row.int(&["status", "replicas"]));
        out.extend([row.name(), desired.into(), present.into(), row.age()]);
    },
);
