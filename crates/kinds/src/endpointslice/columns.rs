//! Columns of endpoint slices: the first few addresses and ports.

use object::Value;

use crate::columns::row::{Row, at, list, scalar, some_of, strings};
use crate::columns::{Cell, Column, StaticPrinter};

/// How many addresses or ports are shown, followed by the number of the others.
const SHOWN: usize = 3;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("AddressType", "Kind of the addresses."),
        Column::text("Ports", "Ports the endpoints serve on."),
        Column::text("Endpoints", "Addresses of the endpoints."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let ports = row.list(&["ports"]);
    let shown: Vec<String> = ports.iter().take(SHOWN).map(port).collect();
    let endpoints = row.list(&["endpoints"]);
    let addresses: Vec<&str> = endpoints.iter().flat_map(|e| strings(list(e, &["addresses"]))).collect();
    out.extend([
        row.name(),
        row.text(&["addressType"]).into(),
        unless_empty(some_of(&shown, ports.len(), SHOWN, ",")),
        unless_empty(some_of(&addresses, addresses.len(), SHOWN, ",")),
        row.age(),
    ]);
}

fn port(port: &Value) -> String {
    let number = at(port, &["port"]).map(scalar);
    number.or(port.str_at(&["name"]).map(str::to_owned)).unwrap_or_else(|| "*".to_owned())
}

fn unless_empty(text: String) -> Cell {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}
