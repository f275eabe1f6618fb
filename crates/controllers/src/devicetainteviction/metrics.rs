//! How many pods were evicted, and how long after they had to be.

use std::fmt::Write as _;

use parking_lot::Mutex;
use runtime::Histogram;

/// 5 ms to 4 minutes.
const BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
const TOTAL: &str = "device_taint_eviction_controller_pod_deletions_total";
const TOTAL_HELP: &str =
    "[ALPHA] Total number of Pods deleted by DeviceTaintEvictionController since its start.";
const SECONDS: &str = "device_taint_eviction_controller_pod_deletion_duration_seconds";
const SECONDS_HELP: &str = "[ALPHA] Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via DeviceTaintEvictionController.";

pub struct Metrics {
    /// Guards the latencies; touched once for each eviction.
    seconds: Mutex<Histogram>,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics { seconds: Mutex::new(Histogram::new(BUCKETS)) }
    }

    pub fn evicted(&self, seconds_late: f64) {
        self.seconds.lock().observe(seconds_late);
    }

    pub fn render(&self, out: &mut String) {
        let seconds = self.seconds.lock();
        let _ = writeln!(out, "# HELP {SECONDS} {SECONDS_HELP}\n# TYPE {SECONDS} histogram");
        seconds.render(SECONDS, "", out);
        let _ = writeln!(out, "# HELP {TOTAL} {TOTAL_HELP}\n# TYPE {TOTAL} counter");
        let _ = writeln!(out, "{TOTAL} {}", seconds.count());
    }
}
