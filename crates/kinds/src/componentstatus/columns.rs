//! Columns of component statuses.

use crate::columns::row::{Row, condition, is_true, text};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Status", "Healthy, Unhealthy or Unknown."),
        Column::text("Message", "What the component says of itself."),
        Column::text("Error", "Why its health could not be asked."),
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let health = condition(row.list(&["conditions"]), "Healthy");
    let word = match health {
        None => "Unknown",
        Some(condition) if is_true(condition) => "Healthy",
        Some(_) => "Unhealthy",
    };
    let said = |name| Cell::from(health.map_or("", |c| text(c, &[name])));
    out.extend([row.name(), word.into(), said("message"), said("error")]);
}
