//! Columns of endpoints and endpoint slices: the first few addresses.

use object::Value;

use super::row::{Row, at, int, list, scalar, some_of, strings, text};
use super::{Cell, Column, Printer};

/// So many addresses or ports are shown; then it says how many more there are.
const SHOWN: usize = 3;

pub(super) static ENDPOINTS: Printer = Printer::new(
    &[Column::NAME, Column::text("Endpoints", "Addresses and ports that serve."), Column::AGE],
    |row, out| out.extend([row.name(), addresses(row.list(&["subsets"])).into(), row.age()]),
);

fn addresses(subsets: &[Value]) -> String {
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut shown = Vec::new();
    let mut all = 0usize;
    for subset in subsets {
        let ips = list(subset, &["addresses"]);
        let ports = list(subset, &["ports"]);
        // A headless service may have no ports: its addresses stand alone.
        let pairs = ports.len().max(1).saturating_mul(ips.len());
        all = all.saturating_add(pairs);
        for i in 0..pairs.min(SHOWN.saturating_sub(shown.len())) {
            let ip = text(&ips[i % ips.len()], &["ip"]);
            shown.push(match ports.get(i / ips.len()) {
                Some(port) => host_port(ip, int(port, &["port"])),
                None => ip.to_owned(),
            });
        }
    }
    some_of(&shown, all, SHOWN, ",")
}

fn host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) static ENDPOINT_SLICE: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("AddressType", "Kind of the addresses."),
        Column::text("Ports", "Ports the endpoints serve on."),
        Column::text("Endpoints", "Addresses of the endpoints."),
        Column::AGE,
    ],
    endpoint_slice,
);

fn endpoint_slice(row: &Row<'_>, out: &mut Vec<Cell>) {
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
