//! Columns of pod disruption budgets.

use crate::columns::row::scalar;
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Min Available", "Pods that must stay."),
        Column::text("Max Unavailable", "Pods that may be missing."),
        Column::integer("Allowed Disruptions", "Pods that may be evicted now."),
        Column::AGE,
    ],
    |row, out| {
        let bound = |name| row.at(&["spec", name]).map_or_else(|| "N/A".to_owned(), scalar).into();
        out.extend([
            row.name(),
            bound("minAvailable"),
            bound("maxUnavailable"),
            row.int(&["status", "disruptionsAllowed"]).into(),
            row.age(),
        ]);
    },
);
