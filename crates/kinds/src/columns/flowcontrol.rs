//! Columns of API priority and fairness.

use object::Value;

use super::row::{Row, condition, int, text};
use super::{Cell, Column, Printer};

pub(super) static FLOW_SCHEMA: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("PriorityLevel", "Priority level of matching requests."),
        Column::text("MatchingPrecedence", "Schemas with lower numbers are tried first."),
        Column::text("DistinguisherMethod", "How flows are told apart."),
        Column::AGE,
        Column::text("MissingPL", "Whether the priority level is missing."),
    ],
    |row, out| {
        let method = row.at(&["spec", "distinguisherMethod"]).map_or("<none>", |m| text(m, &["type"]));
        let dangling = condition(row.list(&["status", "conditions"]), "Dangling");
        out.extend([
            row.name(),
            row.text(&["spec", "priorityLevelConfiguration", "name"]).into(),
            precedence(row.object).into(),
            method.into(),
            row.age(),
            dangling.map_or("?", |c| text(c, &["status"])).into(),
        ]);
    },
)
.with_order(precedence);

fn precedence(schema: &Value) -> i64 {
    int(schema, &["spec", "matchingPrecedence"])
}

pub(super) static PRIORITY_LEVEL: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Type", "Limited or Exempt."),
        Column::text("NominalConcurrencyShares", "Its share of the server's concurrency."),
        Column::text("Queues", "How many queues it has."),
        Column::text("HandSize", "How many queues a flow may use."),
        Column::text("QueueLengthLimit", "How many requests wait in one queue at most."),
        Column::AGE,
    ],
    priority_level,
);

fn priority_level(row: &Row<'_>, out: &mut Vec<Cell>) {
    let limited = row.at(&["spec", "limited"]);
    let queuing = row.at(&["spec", "limited", "limitResponse", "queuing"]);
    let of = |part: Option<&Value>, name| part.map_or("<none>".into(), |p| Cell::from(int(p, &[name])));
    out.extend([
        row.name(),
        row.text(&["spec", "type"]).into(),
        of(limited, "nominalConcurrencyShares"),
        of(queuing, "queues"),
        of(queuing, "handSize"),
        of(queuing, "queueLengthLimit"),
        row.age(),
    ]);
}
