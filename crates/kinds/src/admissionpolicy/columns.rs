//! Columns of admission policies and their bindings.

use crate::columns::row::{Row, at, text};
use crate::columns::selector::selector_debug;
use crate::columns::{Cell, Column, StaticPrinter};

const PARAM_KIND: Column<'static> = Column::text("ParamKind", "Kind of the policy's parameters.");

pub(super) static VALIDATING: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::integer("Validations", "How many expressions are checked."),
        PARAM_KIND,
        Column::AGE,
    ],
    |row, out| policy(row, "validations", out),
);

pub(super) static MUTATING: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::integer("Mutations", "How many changes are made."), PARAM_KIND, Column::AGE],
    |row, out| policy(row, "mutations", out),
);

fn policy(row: &Row<'_>, counted: &str, out: &mut Vec<Cell>) {
    let kind = match row.at(&["spec", "paramKind"]) {
        Some(kind) => format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"])),
        None => "<unset>".to_owned(),
    };
    out.extend([row.name(), row.count(&["spec", counted]).into(), kind.into(), row.age()]);
}

pub(super) static BINDING: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("PolicyName", "Policy that is put to work."),
        Column::text("ParamRef", "Parameters it is given."),
        Column::AGE,
    ],
    |row, out| {
        out.extend([row.name(), row.text(&["spec", "policyName"]).into(), parameters(row).into(), row.age()]);
    },
);

fn parameters(row: &Row<'_>) -> String {
    let unset = || "<unset>".to_owned();
    let Some(reference) = row.at(&["spec", "paramRef"]) else { return unset() };
    match (text(reference, &["namespace"]), text(reference, &["name"])) {
        (_, "") => at(reference, &["selector"]).map_or_else(unset, selector_debug),
        // Whether the parameter has a namespace is not known here.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
