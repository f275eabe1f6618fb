//! Columns of the networking.k8s.io group.

use object::Value;

use super::row::{Row, strings, text};
use super::selector::label_selector;
use super::service::ingress_addresses;
use super::{Cell, Column, Printer};

/// So many hosts are shown; then it says how many more there are.
const SHOWN: usize = 3;

pub(super) static INGRESS: Printer = Printer::new(
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

const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

pub(super) static INGRESS_CLASS: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Controller", "Controller that serves ingresses of the class."),
        Column::text("Parameters", "Object with settings for the controller."),
        Column::AGE,
    ],
    ingress_class,
);

fn ingress_class(row: &Row<'_>, out: &mut Vec<Cell>) {
    let name = row.text(&["metadata", "name"]);
    let name = match row.annotation(DEFAULT_CLASS) {
        Some("true") => format!("{name} (default)"),
        _ => name.to_owned(),
    };
    let parameters = match row.at(&["spec", "parameters"]) {
        None => "<none>".to_owned(),
        Some(parameters) => {
            let group = parameters.str_at(&["apiGroup"]).map(|g| format!(".{g}")).unwrap_or_default();
            format!("{}{group}/{}", text(parameters, &["kind"]), text(parameters, &["name"]))
        }
    };
    out.extend([name.into(), row.text(&["spec", "controller"]).into(), parameters.into(), row.age()]);
}

// Differs from kube-apiserver: its rows carry an age without a column, which clients cut off.
pub(super) static IP_ADDRESS: Printer = Printer::new(
    &[Column::NAME, Column::text("ParentRef", "Object the address was given to.")],
    |row, out| {
        let parent = match row.at(&["spec", "parentRef"]) {
            None => "<none>".to_owned(),
            Some(parent) => {
                let part = |name| text(parent, &[name]);
                let mut out = part("resource").to_lowercase();
                if !part("group").is_empty() {
                    out.push('.');
                    out.push_str(&part("group").to_lowercase());
                }
                for name in [part("namespace")].into_iter().filter(|n| !n.is_empty()).chain([part("name")]) {
                    out.push('/');
                    out.push_str(name);
                }
                out
            }
        };
        // Upstream has a cell more than columns.
        out.extend([row.name(), parent.into(), row.age()]);
    },
);

pub(super) static NETWORK_POLICY: Printer = Printer::new(
    &[Column::NAME, Column::text("Pod-Selector", "Labels of the pods the policy is for."), Column::AGE],
    |row, out| {
        out.extend([row.name(), label_selector(row.at(&["spec", "podSelector"])).into(), row.age()]);
    },
);

pub(super) static SERVICE_CIDR: Printer = Printer::new(
    &[Column::NAME, Column::text("CIDRs", "Ranges addresses of services come from."), Column::AGE],
    |row, out| {
        out.extend([row.name(), strings(row.list(&["spec", "cidrs"])).join(",").into(), row.age()]);
    },
);
