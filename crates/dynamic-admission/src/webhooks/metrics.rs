//! Upstream's metrics of admission webhooks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use ::metrics::{Bounds, Histogram, header};
use admission::{Operation, Phase};
use parking_lot::Mutex;

use super::call::Failure;
use super::hook::Webhook;

const MILLIS: u64 = 1_000_000;
const DURATIONS: Bounds<8> = Bounds {
    values: [
        5 * MILLIS,
        25 * MILLIS,
        100 * MILLIS,
        500 * MILLIS,
        1_000 * MILLIS,
        2_500 * MILLIS,
        10_000 * MILLIS,
        25_000 * MILLIS,
    ],
    labels: ["0.005", "0.025", "0.1", "0.5", "1", "2.5", "10", "25"],
    per_unit: 1_000_000_000,
};
/// Series of one family; webhooks beyond them are not counted.
const MAX_SERIES: usize = 4096;

/// Labels of one series, as Prometheus writes them.
type Labels = String;

#[derive(Default)]
pub struct WebhookMetrics {
    /// Guards the series; held to count one call.
    series: Mutex<Series>,
}

#[derive(Default)]
struct Series {
    durations: BTreeMap<Labels, Histogram<8>>,
    requests: BTreeMap<Labels, u64>,
    rejections: BTreeMap<Labels, u64>,
    fail_open: BTreeMap<Labels, u64>,
}

/// Upstream's word in these metrics.
fn kind_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Admit => "admit",
        Phase::Validate => "validating",
    }
}

fn count(series: &mut BTreeMap<Labels, u64>, labels: Labels) {
    if series.len() < MAX_SERIES || series.contains_key(&labels) {
        *series.entry(labels).or_default() += 1;
    }
}

impl WebhookMetrics {
    pub(super) fn called(
        &self,
        hook: &Webhook,
        phase: Phase,
        operation: Operation,
        took: Duration,
        failure: Option<&Failure>,
    ) {
        let (name, kind, operation) = (&hook.name, kind_of(phase), operation.name());
        let (code, rejected, error_type) = match failure {
            None => (200, false, None),
            Some(Failure::Calling { code, .. }) if hook.ignores_failures => (*code, false, None),
            // A call that is given up is no rejection by the webhook.
            Some(Failure::Calling { code, canceled, .. }) => {
                (*code, true, (!canceled).then_some("calling_webhook_error"))
            }
            Some(Failure::Rejected(status)) => (status.code, true, Some("no_error")),
            Some(Failure::Internal(_)) => (0, true, Some("apiserver_internal_error")),
        };
        // Upstream's bound.
        let code = code.min(600);
        let mut series = self.series.lock();
        let labels =
            format!("name=\"{name}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{kind}\"");
        if series.durations.len() < MAX_SERIES || series.durations.contains_key(&labels) {
            series.durations.entry(labels).or_default().took(&DURATIONS, took);
        }
        let labels = format!(
            "code=\"{code}\",name=\"{name}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{kind}\""
        );
        count(&mut series.requests, labels);
        if let Some(error_type) = error_type {
            let labels = format!(
                "error_type=\"{error_type}\",name=\"{name}\",operation=\"{operation}\",rejection_code=\"{code}\",type=\"{kind}\""
            );
            count(&mut series.rejections, labels);
        }
    }

    pub(super) fn failed_open(&self, hook: &Webhook, phase: Phase) {
        let labels = format!("name=\"{}\",type=\"{}\"", hook.name, kind_of(phase));
        count(&mut self.series.lock().fail_open, labels);
    }

    pub fn write(&self, out: &mut String) {
        let series = self.series.lock();
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        header(
            out,
            name,
            "histogram",
            "Latency of each admission webhook in seconds, by operation and type (admit or validating).",
        );
        for (labels, histogram) in &series.durations {
            histogram.write(out, name, labels, &DURATIONS, 0);
        }
        let families = [
            (
                "apiserver_admission_webhook_request_total",
                "Number of calls of admission webhooks, by code.",
                &series.requests,
            ),
            (
                "apiserver_admission_webhook_rejection_count",
                "Number of rejections by admission webhooks, by what caused them.",
                &series.rejections,
            ),
            (
                "apiserver_admission_webhook_fail_open_count",
                "Number of failed calls of admission webhooks that were ignored.",
                &series.fail_open,
            ),
        ];
        for (name, help, series) in families {
            header(out, name, "counter", help);
            for (labels, value) in series {
                let _ = writeln!(out, "{name}{{{labels}}} {value}");
            }
        }
    }
}
