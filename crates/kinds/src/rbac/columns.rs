//! Columns of role bindings of both scopes. Roles have none of their own.

use crate::columns::row::{Row, text};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static BINDING: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Role", "Role that is granted."),
        Column::AGE,
        Column::text("Users", "Users it is granted to.").wide(),
        Column::text("Groups", "Groups it is granted to.").wide(),
        Column::text("ServiceAccounts", "Service accounts it is granted to.").wide(),
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let role = |name| row.text(&["roleRef", name]);
    let (mut users, mut groups, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for subject in row.list(&["subjects"]) {
        let name = text(subject, &["name"]).to_owned();
        match text(subject, &["kind"]) {
            "User" => users.push(name),
            "Group" => groups.push(name),
            "ServiceAccount" => accounts.push(format!("{}/{name}", text(subject, &["namespace"]))),
            _ => {}
        }
    }
    out.extend([row.name(), format!("{}/{}", role("kind"), role("name")).into(), row.age()]);
    out.extend([users, groups, accounts].map(|names| names.join(", ").into()));
}
