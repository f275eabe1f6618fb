//! Columns of volume attachments.

use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column { format: "name", ..Column::text("Attacher", "Driver that attaches the volume.") },
        Column::text("PV", "Volume that is attached."),
        Column::text("Node", "Node it is attached to."),
        Column::boolean("Attached", "Whether it is attached by now."),
        Column::AGE,
    ],
    |row, out| {
        out.extend([
            row.name(),
            row.text(&["spec", "attacher"]).into(),
            row.text(&["spec", "source", "persistentVolumeName"]).into(),
            row.text(&["spec", "nodeName"]).into(),
            row.flag(&["status", "attached"]).unwrap_or(false).into(),
            row.age(),
        ]);
    },
);
