//! Columns of kinds that are alone in their group.

use super::row::{Row, condition, is_true, scalar, text};
use super::{Cell, Column, Printer};

pub(super) static API_SERVICE: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Service", "Service that answers, or Local."),
        Column::text("Available", "Whether the group version is served."),
        Column::AGE,
    ],
    api_service,
);

fn api_service(row: &Row<'_>, out: &mut Vec<Cell>) {
    let service = match row.at(&["spec", "service"]) {
        Some(service) => format!("{}/{}", text(service, &["namespace"]), text(service, &["name"])),
        None => "Local".to_owned(),
    };
    let available = match condition(row.list(&["status", "conditions"]), "Available") {
        None => "Unknown".to_owned(),
        Some(c) if is_true(c) || text(c, &["reason"]).is_empty() => text(c, &["status"]).to_owned(),
        Some(c) => format!("{} ({})", text(c, &["status"]), text(c, &["reason"])),
    };
    out.extend([row.name(), service.into(), available.into(), row.age()]);
}

pub(super) static LEASE: Printer =
    Printer::new(&[Column::NAME, Column::text("Holder", "Who holds the lease."), Column::AGE], |row, out| {
        out.extend([row.name(), row.text(&["spec", "holderIdentity"]).into(), row.age()])
    });

pub(super) static RUNTIME_CLASS: Printer = Printer::new(
    &[Column::NAME, Column::text("Handler", "Handler the container runtime uses."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["handler"]).into(), row.age()]),
);

pub(super) static POD_DISRUPTION_BUDGET: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Min Available", "Pods that must stay."),
        Column::text("Max Unavailable", "Pods that may be missing."),
        Column::integer("Allowed Disruptions", "Pods that may be evicted now."),
        Column::AGE,
    ],
    |row, out| {
        let bound = |name| row.at(&["spec", name]).map_or_else(|| "N/A".to_owned(), scalar).into();
        out.extend([
            row.name(),
            bound("minAvailable"),
            bound("maxUnavailable"),
            row.int(&["status", "disruptionsAllowed"]).into(),
            row.age(),
        ]);
    },
);

pub(super) static PRIORITY_CLASS: Printer = Printer::new(
    &[
        Column::NAME,
        Column::integer("Value", "Priority of pods of the class."),
        Column::boolean("Global-Default", "Whether pods without a class get this one."),
        Column::AGE,
        Column::text("PreemptionPolicy", "Whether pods of the class push others out."),
    ],
    |row, out| {
        out.extend([
            row.name(),
            row.int(&["value"]).into(),
            row.flag(&["globalDefault"]).unwrap_or(false).into(),
            row.age(),
            row.text(&["preemptionPolicy"]).into(),
        ]);
    },
);
