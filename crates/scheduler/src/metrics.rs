//! What people watch a scheduler by, under the names they know.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use parking_lot::Mutex;

use crate::queue::Lengths;

/// Upper bounds of the buckets in seconds: a millisecond doubled fourteen times, and finer below, where decisions are.
const BUCKETS: [f64; 12] =
    [0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 16.384];

#[derive(Default)]
pub struct Metrics {
    /// Guards the numbers; touched once a decision.
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    attempts: BTreeMap<(&'static str, String), Attempts>,
    pending: Lengths,
    preemption_attempts: u64,
    preemption_victims: u64,
    bind_errors: u64,
}

#[derive(Default, Clone)]
struct Attempts {
    count: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Metrics {
    /// A decision that took so long: "scheduled", "unschedulable" or "error".
    pub fn attempt(&self, result: &'static str, profile: &str, took: Duration) {
        let mut numbers = self.numbers.lock();
        let attempts = numbers.attempts.entry((result, profile.to_owned())).or_default();
        let seconds = took.as_secs_f64();
        attempts.count += 1;
        attempts.seconds += seconds;
        for (bucket, bound) in attempts.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
    pub fn pending(&self, lengths: Lengths) {
        self.numbers.lock().pending = lengths;
    }
    pub fn preempted(&self, victims: usize) {
        let mut numbers = self.numbers.lock();
        numbers.preemption_attempts += 1;
        numbers.preemption_victims += victims as u64;
    }
    pub fn bind_failed(&self) {
        self.numbers.lock().bind_errors += 1;
    }

    /// How many decisions had this result, over all profiles.
    pub fn attempts(&self, result: &str) -> u64 {
        let numbers = self.numbers.lock();
        numbers.attempts.iter().filter(|((r, _), _)| *r == result).map(|(_, a)| a.count).sum()
    }

    /// In the text format of Prometheus.
    pub fn render(&self) -> String {
        let numbers = self.numbers.lock();
        let mut out = String::new();
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        let name = "scheduler_schedule_attempts_total";
        head(&mut out, name, "counter", "Attempts to schedule pods, by result and profile.");
        for ((result, profile), attempts) in &numbers.attempts {
            let _ = writeln!(out, "{name}{{profile=\"{profile}\",result=\"{result}\"}} {}", attempts.count);
        }
        let name = "scheduler_scheduling_attempt_duration_seconds";
        head(&mut out, name, "histogram", "Time a decision took, by result and profile.");
        for ((result, profile), attempts) in &numbers.attempts {
            let labels = format!("profile=\"{profile}\",result=\"{result}\"");
            for (bucket, bound) in attempts.buckets.iter().zip(BUCKETS) {
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {bucket}");
            }
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", attempts.count);
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", attempts.seconds);
            let _ = writeln!(out, "{name}_count{{{labels}}} {}", attempts.count);
        }
        let name = "scheduler_pending_pods";
        head(&mut out, name, "gauge", "Pods that wait for a node, by queue.");
        let Lengths { active, backoff, unschedulable, gated } = numbers.pending;
        for (queue, length) in
            [("active", active), ("backoff", backoff), ("gated", gated), ("unschedulable", unschedulable)]
        {
            let _ = writeln!(out, "{name}{{queue=\"{queue}\"}} {length}");
        }
        let name = "scheduler_preemption_attempts_total";
        head(&mut out, name, "counter", "Preemptions so far.");
        let _ = writeln!(out, "{name} {}", numbers.preemption_attempts);
        let name = "scheduler_preemption_victims_total";
        head(&mut out, name, "counter", "Pods deleted to make room.");
        let _ = writeln!(out, "{name} {}", numbers.preemption_victims);
        let name = "scheduler_bind_errors_total";
        head(&mut out, name, "counter", "Bindings the server refused.");
        let _ = writeln!(out, "{name} {}", numbers.bind_errors);
        out
    }
}
