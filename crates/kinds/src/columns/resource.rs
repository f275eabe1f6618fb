//! Columns of the resource.k8s.io group: devices and claims on them.

use super::row::Row;
use super::{Cell, Column, Printer};

/// Device classes and claim templates.
pub(super) static NAME_AND_AGE: Printer =
    Printer::new(&[Column::NAME, Column::AGE], |row, out| out.extend([row.name(), row.age()]));

pub(super) static CLAIM: Printer = Printer::new(
    &[Column::NAME, Column::text("State", "How far the claim has come."), Column::AGE],
    |row, out| out.extend([row.name(), state(row).into(), row.age()]),
);

fn state(row: &Row<'_>) -> String {
    let deleted = row.is_deleted();
    let allocated = row.at(&["status", "allocation"]).is_some();
    let reserved = !row.list(&["status", "reservedFor"]).is_empty();
    let words = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && reserved, "reserved"),
    ];
    let words: Vec<&str> = words.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect();
    words.join(",")
}

pub(super) static SLICE: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Node", "Node the devices belong to."),
        Column::text("Driver", "Driver that offers the devices."),
        Column::text("Pool", "Pool the devices belong to."),
        Column::AGE,
    ],
    slice,
);

fn slice(row: &Row<'_>, out: &mut Vec<Cell>) {
    out.extend([
        row.name(),
        row.text(&["spec", "nodeName"]).into(),
        row.text(&["spec", "driver"]).into(),
        row.text(&["spec", "pool", "name"]).into(),
        row.age(),
    ]);
}
