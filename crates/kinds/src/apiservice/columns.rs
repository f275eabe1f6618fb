//! Columns of API services.

use crate::columns::row::{Row, condition, is_true, text};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Service", "Service that answers, or Local."),
        Column::text("Available", "Whether the group version is served."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let service = match row.at(&["spec", "service"]) {
        Some(service) => format!("{}/{}", text(service, &["namespace"]), text(service, &["name"])),
        None => "Local".to_owned(),
    };
    let available = match condition(row.list(&["status", "conditions"]), "Available") {
        None => "Unknown".to_owned(),
        Some(c) if is_true(c) || text(c, &["reason"]).is_empty() => text(c, &["status"]).to_owned(),
        Some(c) => format!("{} ({})", text(c, &["status"]), text(c, &["reason"])),
    };
    out.extend([row.name(), service.into(), available.into(), row.age()]);
}
