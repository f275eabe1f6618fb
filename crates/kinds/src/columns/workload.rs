//! What the columns of workloads share.

use super::row::Row;
use super::{Cell, Column};

pub(crate) const REPLICAS: &[Column<'static>] = &[
    Column::NAME,
    Column::integer("Desired", "Pods there should be."),
    Column::integer("Current", "Pods there are."),
    Column::integer("Ready", "Pods that are ready."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

pub(crate) fn replicas(row: &Row<'_>, out: &mut Vec<Cell>) {
    out.extend([
        row.name(),
        row.int(&["spec", "replicas"]).into(),
        row.int(&["status", "replicas"]).into(),
        row.int(&["status", "readyReplicas"]).into(),
        row.age(),
    ]);
}

pub(crate) fn ready_of_desired(row: &Row<'_>) -> Cell {
    format!("{}/{}", row.int(&["status", "readyReplicas"]), row.int(&["spec", "replicas"])).into()
}
