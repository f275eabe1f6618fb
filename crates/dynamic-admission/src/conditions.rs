//! Upstream's metrics of match conditions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use ::metrics::{Bounds, Histogram, header};
use admission::Operation;
use parking_lot::Mutex;

const MILLIS: u64 = 1_000_000;
const DURATIONS: Bounds<7> = Bounds {
    values: [MILLIS, 5 * MILLIS, 10 * MILLIS, 25 * MILLIS, 100 * MILLIS, 200 * MILLIS, 250 * MILLIS],
    labels: ["0.001", "0.005", "0.01", "0.025", "0.1", "0.2", "0.25"],
    per_unit: 1_000_000_000,
};
/// Series of one family; those beyond are not counted.
const MAX_SERIES: usize = 4096;

/// Of webhooks and policies.
#[derive(Default)]
pub struct MatchConditionMetrics {
    /// Guards the series; held to count one evaluation.
    series: Mutex<BTreeMap<String, Series>>,
}

#[derive(Default)]
struct Series {
    durations: Histogram<7>,
    errors: u64,
    exclusions: u64,
}

/// Whose conditions: `webhook` or `policy`, `admit` or `validate`, and its name.
#[derive(Clone, Copy)]
pub(crate) struct Whose<'a> {
    pub kind: &'static str,
    pub phase: &'static str,
    pub name: &'a str,
}

impl MatchConditionMetrics {
    /// One evaluation: how many conditions failed, and whether it kept somebody from being asked.
    pub(crate) fn evaluated(
        &self,
        whose: Whose<'_>,
        operation: Operation,
        took: Duration,
        errors: usize,
        excluded: bool,
    ) {
        let Whose { kind, phase, name } = whose;
        let operation = operation.name();
        let labels = format!("kind=\"{kind}\",name=\"{name}\",operation=\"{operation}\",type=\"{phase}\"");
        let mut series = self.series.lock();
        if series.len() < MAX_SERIES || series.contains_key(&labels) {
            let series = series.entry(labels).or_default();
            series.durations.took(&DURATIONS, took);
            series.errors += errors as u64;
            // As upstream, which counts those of webhooks only.
            series.exclusions += u64::from(excluded && kind == "webhook");
        }
    }

    pub fn write(&self, out: &mut String) {
        let series = self.series.lock();
        let name = "apiserver_admission_match_condition_evaluation_seconds";
        header(out, name, "histogram", "Latency of match conditions of webhooks and policies in seconds.");
        for (labels, series) in series.iter() {
            series.durations.write(out, name, labels, &DURATIONS, 0);
        }
        type Count = fn(&Series) -> u64;
        let families: [(&str, &str, Count); 2] = [
            (
                "apiserver_admission_match_condition_evaluation_errors_total",
                "Number of match conditions that could not be evaluated.",
                |series| series.errors,
            ),
            (
                "apiserver_admission_match_condition_exclusions_total",
                "Number of requests that webhooks were not asked about because of their match conditions.",
                |series| series.exclusions,
            ),
        ];
        for (name, help, count) in families {
            header(out, name, "counter", help);
            for (labels, series) in series.iter().filter(|(_, series)| count(series) > 0) {
                let _ = writeln!(out, "{name}{{{labels}}} {}", count(series));
            }
        }
    }
}
