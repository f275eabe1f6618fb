//! Columns of nodes.

use std::collections::BTreeSet;

use object::Value;

use crate::columns::row::{Row, is_true, text};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Status", "Whether the node is ready and takes new pods."),
        Column::text("Roles", "Roles of the node, by its labels."),
        Column::AGE,
        Column::text("Version", "Version of its kubelet."),
        Column::text("Internal-IP", "First address inside the cluster.").wide(),
        Column::text("External-IP", "First address outside the cluster.").wide(),
        Column::text("OS-Image", "Operating system the node runs.").wide(),
        Column::text("Kernel-Version", "Version of its kernel, and the architecture.").wide(),
        Column::text("Container-Runtime", "Container runtime and its version.").wide(),
    ],
    cells,
);

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let info = |name| row.text(&["status", "nodeInfo", name]);
    let known = |name| row.text_or(&["status", "nodeInfo", name], "<unknown>");
    let kernel = match info("architecture") {
        "" => known("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", known("kernelVersion")),
    };
    out.extend([
        row.name(),
        status(row).into(),
        roles(row).into(),
        row.age(),
        info("kubeletVersion").into(),
        address(row, "InternalIP").into(),
        address(row, "ExternalIP").into(),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]);
}

fn status(row: &Row<'_>) -> String {
    let ready = row.list(&["status", "conditions"]).iter().rev().find(|c| text(c, &["type"]) == "Ready");
    let word = match ready {
        None => "Unknown",
        Some(condition) if is_true(condition) => "Ready",
        Some(_) => "NotReady",
    };
    let closed = row.flag(&["spec", "unschedulable"]) == Some(true);
    if closed { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(row: &Row<'_>) -> String {
    let labels = row.at(&["metadata", "labels"]).and_then(Value::as_map);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flat_map(|labels| labels.iter())
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if *key == *ROLE => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(row: &Row<'a>, kind: &str) -> &'a str {
    let address = row.list(&["status", "addresses"]).iter().find(|a| text(a, &["type"]) == kind);
    address.map_or("<none>", |a| text(a, &["address"]))
}
