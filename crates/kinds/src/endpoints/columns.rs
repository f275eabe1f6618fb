//! Columns of endpoints: the first few addresses.

use object::Value;

use crate::columns::row::{int, list, some_of, text};
use crate::columns::{Column, StaticPrinter};

/// How many addresses or ports are shown, followed by the number of the others.
const SHOWN: usize = 3;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
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
