//! Columns of services: internal and external addresses.

use std::collections::BTreeSet;

use object::Value;

use crate::columns::row::{Row, int, list, strings, text};
use crate::columns::selector::labels;
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Type", "How the service is exposed."),
        Column::text("Cluster-IP", "First address inside the cluster."),
        Column::text("External-IP", "Addresses or name outside the cluster."),
        Column::text("Port(s)", "Ports, node ports and protocols."),
        Column::AGE,
        Column::text("Selector", "Labels of the pods behind the service.").wide(),
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let first = list(row.object, &["spec", "clusterIPs"]).first().and_then(Value::as_str);
    out.extend([
        row.name(),
        row.text(&["spec", "type"]).into(),
        first.unwrap_or_else(|| row.text_or(&["spec", "clusterIP"], "<none>")).into(),
        external(row).into(),
        ports(row.list(&["spec", "ports"])).into(),
        row.age(),
        labels(row.at(&["spec", "selector"])).into(),
    ]);
}

fn external(row: &Row<'_>) -> String {
    let chosen = strings(row.list(&["spec", "externalIPs"]));
    match row.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" if chosen.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => chosen.join(","),
        "LoadBalancer" => {
            let given = ingress_addresses(row);
            match (given.is_empty(), chosen.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => given,
                (true, false) => chosen.join(","),
                (false, false) => format!("{given},{}", chosen.join(",")),
            }
        }
        "ExternalName" => row.text(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// What a load balancer answers on, of a service or an ingress: addresses before names, sorted, each once.
pub(crate) fn ingress_addresses(row: &Row<'_>) -> String {
    let points = row.list(&["status", "loadBalancer", "ingress"]);
    let all: BTreeSet<&str> = points
        .iter()
        .map(|p| match text(p, &["ip"]) {
            "" => text(p, &["hostname"]),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

fn ports(ports: &[Value]) -> String {
    if ports.is_empty() {
        return "<none>".to_owned();
    }
    let texts: Vec<String> = ports
        .iter()
        .map(|p| {
            let (port, protocol) = (int(p, &["port"]), text(p, &["protocol"]));
            match int(p, &["nodePort"]) {
                node if node > 0 => format!("{port}:{node}/{protocol}"),
                _ => format!("{port}/{protocol}"),
            }
        })
        .collect();
    texts.join(",")
}
