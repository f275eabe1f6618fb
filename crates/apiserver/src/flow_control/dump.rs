//! `/debug/api_priority_and_fairness/*`: levels, queues and requests as tables, as kube-apiserver prints them.

use std::fmt::Write as _;

use flowcontrol::{LevelDump, RequestDump};
use object::time;

use crate::api::Api;
use crate::request_info::{Query, RequestTarget};
use crate::respond::{self, Answer};

/// `None` where there is no such page.
pub fn serve(api: &Api, path: &str, query: &Query<'_>) -> Option<Answer> {
    let levels = api.flow.dump();
    let table = match path.strip_prefix("/debug/api_priority_and_fairness/")? {
        "dump_priority_levels" => priority_levels(&levels),
        "dump_queues" => queues(&levels),
        "dump_requests" => requests(&levels, !query.get("includeRequestDetails").is_empty()),
        _ => return None,
    };
    Some(respond::answer(200, "text/plain; charset=utf-8", aligned(&table).into_bytes().into()))
}

type Rows = Vec<Vec<String>>;

fn header(names: &[&str]) -> Rows {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

fn priority_levels(levels: &[LevelDump]) -> Rows {
    let mut rows = header(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ]);
    for level in levels {
        let totals = &level.totals;
        rows.push(vec![
            level.name.clone(),
            level.active_queues.to_string(),
            level.idle.to_string(),
            level.quiescing.to_string(),
            totals.waiting.to_string(),
            totals.executing.to_string(),
            totals.dispatched.to_string(),
            totals.rejected.to_string(),
            totals.timed_out.to_string(),
            totals.cancelled.to_string(),
        ]);
    }
    rows
}

fn queues(levels: &[LevelDump]) -> Rows {
    let mut rows = header(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ]);
    for level in levels {
        for (at, queue) in level.queues.iter().enumerate() {
            rows.push(vec![
                level.name.clone(),
                at.to_string(),
                queue.waiting.len().to_string(),
                queue.executing_requests.to_string(),
                queue.seats_in_use.to_string(),
                format!("{:.8}ss", queue.next_dispatch),
                queue.initial_seats.to_string(),
                queue.max_seats.to_string(),
                format!("{:.8}ss", queue.work),
            ]);
        }
    }
    rows
}

fn requests(levels: &[LevelDump], details: bool) -> Rows {
    let mut names = vec![
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ];
    if details {
        let more =
            ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];
        names.extend(more);
    }
    let mut rows = header(&names);
    for level in levels {
        for (queue, of) in level.queues.iter().enumerate() {
            for (at, request) in of.waiting.iter().enumerate() {
                rows.push(request_row(&level.name, queue as i64, at as i64, request, details));
            }
            for request in &of.executing {
                rows.push(request_row(&level.name, queue as i64, -1, request, details));
            }
        }
        for request in &level.executing {
            rows.push(request_row(&level.name, -1, -1, request, details));
        }
    }
    rows
}

fn request_row(level: &str, queue: i64, at: i64, request: &RequestDump, details: bool) -> Vec<String> {
    let estimate = &request.estimate;
    let mut row = vec![
        level.to_owned(),
        request.schema.clone(),
        queue.to_string(),
        at.to_string(),
        request.flow.clone(),
        moment(request.arrived),
        estimate.initial_seats.to_string(),
        estimate.final_seats.to_string(),
        time::format_duration(estimate.additional_nanos as i64),
        // Go's zero time, for one that waits.
        request.started.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), moment),
    ];
    if details {
        let about = &request.about;
        row.extend([about.user.name.clone(), about.verb.to_owned()]);
        let path = about.uri.as_ref().map_or("", |uri| uri.path());
        row.push(path.to_owned());
        match RequestTarget::parse(&http::Method::GET, path, &Query::parse(None)) {
            RequestTarget::Resource(info) => {
                let slash = if info.group.is_empty() { "" } else { "/" };
                let version = format!("{}{slash}{}", info.group, info.version);
                row.extend([info.namespace.into_owned(), info.name.into_owned(), version]);
                row.extend([info.resource.into_owned(), info.subresource.into_owned()]);
            }
            RequestTarget::NonResource => row.extend(std::iter::repeat_n(String::new(), 5)),
        }
    }
    row
}

fn moment(unix_nanos: u128) -> String {
    time::format_micros((unix_nanos / 1_000_000_000) as i64, (unix_nanos % 1_000_000_000) as u32)
}

/// Columns as wide as their widest cell, each but the last followed by a comma, as Go's tabwriter aligns them.
fn aligned(rows: &Rows) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.len() + 2).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0).max(8)).collect();
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at + 1 < row.len() {
                let _ = write!(out, "{:<1$}", format!("{cell},"), widths[at]);
            } else {
                out.push_str(cell);
            }
        }
        out.push('\n');
    }
    out
}
