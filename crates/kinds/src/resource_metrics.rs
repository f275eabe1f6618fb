//! Columns of metrics.k8s.io: what nodes and pods use, as metrics-server shows it.

use object::Value;
use object::quantity::{Format, Quantity};

use crate::columns::row::Row;
use crate::columns::{Cell, Column, Printer, StaticPrinter};

static COLUMNS: [Column<'static>; 4] = [
    Column::NAME,
    Column { format: "quantity", ..Column::text("cpu", "CPU used, in cores.") },
    Column { format: "quantity", ..Column::text("memory", "Memory used, in bytes.") },
    Column { format: "duration", ..Column::text("Window", "Time over which it was measured.") },
];

static NODE_METRICS: StaticPrinter = StaticPrinter::new(&COLUMNS, node_cells);
static POD_METRICS: StaticPrinter = StaticPrinter::new(&COLUMNS, pod_cells);

/// The columns of PodMetrics, or of NodeMetrics.
pub fn printer(of_pods: bool) -> &'static dyn Printer {
    if of_pods { &POD_METRICS } else { &NODE_METRICS }
}

fn node_cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let used = |name: &str| row.text(&["usage", name]).into();
    out.extend([row.name(), used("cpu"), used("memory"), row.text(&["window"]).into()]);
}

fn pod_cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let containers = row.list(&["containers"]);
    let used = |name: &str| sum(containers.iter().filter_map(|of| of.at(&["usage", name]))).into();
    out.extend([row.name(), used("cpu"), used("memory"), row.text(&["window"]).into()]);
}

/// The sum of quantities, in the form of the first; `0` of none.
pub fn sum<'a>(quantities: impl Iterator<Item = &'a Value>) -> String {
    let read = |value: &Value| Quantity::parse(value.as_str()?).ok();
    let (mut milli, mut format) = (0i64, None);
    for quantity in quantities.filter_map(read) {
        milli = milli.saturating_add(quantity.as_milli());
        format = format.or(Some(quantity.format()));
    }
    Quantity::from_milli(milli, format.unwrap_or(Format::DecimalSi)).to_string()
}
