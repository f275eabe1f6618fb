//! Snapshots of levels, queues and requests for `/debug/api_priority_and_fairness/*`.

use crate::control::FlowControl;
use crate::estimate::WorkEstimate;
use crate::queue_set::{About, Flow, Phase, Totals};
use crate::{Nanos, SECOND};

/// A priority level.
#[derive(Debug)]
pub struct LevelDump {
    pub name: String,
    pub active_queues: usize,
    pub idle: bool,
    pub quiescing: bool,
    pub totals: Totals,
    pub queues: Vec<QueueDump>,
    /// Requests that are not queued.
    pub executing: Vec<RequestDump>,
}

#[derive(Debug)]
pub struct QueueDump {
    pub executing_requests: usize,
    pub seats_in_use: u32,
    /// In seat-seconds, as are the sums of work.
    pub next_dispatch: f64,
    pub initial_seats: u32,
    pub max_seats: u32,
    pub work: f64,
    pub waiting: Vec<RequestDump>,
    pub executing: Vec<RequestDump>,
}

#[derive(Debug)]
pub struct RequestDump {
    pub schema: String,
    pub flow: String,
    pub about: About,
    pub estimate: WorkEstimate,
    /// Unix nanoseconds.
    pub arrived: u128,
    /// Of an executing request.
    pub started: Option<u128>,
}

impl FlowControl {
    pub fn dump(&self) -> Vec<LevelDump> {
        let config = self.config();
        config
            .levels
            .values()
            .map(|level| {
                let clock = level.clock();
                let (wall, now) = (clock.env().now_nanos(), clock.now());
                let on_the_wall = |at: Nanos| wall.saturating_sub(u128::from(now.saturating_sub(at)));
                let state = level.lock();
                let seat_seconds = |work: i128| work as f64 / SECOND as f64;
                let mut dump = LevelDump {
                    name: level.name.clone(),
                    active_queues: state
                        .set
                        .queues()
                        .iter()
                        .filter(|queue| !queue.waiting.is_empty())
                        .count(),
                    idle: state.set.is_idle(),
                    quiescing: state.quiescing,
                    totals: state.set.totals,
                    queues: Vec::new(),
                    executing: Vec::new(),
                };
                for queue in state.set.queues() {
                    dump.queues.push(QueueDump {
                        executing_requests: queue.executing,
                        seats_in_use: queue.seats_in_use,
                        next_dispatch: seat_seconds(queue.next_dispatch),
                        initial_seats: queue.initial_seats,
                        max_seats: queue.max_seats,
                        work: seat_seconds(queue.work),
                        waiting: Vec::new(),
                        executing: Vec::new(),
                    });
                }
                let mut requests: Vec<_> = state.set.requests().map(|(_, request)| request).collect();
                requests.sort_by_key(|request| request.arrived);
                for request in requests {
                    let started = match request.phase {
                        Phase::Waiting => None,
                        Phase::Executing { since } | Phase::Sending { since, .. } => Some(since),
                        Phase::Stalled | Phase::Lingering => continue,
                    };
                    let flow = match &request.about.flow {
                        Flow::All => String::new(),
                        Flow::User => request.about.user.name.clone(),
                        Flow::Namespace(namespace) => namespace.to_string(),
                    };
                    let row = RequestDump {
                        schema: request.stats.schema.clone(),
                        flow,
                        about: request.about.clone(),
                        estimate: request.estimate,
                        arrived: on_the_wall(request.arrived),
                        started: started.map(on_the_wall),
                    };
                    match request.queue.and_then(|at| dump.queues.get_mut(at)) {
                        Some(queue) if started.is_none() => queue.waiting.push(row),
                        Some(queue) => queue.executing.push(row),
                        None => dump.executing.push(row),
                    }
                }
                dump
            })
            .collect()
    }
}
