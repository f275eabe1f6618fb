//! Columns of cron jobs.

use super::POD_SPEC;
use crate::columns::row::{Row, containers};
use crate::columns::selector::label_selector;
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Schedule", "When jobs are made, in cron's words."),
        Column::text("Timezone", "Time zone of the schedule."),
        Column::boolean("Suspend", "Whether no jobs are made for now."),
        Column::integer("Active", "Jobs that are running."),
        Column::text("Last Schedule", "Time since a job was made last."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
        Column::SELECTOR,
    ],
    cells,
);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let suspend = match row.flag(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match row.at(&["status", "lastScheduleTime"]) {
        Some(last) => row.since(Some(last)),
        None => "<none>".to_owned(),
    };
    out.extend([
        row.name(),
        row.text(&["spec", "schedule"]).into(),
        row.optional(&["spec", "timeZone"], "<none>").into(),
        suspend.into(),
        row.count(&["status", "active"]).into(),
        last.into(),
        row.age(),
    ]);
    out.extend(containers(row.object, POD_SPEC));
    out.push(label_selector(row.at(&["spec", "jobTemplate", "spec", "selector"])).into());
}
