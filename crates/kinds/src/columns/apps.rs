//! Columns of the workloads that keep pods running, and of their revisions.

use object::Value;

use super::row::{Row, at, containers, text};
use super::selector::{label_selector, labels, selector_text};
use super::{Cell, Column, Printer};

const TEMPLATE: &[&str] = &["spec", "template", "spec"];

const REPLICAS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", "Pods there should be."),
    Column::integer("Current", "Pods there are."),
    Column::integer("Ready", "Pods that are ready."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

pub(super) static REPLICATION_CONTROLLER: Printer = Printer::new(REPLICAS, |row, out| {
    replicas(row, out);
    out.extend(containers(row.object, TEMPLATE));
    out.push(labels(row.at(&["spec", "selector"])).into());
});

pub(super) static REPLICA_SET: Printer = Printer::new(REPLICAS, |row, out| {
    replicas(row, out);
    out.extend(containers(row.object, TEMPLATE));
    out.push(label_selector(row.at(&["spec", "selector"])).into());
});

fn replicas(row: &Row<'_>, out: &mut Vec<Cell>) {
    out.extend([
        row.name(),
        row.int(&["spec", "replicas"]).into(),
        row.int(&["status", "replicas"]).into(),
        row.int(&["status", "readyReplicas"]).into(),
        row.age(),
    ]);
}

pub(super) static DEPLOYMENT: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Ready", "Pods that are ready, of those there should be."),
        Column::text("Up-to-date", "Pods made from the current template."),
        Column::text("Available", "Pods that have been ready for long enough."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
        Column::SELECTOR,
    ],
    |row, out| {
        out.extend([
            row.name(),
            ready_of_desired(row),
            row.int(&["status", "updatedReplicas"]).into(),
            row.int(&["status", "availableReplicas"]).into(),
            row.age(),
        ]);
        out.extend(containers(row.object, TEMPLATE));
        // A deployment has its own words: empty for no selector, `<invalid>` for a broken one.
        let selector = selector_text(row.at(&["spec", "selector"]));
        out.push(selector.unwrap_or_else(|| "<invalid>".to_owned()).into());
    },
);

pub(super) static STATEFUL_SET: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Ready", "Pods that are ready, of those there should be."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
    ],
    |row, out| {
        out.extend([row.name(), ready_of_desired(row), row.age()]);
        out.extend(containers(row.object, TEMPLATE));
    },
);

fn ready_of_desired(row: &Row<'_>) -> Cell {
    format!("{}/{}", row.int(&["status", "readyReplicas"]), row.int(&["spec", "replicas"])).into()
}

pub(super) static DAEMON_SET: Printer = Printer::new(
    &[
        Column::NAME,
        Column::integer("Desired", "Nodes that should run the pod."),
        Column::integer("Current", "Nodes that run the pod and should."),
        Column::integer("Ready", "Nodes where the pod is ready."),
        Column::integer("Up-to-date", "Nodes whose pod is made from the current template."),
        Column::integer("Available", "Nodes whose pod has been ready for long enough."),
        Column::text("Node Selector", "Labels of the nodes that run the pod."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
        Column::SELECTOR,
    ],
    |row, out| {
        let status = |name| Cell::from(row.int(&["status", name]));
        out.extend([
            row.name(),
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            labels(row.at(&["spec", "template", "spec", "nodeSelector"])).into(),
            row.age(),
        ]);
        out.extend(containers(row.object, TEMPLATE));
        out.push(label_selector(row.at(&["spec", "selector"])).into());
    },
);

/// The `scale` of any workload.
pub(super) static SCALE: Printer = Printer::new(
    &[
        Column { format: "", ..Column::NAME },
        Column::integer("Desired", "Pods there should be."),
        Column::integer("Available", "Pods there are."),
        Column::AGE,
    ],
    |row, out| {
        let (desired, present) = (row.int(&["spec", "replicas"]), row.int(&["status", "replicas"]));
        out.extend([row.name(), desired.into(), present.into(), row.age()]);
    },
);

pub(super) static CONTROLLER_REVISION: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Controller", "Object the revision belongs to."),
        Column::text("Revision", "Number of the revision."),
        Column::AGE,
    ],
    |row, out| {
        out.extend([row.name(), controller(row).into(), row.int(&["revision"]).into(), row.age()]);
    },
);

/// `statefulset.apps/web` of the owner that controls the object.
fn controller(row: &Row<'_>) -> String {
    let owners = row.list(&["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|o| at(o, &["controller"]).and_then(Value::as_bool) == Some(true));
    let Some(owner) = owner else { return "<none>".to_owned() };
    let (kind, name) = (text(owner, &["kind"]), text(owner, &["name"]));
    let group = text(owner, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    match (kind, group) {
        ("", "") => name.to_owned(),
        (kind, "") => format!("{}/{name}", kind.to_lowercase()),
        (kind, group) => format!("{}/{name}", format!("{kind}.{group}").to_lowercase()),
    }
}
