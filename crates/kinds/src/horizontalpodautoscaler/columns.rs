//! Columns of horizontal pod autoscalers: each metric and its target.

use object::Value;

use crate::columns::row::{Row, at, scalar, some_of, text};
use crate::columns::{Cell, Column, StaticPrinter};

/// How many metrics are shown, followed by the number of the others.
const SHOWN: usize = 2;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Reference", "Object whose replicas are set."),
        Column::text("Targets", "Each metric's value and its target."),
        Column::text("MinPods", "Fewest replicas."),
        Column::text("MaxPods", "Most replicas."),
        Column::text("Replicas", "Replicas there are."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let target = |name| row.text(&["spec", "scaleTargetRef", name]);
    let least = row.at(&["spec", "minReplicas"]).map_or_else(|| "<unset>".to_owned(), scalar);
    out.extend([
        row.name(),
        format!("{}/{}", target("kind"), target("name")).into(),
        metrics(row.list(&["spec", "metrics"]), row.list(&["status", "currentMetrics"])).into(),
        least.into(),
        row.int(&["spec", "maxReplicas"]).into(),
        row.int(&["status", "currentReplicas"]).into(),
        row.age(),
    ]);
}

fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> =
        specs.iter().enumerate().take(SHOWN).map(|(i, spec)| metric(spec, statuses.get(i))).collect();
    some_of(&shown, specs.len(), SHOWN, ", ")
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let source = match text(spec, &["type"]) {
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    // Statuses are matched by position: one of another metric type does not belong to this metric.
    let status = status.and_then(|s| at(s, &[source]));
    let target = |name| at(spec, &[source, "target", name]);
    let current = |name| status.and_then(|s| at(s, &["current", name]));
    let unknown = || "<unknown>".to_owned();
    match source {
        "external" | "object" => match target("averageValue") {
            Some(wanted) => {
                let now = current("averageValue").map_or_else(unknown, scalar);
                format!("{now}/{} (avg)", scalar(wanted))
            }
            None => {
                let now = status.map_or_else(unknown, |_| pointer(current("value")));
                format!("{now}/{}", pointer(target("value")))
            }
        },
        "pods" => {
            let now = status.map_or_else(unknown, |_| pointer(current("averageValue")));
            format!("{now}/{}", pointer(target("averageValue")))
        }
        _ => {
            let name = text(spec, &[source, "name"]);
            match target("averageValue") {
                Some(wanted) => {
                    let now = status.map_or_else(unknown, |_| pointer(current("averageValue")));
                    format!("{name}: {now}/{}", scalar(wanted))
                }
                None => {
                    let percent = |v: &Value| format!("{}%", scalar(v));
                    let now = current("averageUtilization").map_or_else(unknown, percent);
                    let wanted = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
                    format!("{name}: {now}/{wanted}")
                }
            }
        }
    }
}

/// A quantity behind a pointer, as Go writes it when there is none.
fn pointer(quantity: Option<&Value>) -> String {
    quantity.map_or_else(|| "<nil>".to_owned(), scalar)
}
