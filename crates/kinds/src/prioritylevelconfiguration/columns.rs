//! Columns of priority levels.

use object::Value;

use crate::columns::row::{Row, int};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Type", "Limited or Exempt."),
        Column::text("NominalConcurrencyShares", "Its share of the server's concurrency."),
        Column::text("Queues", "How many queues it has."),
        Column::text("HandSize", "How many queues a flow may use."),
        Column::text("QueueLengthLimit", "How many requests wait in one queue at most."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
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
