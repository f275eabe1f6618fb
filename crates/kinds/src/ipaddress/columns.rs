//! Columns of IP addresses.

use crate::columns::row::text;
use crate::columns::{Column, StaticPrinter};

// Differs from kube-apiserver: its rows carry an age without a column, which clients cut off.
pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[Column::NAME, Column::text("ParentRef", "Object the address was given to.")],
    |row, out| {
        let parent = match row.at(&["spec", "parentRef"]) {
            None => "<none>".to_owned(),
            Some(parent) => {
                let part = |name| text(parent, &[name]);
                let mut out = part("resource").to_lowercase();
                if !part("group").is_empty() {
                    out.push('.');
                    out.push_str(&part("group").to_lowercase());
                }
                for name in [part("namespace")].into_iter().filter(|n| !n.is_empty()).chain([part("name")]) {
                    out.push('/');
                    out.push_str(name);
                }
                out
            }
        };
        // Upstream has a cell more than columns.
        out.extend([row.name(), parent.into(), row.age()]);
    },
);
