//! Columns of pod templates.

use crate::columns::row::containers;
use crate::columns::selector::labels;
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column { priority: 0, ..Column::CONTAINERS },
        Column { priority: 0, ..Column::IMAGES },
        Column::text("Pod Labels", "Labels of the pods made from the template."),
    ],
    |row, out| {
        let [names, images] = containers(row.object, &["template", "spec"]);
        out.extend([row.name(), names, images, labels(row.at(&["template", "metadata", "labels"])).into()]);
    },
);
