//! Columns of events, the same through both groups that serve them.

use object::Value;

use crate::columns::row::{Row, int, seconds_of};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::text("Last Seen", "Time since it happened last."),
        Column::text("Type", "Normal or Warning."),
        Column::text("Reason", "Short word for why it happened."),
        Column::text("Object", "Object the event is about."),
        Column::text("Subobject", "Part of the object the event is about.").wide(),
        Column::text("Source", "Component that reported it.").wide(),
        Column::text("Message", "What happened."),
        Column::text("First Seen", "Time since it happened first.").wide(),
        Column::text("Count", "How often it happened.").wide(),
        Column { format: "name", ..Column::text("Name", "Name of the event.") }.wide(),
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let set = |name: &str| row.at(&[name]).filter(|v| seconds_of(Some(v)).is_some());
    let series = row.at(&["series"]);
    let first = row.since(set("firstTimestamp").or(set("eventTime")));
    let last = match (series, set("lastTimestamp")) {
        (Some(series), _) => row.since(series.get("lastObservedTime")),
        (None, Some(last)) => row.since(Some(last)),
        (None, None) => first.clone(),
    };
    // An event of the new API that happened once has no count.
    let count = match (series, row.int(&["count"])) {
        (Some(series), _) => int(series, &["count"]),
        (None, 0) => 1,
        (None, count) => count,
    };
    out.extend([
        last.into(),
        row.text(&["type"]).into(),
        row.text(&["reason"]).into(),
        target(row).into(),
        row.text(&["involvedObject", "fieldPath"]).into(),
        source(row.object).into(),
        row.text(&["message"]).trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]);
}

fn target(row: &Row<'_>) -> String {
    let kind = row.text(&["involvedObject", "kind"]).to_lowercase();
    match row.text(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let either = |old: [&str; 2], new: &str| -> String {
        let old = event.str_at(&old).filter(|t| !t.is_empty());
        old.or(event.str_at(&[new])).unwrap_or("").to_owned()
    };
    let component = either(["source", "component"], "reportingComponent");
    match either(["source", "host"], "reportingInstance") {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    }
}
