//! Columns of replica sets.

use crate::columns::StaticPrinter;
use crate::columns::row::containers;
use crate::columns::selector::label_selector;
use crate::columns::workload::{REPLICAS, replicas};
use crate::workload::POD_SPEC;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(REPLICAS, |row, out| {
    replicas(row, out);
    out.extend(containers(row.object, POD_SPEC));
    out.push(label_selector(row.at(&["spec", "selector"])).into());
});
