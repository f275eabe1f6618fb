//! Columns of resource claims, with their state.

use crate::columns::row::Row;
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
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
