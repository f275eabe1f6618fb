//! Columns of deployments.

use crate::columns::row::containers;
use crate::columns::selector::selector_text;
use crate::columns::workload::ready_of_desired;
use crate::columns::{Column, StaticPrinter};
use crate::workload::POD_SPEC;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Ready", "Pods that are ready, of those there should be."),
        Column::text("Up-to-date", "Pods made from the current template."),
        Column::text("Available", "Pods that have been ready for long enough."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
        Column::SELECTOR,
    ],
    |row, out| {
        out.extend([
            row.name(),
            ready_of_desired(row),
            row.int(&["status", "updatedReplicas"]).into(),
            row.int(&["status", "availableReplicas"]).into(),
            row.age(),
        ]);
        out.extend(containers(row.object, POD_SPEC));
        // A deployment has its own words: empty for no selector, `<invalid>` for a broken one.
        let selector = selector_text(row.at(&["spec", "selector"]));
        out.push(selector.unwrap_or_else(|| "<invalid>".to_owned()).into());
    },
);
