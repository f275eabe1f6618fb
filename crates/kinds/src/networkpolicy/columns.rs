//! Columns of network policies.

use crate::columns::selector::label_selector;
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("Pod-Selector", "Labels of the pods the policy is for."), Column::AGE],
    |row, out| {
        out.extend([row.name(), label_selector(row.at(&["spec", "podSelector"])).into(), row.age()]);
    },
);
