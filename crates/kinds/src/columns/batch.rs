//! Columns of jobs and cron jobs.

use super::row::{Row, condition, containers, is_true, scalar, seconds_of};
use super::selector::label_selector;
use super::{Cell, Column, Printer, human_duration};

pub(super) static JOB: Printer = Printer::new(
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
        out.extend(containers(row.object, &["spec", "template", "spec"]));
        out.push(label_selector(row.at(&["spec", "selector"])).into());
    },
);

fn status(row: &Row<'_>) -> &'static str {
    let conditions = row.list(&["status", "conditions"]);
    let has = |kind: &&&str| condition(conditions, kind).is_some_and(is_true);
    // An end outweighs the deletion, the deletion what is still going on.
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

pub(super) static CRON_JOB: Printer = Printer::new(
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
    cron_job,
);

fn cron_job(row: &Row<'_>, out: &mut Vec<Cell>) {
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
    out.extend(containers(row.object, &["spec", "jobTemplate", "spec", "template", "spec"]));
    out.push(label_selector(row.at(&["spec", "jobTemplate", "spec", "selector"])).into());
}
