//! Columns of replication controllers.

use crate::columns::StaticPrinter;
use crate::columns::row::containers;
use crate::columns::selector::labels;
use crate::columns::workload::{REPLICAS, TEMPLATE, replicas};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(REPLICAS, |row, out| {
    replicas(row, out);
    out.extend(containers(row.object, TEMPLATE));
    out.push(labels(row.at(&["spec", "selector"])).into());
});
