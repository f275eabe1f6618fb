//! Columns of controller revisions.

use object::Value;

use crate::columns::row::{Row, at, text};
use crate::columns::{Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
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
