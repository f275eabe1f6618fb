//! Columns of CSI drivers.

use crate::columns::row::{Row, strings, text};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::boolean("AttachRequired", "Whether volumes are attached before they are mounted."),
        Column::boolean("PodInfoOnMount", "Whether the driver is told of the pod."),
        Column::boolean("StorageCapacity", "Whether free capacity guides scheduling."),
        Column::text("TokenRequests", "Audiences of the tokens the driver is given."),
        Column::boolean("RequiresRepublish", "Whether mounted volumes are published again and again."),
        Column::text("Modes", "Life cycles of volumes the driver knows."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let flag = |name, absent| Cell::from(row.flag(&["spec", name]).unwrap_or(absent));
    let tokens = row.list(&["spec", "tokenRequests"]);
    let audiences = match tokens {
        [] => "<unset>".to_owned(),
        _ => tokens.iter().map(|t| text(t, &["audience"])).collect::<Vec<_>>().join(","),
    };
    let modes = strings(row.list(&["spec", "volumeLifecycleModes"]));
    let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
    out.extend([
        row.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        audiences.into(),
        flag("requiresRepublish", false),
        modes.into(),
        row.age(),
    ]);
}
