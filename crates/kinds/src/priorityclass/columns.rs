//! Columns of priority classes.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::integer("Value", "Priority of pods of the class."),
        Column::boolean("Global-Default", "Whether pods without a class get this one."),
        Column::AGE,
        Column::text("PreemptionPolicy", "Whether pods of the class push others out."),
    ],
    |row, out| {
        out.extend([
            row.name(),
            row.int(&["value"]).into(),
            row.flag(&["globalDefault"]).unwrap_or(false).into(),
            row.age(),
            row.text(&["preemptionPolicy"]).into(),
        ]);
    },
);
