//! Columns of flow schemas.

use object::Value;

use crate::columns::row::{condition, int, text};
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
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
