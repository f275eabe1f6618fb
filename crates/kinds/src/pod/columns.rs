//! Columns of pods, with the status kubectl shows.

use object::Value;

use crate::columns::row::{Row, at, condition, int, is_deleted, is_true, list, seconds_of, text, text_or};
use crate::columns::{Cell, Column, StaticPrinter};

pub(super) static PRINTER: StaticPrinter = StaticPrinter::new(
    &[
        Column::NAME,
        Column::text("Ready", "Containers that are ready, of all that should be."),
        Column::text("Status", "What the pod is doing, or what keeps it from running."),
        Column::text("Restarts", "How often its containers were started again, and when last."),
        Column::AGE,
        Column::text("IP", "First address of the pod.").wide(),
        Column::text("Node", "Node the pod is bound to.").wide(),
        Column::text("Nominated Node", "Node where others are being preempted for the pod.").wide(),
        Column::text("Readiness Gates", "Readiness gates that are true, of all the pod has.").wide(),
    ],
    cells,
)
.with_conditions(conditions);

fn cells(row: &Row<'_>, out: &mut Vec<Cell>) {
    let (spec, status) = (part(row.object, "spec"), part(row.object, "status"));
    let state = State::of(row.object, spec, status);
    let restarts = match state.restarts.last {
        Some(last) if state.restarts.count != 0 => {
            format!("{} ({} ago)", state.restarts.count, row.elapsed(last))
        }
        _ => state.restarts.count.to_string(),
    };
    let first_ip = list(status, &["podIPs"]).first().map_or("", |ip| text(ip, &["ip"]));
    let first_ip = if first_ip.is_empty() { "<none>" } else { first_ip };
    out.extend([
        row.name(),
        format!("{}/{}", state.ready, state.total).into(),
        state.word.into(),
        restarts.into(),
        row.age(),
        // Either field may be alone: the server keeps them in step.
        text_or(status, &["podIP"], first_ip).into(),
        text_or(spec, &["nodeName"], "<none>").into(),
        text_or(status, &["nominatedNodeName"], "<none>").into(),
        gates(spec, status).into(),
    ]);
}

fn conditions(object: &Value) -> Option<&'static str> {
    match text(object, &["status", "phase"]) {
        "Succeeded" => Some(
            r#"[{"type":"Completed","status":"True","reason":"Succeeded","message":"The pod has completed successfully."}]"#,
        ),
        "Failed" => {
            Some(r#"[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#)
        }
        _ => None,
    }
}

const NOTHING: &Value = &Value::Null;

fn part<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(NOTHING)
}

/// How often containers were started again, and the end of the last run before.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<i64>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(int(container, &["restartCount"]));
        let ended = seconds_of(at(container, &["lastState", "terminated", "finishedAt"]));
        // `None` is before any time.
        self.last = self.last.max(ended);
    }
}

struct State {
    word: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

impl State {
    fn of(object: &Value, spec: &Value, status: &Value) -> State {
        let phase = text(status, &["phase"]);
        let reason = text(status, &["reason"]);
        let conditions = list(status, &["conditions"]);
        let init = list(spec, &["initContainers"]);
        let gated = conditions
            .iter()
            .any(|c| text(c, &["type"]) == "PodScheduled" && text(c, &["reason"]) == "SchedulingGated");
        let word = match (gated, reason) {
            (true, _) => "SchedulingGated",
            (false, "") => phase,
            (false, reason) => reason,
        };
        let mut state = State {
            word: word.to_owned(),
            ready: 0,
            total: list(spec, &["containers"]).len() + init.iter().filter(|c| restarts_always(c)).count(),
            restarts: Restarts::default(),
        };
        let (all_done, sidecars) = state.read_init(init, list(status, &["initContainerStatuses"]));
        // A pod that was initialised once shows its containers even while a sidecar starts again.
        if all_done || condition(conditions, "Initialized").is_some_and(is_true) {
            state.restarts = sidecars;
            state.read_containers(list(status, &["containerStatuses"]), conditions);
        }
        if is_deleted(object) {
            if reason == "NodeLost" {
                state.word = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                state.word = "Terminating".to_owned();
            }
        }
        state
    }

    /// Init containers run one after the other: the first unfinished one gives the status. Returns whether all have finished, and
    /// the restarts of sidecars.
    fn read_init(&mut self, init: &[Value], statuses: &[Value]) -> (bool, Restarts) {
        let mut sidecars = Restarts::default();
        for (i, container) in statuses.iter().enumerate() {
            self.restarts.add(container);
            let sidecar = is_sidecar(init, container);
            if sidecar {
                sidecars.add(container);
            }
            let waiting = text(container, &["state", "waiting", "reason"]);
            self.word = match at(container, &["state", "terminated"]) {
                Some(terminated) if int(terminated, &["exitCode"]) == 0 => continue,
                _ if sidecar && flag(container, "started") => {
                    self.ready += usize::from(flag(container, "ready"));
                    continue;
                }
                Some(terminated) => format!("Init:{}", ending(terminated)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{i}/{}", init.len()),
            };
            return (false, sidecars);
        }
        (true, sidecars)
    }

    /// From the last to the first, so that the first container's reason wins.
    fn read_containers(&mut self, statuses: &[Value], conditions: &[Value]) {
        let mut running = false;
        let mut failure = None;
        for container in statuses.iter().rev() {
            self.restarts.add(container);
            let waiting = text(container, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.word = waiting.to_owned();
            } else if let Some(terminated) = at(container, &["state", "terminated"]) {
                self.word = ending(terminated);
                if int(terminated, &["exitCode"]) != 0 {
                    failure = Some(self.word.clone());
                }
            } else if flag(container, "ready") && at(container, &["state", "running"]).is_some() {
                running = true;
                self.ready += 1;
            }
        }
        // One container that has completed does not make the pod complete.
        if self.word == "Completed" {
            let ready = conditions.iter().any(|c| text(c, &["type"]) == "Ready" && is_true(c));
            self.word = match (running, failure) {
                (true, _) if ready => "Running".to_owned(),
                (_, Some(failure)) => failure,
                (true, None) => "NotReady".to_owned(),
                (false, None) => return,
            };
        }
    }
}

fn flag(container: &Value, name: &str) -> bool {
    container.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn restarts_always(container: &Value) -> bool {
    text(container, &["restartPolicy"]) == "Always"
}

fn is_sidecar(init: &[Value], status: &Value) -> bool {
    let name = text(status, &["name"]);
    init.iter().rev().find(|c| text(c, &["name"]) == name).is_some_and(restarts_always)
}

/// Why a container ended.
fn ending(terminated: &Value) -> String {
    match (text(terminated, &["reason"]), int(terminated, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(terminated, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn gates(spec: &Value, status: &Value) -> String {
    let gates = list(spec, &["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = list(status, &["conditions"]);
    let passed = |gate: &&Value| condition(conditions, text(gate, &["conditionType"])).is_some_and(is_true);
    format!("{}/{}", gates.iter().filter(passed).count(), gates.len())
}
