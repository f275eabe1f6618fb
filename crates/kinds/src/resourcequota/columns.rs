//! Columns of resource quotas.

use object::Value;

use crate::columns::row::{Row, at, quantity};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Request", "Used and allowed of each resource, limits aside."),
        Column::text("Limit", "Used and allowed of each limit."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
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
