//! What annotations make a simulated node or pod do.
//!
//! | annotation | on | meaning |
//! |---|---|---|
//! | `sim.setpoint.dev/start-seconds` | pod, node | how long a container takes to start |
//! | `sim.setpoint.dev/ready-seconds` | pod, node | how long after its start it becomes ready |
//! | `sim.setpoint.dev/stop-seconds` | pod, node | how long it takes to stop when asked; longer than the grace: killed, 137 |
//! | `sim.setpoint.dev/run-seconds` | pod | its containers end after this, whatever their command |
//! | `sim.setpoint.dev/exit-code` | pod | with this code (0) |
//! | both with `.CONTAINER` | pod | the same for one container |
//! | `sim.setpoint.dev/complete-seconds` | pod, node | how long a container with an unknown command runs in a pod that is to end (1) |
//! | `sim.setpoint.dev/pull-error` | pod | `true`, or names of containers: their images cannot be pulled |
//! | `sim.setpoint.dev/unready` | pod | `true`, or names of containers: they are not ready, as long as it is set |
//! | `sim.setpoint.dev/failure-probability` | node | of each start: 0 to 1 that the container ends at once with code 1 |
//! | `sim.setpoint.dev/silent` | node | `true`: no lease, no status, nothing about pods |
//! | `sim.setpoint.dev/not-ready` | node | `true`, or a reason for people: the node says it is not ready |
//!
//! Numbers are decimal; what is none counts as absent. Changes count from then on: what has started keeps its course, but for
//! `stop-seconds`, which is read when a pod stops, and `unready`.

use object::Value;

use super::command::{End, millis};
use crate::container_runtime::Health;

const PREFIX: &str = "sim.setpoint.dev/";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    pub start_millis: Option<i64>,
    pub ready_millis: Option<i64>,
    pub stop_millis: Option<i64>,
    pub complete_millis: Option<i64>,
    end: Option<End>,
    /// By container.
    ends: Vec<(String, End)>,
    pull_error: Option<String>,
    pub failure_probability: f64,
    silent: bool,
    not_ready: Option<String>,
}

impl Behaviour {
    pub fn read(annotations: Option<&Value>) -> Behaviour {
        let Some(annotations) = annotations.and_then(Value::as_map) else { return Behaviour::default() };
        let text = |name: &str| {
            let found = annotations.iter().find(|(key, _)| key.strip_prefix(PREFIX) == Some(name));
            found.and_then(|(_, value)| value.as_str())
        };
        let time = |name: &str| text(name).and_then(|number| millis(number, 1.0));
        let end = |of: &str| {
            let run = time(&format!("run-seconds{of}"));
            let code = text(&format!("exit-code{of}")).and_then(|code| code.parse().ok());
            (run.is_some() || code.is_some())
                .then(|| End { after_millis: run.unwrap_or(0), code: code.unwrap_or(0) })
        };
        let names = annotations.iter().filter_map(|(key, _)| key.strip_prefix(PREFIX)?.split_once('.'));
        let ends = names.filter_map(|(_, name)| Some((name.to_owned(), end(&format!(".{name}"))?))).collect();
        let probability = text("failure-probability").and_then(|p| p.parse::<f64>().ok());
        Behaviour {
            start_millis: time("start-seconds"),
            ready_millis: time("ready-seconds"),
            stop_millis: time("stop-seconds"),
            complete_millis: time("complete-seconds"),
            end: end(""),
            ends,
            pull_error: text("pull-error").map(str::to_owned),
            failure_probability: probability.filter(|p| p.is_finite()).unwrap_or(0.0).clamp(0.0, 1.0),
            silent: text("silent") == Some("true"),
            not_ready: text("not-ready").filter(|why| !matches!(*why, "" | "false")).map(str::to_owned),
        }
    }

    /// How a container ends, whatever its command.
    pub fn end_of(&self, container: &str) -> Option<End> {
        self.ends.iter().find(|(name, _)| name == container).map(|(_, end)| *end).or(self.end)
    }

    /// Whether the image of a container cannot be pulled.
    pub fn fails_to_pull(&self, container: &str) -> bool {
        self.pull_error.as_deref().is_some_and(|names| lists(names, container))
    }

    pub fn health(&self) -> Health {
        match &self.not_ready {
            _ if self.silent => Health::Unreachable,
            None => Health::Ready,
            Some(why) if why == "true" => Health::NotReady(format!("{PREFIX}not-ready is set")),
            Some(why) => Health::NotReady(why.clone()),
        }
    }
}

/// Which containers an annotation keeps from being ready: asked of every pod again and again, so nothing else is read.
#[derive(Clone, Copy)]
pub struct Unready<'a>(Option<&'a str>);

impl<'a> Unready<'a> {
    pub fn read(annotations: Option<&'a Value>) -> Unready<'a> {
        let mut all = annotations.and_then(Value::as_map).into_iter().flat_map(|all| all.iter());
        let found = all.find(|(key, _)| key.strip_prefix(PREFIX) == Some("unready"));
        Unready(found.and_then(|(_, value)| value.as_str()))
    }

    pub fn contains(self, container: &str) -> bool {
        self.0.is_some_and(|names| lists(names, container))
    }
}

/// `true`, or names separated by commas.
fn lists(names: &str, container: &str) -> bool {
    names == "true" || names.split(',').any(|name| name.trim() == container)
}
