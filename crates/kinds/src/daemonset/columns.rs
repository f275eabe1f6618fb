//! Columns of daemon sets.

use crate::columns::row::containers;
use crate::columns::selector::{label_selector, labels};
use crate::columns::{Cell, Column, StaticPrinter};
use crate::workload::POD_SPEC;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::integer("Desired", "Nodes that should run the pod."),
        Column::integer("Current", "Nodes that run the pod and should."),
        Column::integer("Ready", "Nodes where the pod is ready."),
        Column::integer("Up-to-date", "Nodes whose pod is made from the current template."),
        Column::integer("Available", "Nodes whose pod has been ready for long enough."),
        Column::text("Node Selector", "Labels of the nodes that run the pod."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
        Column::SELECTOR,
    ],
    |row, out| {
        let status = |name| Cell::from(row.int(&["status", name]));
        out.extend([
            row.name(),
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            labels(row.at(&["spec", "template", "spec", "nodeSelector"])).into(),
            row.age(),
        ]);
        out.extend(containers(row.object, POD_SPEC));
        out.push(label_selector(row.at(&["spec", "selector"])).into());
    },
);
