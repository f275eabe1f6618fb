//! What people watch a scheduler by, under the names they know.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Weak;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::Histogram;

use crate::engine::Engine;
use crate::queue::Lengths;

/// Upper bounds of the buckets in seconds: upstream's, a millisecond doubled fourteen times, and finer ones below, where
/// decisions are.
const ATTEMPT: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128,
    0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// From a hundredth of a second, doubled nineteen times.
const WHOLE: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
    655.36, 1310.72, 2621.44, 5242.88,
];
const ATTEMPTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0];
const VICTIMS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Attempts from here on are one label.
const MANY_ATTEMPTS: u32 = 15;

pub struct Metrics {
    /// Guards the numbers; touched once a decision.
    numbers: Mutex<Numbers>,
    /// Gone with the term it served.
    engine: Weak<Mutex<Engine>>,
}

struct Numbers {
    attempts: BTreeMap<(&'static str, String), Histogram>,
    algorithm: Histogram,
    /// From the first time a pod waited to its binding, by the number of attempts.
    whole: BTreeMap<u32, Histogram>,
    needed: Histogram,
    preemption_attempts: u64,
    victims: Histogram,
    bind_errors: u64,
}

impl Metrics {
    /// `engine` is asked who waits when somebody wants to know.
    pub(crate) fn new(engine: Weak<Mutex<Engine>>) -> Metrics {
        let numbers = Numbers {
            attempts: BTreeMap::new(),
            algorithm: Histogram::new(ATTEMPT),
            whole: BTreeMap::new(),
            needed: Histogram::new(ATTEMPTS),
            preemption_attempts: 0,
            victims: Histogram::new(VICTIMS),
            bind_errors: 0,
        };
        Metrics { numbers: Mutex::new(numbers), engine }
    }

    /// An attempt that took so long, binding included: "scheduled", "unschedulable" or "error".
    pub fn attempt(&self, result: &'static str, profile: &str, took: Duration) {
        let mut numbers = self.numbers.lock();
        let attempts = numbers.attempts.entry((result, profile.to_owned()));
        attempts.or_insert_with(|| Histogram::new(ATTEMPT)).observe(took.as_secs_f64());
    }
    /// A decision that took so long, without what came of it.
    pub fn decided(&self, took: Duration) {
        self.numbers.lock().algorithm.observe(took.as_secs_f64());
    }
    /// A pod was bound after so many attempts, so long after it came.
    pub fn scheduled(&self, attempts: u32, took: Duration) {
        let mut numbers = self.numbers.lock();
        numbers.needed.observe(f64::from(attempts));
        let whole = numbers.whole.entry(attempts.min(MANY_ATTEMPTS));
        whole.or_insert_with(|| Histogram::new(WHOLE)).observe(took.as_secs_f64());
    }
    pub fn preempted(&self, victims: usize) {
        let mut numbers = self.numbers.lock();
        numbers.preemption_attempts += 1;
        numbers.victims.observe(victims as f64);
    }
    pub fn bind_failed(&self) {
        self.numbers.lock().bind_errors += 1;
    }

    /// How many decisions had this result, over all profiles.
    pub fn attempts(&self, result: &str) -> u64 {
        let numbers = self.numbers.lock();
        numbers.attempts.iter().filter(|((r, _), _)| *r == result).map(|(_, a)| a.count()).sum()
    }

    /// In the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.render_queues(&mut out);
        let numbers = self.numbers.lock();
        let labels =
            |(result, profile): &(&str, String)| format!("profile=\"{profile}\",result=\"{result}\"");
        let name = "scheduler_schedule_attempts_total";
        head(&mut out, name, "counter", "Attempts to schedule pods, by result and profile.");
        for (of, attempts) in &numbers.attempts {
            let _ = writeln!(out, "{name}{{{}}} {}", labels(of), attempts.count());
        }
        let name = "scheduler_scheduling_attempt_duration_seconds";
        head(&mut out, name, "histogram", "Time an attempt took, binding included, by result and profile.");
        for (of, attempts) in &numbers.attempts {
            attempts.render(name, &labels(of), &mut out);
        }
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        head(&mut out, name, "histogram", "Time a decision took.");
        numbers.algorithm.render(name, "", &mut out);
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        head(&mut out, name, "histogram", "Time from a pod's first wait to its binding, by attempts.");
        for (attempts, whole) in &numbers.whole {
            let more = if *attempts == MANY_ATTEMPTS { "+" } else { "" };
            whole.render(name, &format!("attempts=\"{attempts}{more}\""), &mut out);
        }
        let name = "scheduler_pod_scheduling_attempts";
        head(&mut out, name, "histogram", "Attempts it took to schedule a pod.");
        numbers.needed.render(name, "", &mut out);
        let name = "scheduler_preemption_attempts_total";
        head(&mut out, name, "counter", "Preemptions so far.");
        let _ = writeln!(out, "{name} {}", numbers.preemption_attempts);
        let name = "scheduler_preemption_victims";
        head(&mut out, name, "histogram", "Pods deleted to make room, by preemption.");
        numbers.victims.render(name, "", &mut out);
        let name = "scheduler_bind_errors_total";
        head(&mut out, name, "counter", "Bindings the server refused.");
        let _ = writeln!(out, "{name} {}", numbers.bind_errors);
        out
    }

    fn render_queues(&self, out: &mut String) {
        let Some(engine) = self.engine.upgrade() else { return };
        let engine = engine.lock();
        let name = "scheduler_pending_pods";
        head(out, name, "gauge", "Pods that wait for a node, by queue.");
        let Lengths { active, backoff, unschedulable, gated } = engine.lengths();
        for (queue, length) in
            [("active", active), ("backoff", backoff), ("gated", gated), ("unschedulable", unschedulable)]
        {
            let _ = writeln!(out, "{name}{{queue=\"{queue}\"}} {length}");
        }
        let name = "scheduler_queue_incoming_pods_total";
        head(out, name, "counter", "Pods that came to a queue, by queue and event.");
        for ((queue, event), count) in engine.queue().incoming() {
            let _ = writeln!(out, "{name}{{event=\"{event}\",queue=\"{queue}\"}} {count}");
        }
        let name = "scheduler_unschedulable_pods";
        head(out, name, "gauge", "Pods that wait because a plugin rejected them, by plugin.");
        for (plugin, count) in engine.queue().rejections() {
            let _ = writeln!(out, "{name}{{plugin=\"{}\"}} {count}", plugin.name());
        }
        let name = "scheduler_cache_size";
        head(out, name, "gauge", "Nodes and placed pods the scheduler knows.");
        let _ = writeln!(out, "{name}{{type=\"nodes\"}} {}", engine.cluster().nodes());
        let _ = writeln!(out, "{name}{{type=\"pods\"}} {}", engine.cluster().pods());
    }
}

/// The lines before a metric's values.
fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
