//! Columns of jobs.

use crate::columns::row::{Row, condition, containers, is_true, scalar, seconds_of};
use crate::columns::selector::label_selector;
use crate::columns::{Column, StaticPrinter, human_duration};
use crate::workload::POD_SPEC;

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Status", "How the job is doing."),
        Column::text("Completions", "Pods that succeeded, of those that must."),
        Column::text("Duration", "Time the job took or has been running."),
        Column::AGE,
        Column::CONTAINERS,
        Column::IMAGES,
        Column::SELECTOR,
    ],
    |row, out| {
        out.extend([
            row.name(),
            status(row).into(),
            completions(row).into(),
            duration(row).into(),
            row.age(),
        ]);
        out.extend(containers(row.object, POD_SPEC));
        out.push(label_selector(row.at(&["spec", "selector"])).into());
    },
);

fn status(row: &Row<'_>) -> &'static str {
    let conditions = row.list(&["status", "conditions"]);
    let has = |kind: &&&str| condition(conditions, kind).is_some_and(is_true);
    // Finished takes precedence over deleted, deleted over running.
    let ended = ["Complete", "Failed"].iter().find(has);
    let going_on = || ["Suspended", "FailureTarget", "SuccessCriteriaMet"].iter().find(has);
    match ended {
        Some(word) => word,
        None if row.is_deleted() => "Terminating",
        None => going_on().unwrap_or(&"Running"),
    }
}

fn completions(row: &Row<'_>) -> String {
    let succeeded = row.int(&["status", "succeeded"]);
    match (row.at(&["spec", "completions"]), row.int(&["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{}", scalar(wanted)),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(row: &Row<'_>) -> String {
    let Some(start) = seconds_of(row.at(&["status", "startTime"])) else { return String::new() };
    match seconds_of(row.at(&["status", "completionTime"])) {
        Some(end) => human_duration(end.saturating_sub(start)),
        None => row.elapsed(start),
    }
}
