//! Columns of ingress classes.

use crate::columns::row::{Row, text};
use crate::columns::{Cell, Column, StaticPrinter};

const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Controller", "Controller that serves ingresses of the class."),
        Column::text("Parameters", "Object with settings for the controller."),
        Column::AGE,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let name = row.text(&["metadata", "name"]);
    let name = match row.annotation(DEFAULT_CLASS) {
        Some("true") => format!("{name} (default)"),
        _ => name.to_owned(),
    };
    let parameters = match row.at(&["spec", "parameters"]) {
        None => "<none>".to_owned(),
        Some(parameters) => {
            let group = parameters.str_at(&["apiGroup"]).map(|g| format!(".{g}")).unwrap_or_default();
            format!("{}{group}/{}", text(parameters, &["kind"]), text(parameters, &["name"]))
        }
    };
    out.extend([name.into(), row.text(&["spec", "controller"]).into(), parameters.into(), row.age()]);
}
