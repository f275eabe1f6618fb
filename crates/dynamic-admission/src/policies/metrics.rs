//! Upstream's metrics of admission policies.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use ::metrics::{Bounds, Histogram, header};
use admission_policy::ErrorType;
use parking_lot::Mutex;

const MILLIS: u64 = 1_000_000;
const DURATIONS: Bounds<5> = Bounds {
    values: [500, MILLIS, 10 * MILLIS, 100 * MILLIS, 1_000 * MILLIS],
    labels: ["5e-07", "0.001", "0.01", "0.1", "1"],
    per_unit: 1_000_000_000,
};
/// Series of one family; policies beyond them are not counted.
const MAX_SERIES: usize = 4096;

/// By the labels, as Prometheus writes them.
type Series = BTreeMap<String, Histogram<5>>;

/// A check is counted where it came to anything but a plain yes; a mutation always.
#[derive(Default)]
pub struct PolicyMetrics {
    /// Guard the series; held to count one check.
    validating: Mutex<Series>,
    mutating: Mutex<Series>,
}

fn observe(series: &Mutex<Series>, labels: String, took: Duration) {
    let mut series = series.lock();
    if series.len() < MAX_SERIES || series.contains_key(&labels) {
        series.entry(labels).or_default().took(&DURATIONS, took);
    }
}

impl PolicyMetrics {
    pub(super) fn validated(&self, names: (&str, &str), error: ErrorType, action: &str, took: Duration) {
        let ((policy, binding), error) = (names, error.as_str());
        let labels = format!(
            "enforcement_action=\"{action}\",error_type=\"{error}\",policy=\"{policy}\",policy_binding=\"{binding}\""
        );
        observe(&self.validating, labels, took);
    }

    pub(super) fn mutated(&self, names: (&str, &str), error: ErrorType, took: Duration) {
        let ((policy, binding), error) = (names, error.as_str());
        let labels = format!("error_type=\"{error}\",policy=\"{policy}\",policy_binding=\"{binding}\"");
        observe(&self.mutating, labels, took);
    }

    pub fn write(&self, out: &mut String) {
        let families = [
            ("apiserver_validating_admission_policy", "validations", &self.validating),
            ("apiserver_mutating_admission_policy", "mutations", &self.mutating),
        ];
        for (prefix, what, series) in families {
            let series = series.lock();
            let name = format!("{prefix}_check_total");
            header(out, &name, "counter", &format!("Number of checks of admission policies: {what}."));
            for (labels, checks) in series.iter() {
                let _ = writeln!(out, "{name}{{{labels}}} {}", checks.count());
            }
            let name = format!("{prefix}_check_duration_seconds");
            header(out, &name, "histogram", &format!("Latency of {what} of admission policies in seconds."));
            for (labels, checks) in series.iter() {
                checks.write(out, &name, labels, &DURATIONS, 0);
            }
        }
    }
}
