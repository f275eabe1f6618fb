//! Columns of ingresses.

use object::Value;

use crate::columns::row::text;
use crate::columns::{Column, StaticPrinter};
use crate::service::columns::ingress_addresses;

/// How many hosts are shown, followed by the number of the others.
const SHOWN: usize = 3;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Class", "Class of the controller that serves the ingress."),
        Column::text("Hosts", "Hosts its rules are for."),
        Column::text("Address", "Addresses of the load balancer."),
        Column::text("Ports", "Ports it listens on."),
        Column::AGE,
    ],
    |row, out| {
        let ports = if row.list(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
        out.extend([
            row.name(),
            row.optional(&["spec", "ingressClassName"], "<none>").into(),
            hosts(row.list(&["spec", "rules"])).into(),
            ingress_addresses(row).into(),
            ports.into(),
            row.age(),
        ]);
    },
);

fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    for rule in rules {
        let host = text(rule, &["host"]);
        if shown.len() == SHOWN {
            return format!("{} + {} more...", shown.join(","), rules.len() - SHOWN);
        }
        if !host.is_empty() {
            shown.push(host);
        }
    }
    if shown.is_empty() { "*".to_owned() } else { shown.join(",") }
}
