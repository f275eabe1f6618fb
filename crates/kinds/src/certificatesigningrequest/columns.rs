//! Columns of certificate signing requests.

use object::Value;

use crate::columns::row::{Row, condition};
use crate::columns::{Cell, Column, StaticPrinter, human_duration};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::AGE,
        Column::text("SignerName", "Signer that is asked."),
        Column::text("Requestor", "User who made the request."),
        Column::text("RequestedDuration", "How long the certificate should be valid."),
        Column::text("Condition", "What became of the request."),
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let validity = row.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
    out.extend([
        row.name(),
        row.age(),
        row.text_or(&["spec", "signerName"], "<none>").into(),
        row.text(&["spec", "username"]).into(),
        validity.map_or_else(|| "<none>".to_owned(), human_duration).into(),
        state(row).into(),
    ]);
}

fn state(row: &Row<'_>) -> String {
    let conditions = row.list(&["status", "conditions"]);
    let has = |kind| condition(conditions, kind).is_some();
    let mut words = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        words.push_str(",Failed");
    }
    if !row.text(&["status", "certificate"]).is_empty() {
        words.push_str(",Issued");
    }
    words
}
