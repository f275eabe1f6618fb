//! What one measured phase gave.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::histogram::Histogram;

/// The key of `failures` for a connection or a watch that ended without a status.
pub const BROKEN: u16 = 0;

#[derive(Clone)]
pub struct Tally {
    pub seconds: f64,
    /// Requests answered with success.
    pub requests: u64,
    /// Watch events received, summed over the watchers.
    pub events: u64,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// From sending a request to the last byte of its answer, in nanoseconds.
    pub latency: Histogram,
    /// From sending a create to receiving its event, in nanoseconds, for every watcher.
    pub lag: Histogram,
    /// By status code.
    pub failures: BTreeMap<u16, u64>,
    pub first_failure: Option<String>,
    /// Of the server's processes, if their ids are known.
    pub server_cpu: Option<Duration>,
    pub server_rss_peak: Option<u64>,
    pub generator_cpu: Duration,
    /// Notes of a scenario, printed below the table.
    pub notes: Vec<String>,
}

impl Tally {
    pub fn new() -> Self {
        Tally {
            seconds: 0.0,
            requests: 0,
            events: 0,
            bytes: 0,
            latency: Histogram::new(),
            lag: Histogram::new(),
            failures: BTreeMap::new(),
            first_failure: None,
            server_cpu: None,
            server_rss_peak: None,
            generator_cpu: Duration::ZERO,
            notes: Vec::new(),
        }
    }

    /// Discards the warm-up, its failures included: persistent ones occur again.
    pub fn clear(&mut self) {
        self.requests = 0;
        self.events = 0;
        self.bytes = 0;
        self.latency.clear();
        self.lag.clear();
        self.failures.clear();
    }

    /// Adds another round of the same scenario on the same server.
    pub fn merge(&mut self, other: &Tally) {
        self.seconds += other.seconds;
        self.requests += other.requests;
        self.events += other.events;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.lag.merge(&other.lag);
        for (code, count) in &other.failures {
            *self.failures.entry(*code).or_default() += count;
        }
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
        self.server_cpu = sum(self.server_cpu, other.server_cpu);
        self.server_rss_peak = self.server_rss_peak.max(other.server_rss_peak);
        self.generator_cpu += other.generator_cpu;
        self.notes.extend_from_slice(&other.notes);
    }

    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

fn sum(left: Option<Duration>, right: Option<Duration>) -> Option<Duration> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (one, other) => one.or(other),
    }
}
