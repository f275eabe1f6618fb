//! Columns of the small kinds of the core group.

use object::Value;

use super::row::{Row, at, condition, containers, is_true, quantity, text};
use super::selector::labels;
use super::{Cell, Column, Printer};

pub(super) static COMPONENT_STATUS: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Status", "Healthy, Unhealthy or Unknown."),
        Column::text("Message", "What the component says of itself."),
        Column::text("Error", "Why its health could not be asked."),
    ],
    component_status,
);

fn component_status(row: &Row<'_>, out: &mut Vec<Cell>) {
    let health = condition(row.list(&["conditions"]), "Healthy");
    let word = match health {
        None => "Unknown",
        Some(condition) if is_true(condition) => "Healthy",
        Some(_) => "Unhealthy",
    };
    let said = |name| Cell::from(health.map_or("", |c| text(c, &[name])));
    out.extend([row.name(), word.into(), said("message"), said("error")]);
}

pub(super) static CONFIG_MAP: Printer = Printer::new(
    &[Column::NAME, Column::text("Data", "How many entries it holds."), Column::AGE],
    |row, out| {
        let entries = row.count(&["data"]).saturating_add(row.count(&["binaryData"]));
        out.extend([row.name(), entries.into(), row.age()]);
    },
);

pub(super) static NAMESPACE: Printer = Printer::new(
    &[Column::NAME, Column::text("Status", "Active or Terminating."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["status", "phase"]).into(), row.age()]),
);

pub(super) static POD_TEMPLATE: Printer = Printer::new(
    &[
        Column::NAME,
        Column { priority: 0, ..Column::CONTAINERS },
        Column { priority: 0, ..Column::IMAGES },
        Column::text("Pod Labels", "Labels of the pods made from the template."),
    ],
    |row, out| {
        let [names, images] = containers(row.object, &["template", "spec"]);
        out.extend([row.name(), names, images, labels(row.at(&["template", "metadata", "labels"])).into()]);
    },
);

pub(super) static RESOURCE_QUOTA: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Request", "Used and allowed of each resource, limits aside."),
        Column::text("Limit", "Used and allowed of each limit."),
        Column::AGE,
    ],
    resource_quota,
);

fn resource_quota(row: &Row<'_>, out: &mut Vec<Cell>) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = row.at(&["status", "hard"]).and_then(Value::as_map);
    let mut hard: Vec<(&str, &Value)> =
        hard.into_iter().flat_map(|m| m.iter().map(|(k, v)| (&**k, v))).collect();
    hard.sort_by_key(|(name, _)| *name);
    let used = at(row.object, &["status", "used"]).unwrap_or(&Value::Null);
    for (name, allowed) in hard {
        let line = format!("{name}: {}/{}", quantity(used, &[name]), quantity(allowed, &[]));
        if name.starts_with("limits.") { limits.push(line) } else { requests.push(line) }
    }
    out.extend([row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]);
}

pub(super) static SECRET: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Type", "What the secret is for."),
        Column::text("Data", "How many entries it holds."),
        Column::AGE,
    ],
    |row, out| out.extend([row.name(), row.text(&["type"]).into(), row.count(&["data"]).into(), row.age()]),
);

pub(super) static SERVICE_ACCOUNT: Printer =
    Printer::new(&[Column::NAME, Column::AGE], |row, out| out.extend([row.name(), row.age()]));
