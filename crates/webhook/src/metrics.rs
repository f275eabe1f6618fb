//! Upstream's metrics of conversion webhooks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use metrics::{Bounds, Histogram, header};
use parking_lot::Mutex;

/// What was wrong, as upstream labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureType {
    Call,
    MalformedResponse,
    PartialResponse,
    InvalidConvertedObject,
}

impl FailureType {
    fn label(self) -> &'static str {
        match self {
            FailureType::Call => "conversion_webhook_call_failure",
            FailureType::MalformedResponse => "conversion_webhook_malformed_response_failure",
            FailureType::PartialResponse => "conversion_webhook_partial_response_failure",
            FailureType::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

const MILLIS: u64 = 1_000_000;

const REQUESTS: Bounds<15> = Bounds {
    values: [
        5 * MILLIS,
        10 * MILLIS,
        20 * MILLIS,
        50 * MILLIS,
        100 * MILLIS,
        200 * MILLIS,
        500 * MILLIS,
        1_000 * MILLIS,
        2_000 * MILLIS,
        5_000 * MILLIS,
        10_000 * MILLIS,
        20_000 * MILLIS,
        30_000 * MILLIS,
        45_000 * MILLIS,
        60_000 * MILLIS,
    ],
    labels: [
        "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "30", "45", "60",
    ],
    per_unit: 1_000_000_000,
};

const CONVERSIONS: Bounds<15> = Bounds {
    values: {
        let mut values = [MILLIS; 15];
        let mut at = 1;
        while at < 15 {
            values[at] = values[at - 1] * 2;
            at += 1;
        }
        values
    },
    labels: [
        "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512", "1.024",
        "2.048", "4.096", "8.192", "16.384",
    ],
    per_unit: 1_000_000_000,
};

/// Counts conversions by webhook. One for the whole process.
#[derive(Default)]
pub struct ConversionMetrics {
    /// Guards the series; held for an observation, beside which calls take milliseconds.
    series: Mutex<Series>,
}

#[derive(Default)]
struct Series {
    requests: BTreeMap<Option<FailureType>, Histogram<15>>,
    conversions: BTreeMap<Conversion, Histogram<15>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Conversion {
    crd: String,
    from: String,
    to: String,
    succeeded: bool,
}

impl ConversionMetrics {
    /// A conversion of a CRD's objects, from and to a version, and what was wrong with it.
    pub(crate) fn observe(
        &self,
        crd: &str,
        (from, to): (&str, &str),
        failure: Option<FailureType>,
        took: Duration,
    ) {
        let mut series = self.series.lock();
        series.requests.entry(failure).or_default().took(&REQUESTS, took);
        if from != to {
            let conversion = Conversion {
                crd: crd.to_owned(),
                from: from.to_owned(),
                to: to.to_owned(),
                succeeded: failure.is_none(),
            };
            series.conversions.entry(conversion).or_default().took(&CONVERSIONS, took);
        }
    }

    /// Forgets the series of a CRD that is gone.
    pub fn forget(&self, crd: &str) {
        self.series.lock().conversions.retain(|conversion, _| conversion.crd != crd);
    }

    /// Appends all series in Prometheus' text form.
    pub fn write(&self, out: &mut String) {
        let series = self.series.lock();
        let name = "apiserver_conversion_webhook_duration_seconds";
        header(out, name, "histogram", "[ALPHA] Conversion webhook request latency");
        for (failure, took) in &series.requests {
            took.write(out, name, &request_labels(*failure), &REQUESTS, 0);
        }
        let name = "apiserver_conversion_webhook_request_total";
        let help =
            "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type";
        header(out, name, "counter", help);
        for (failure, took) in &series.requests {
            let _ = writeln!(out, "{name}{{{}}} {}", request_labels(*failure), took.count());
        }
        let name = "apiserver_crd_conversion_webhook_duration_seconds";
        header(out, name, "histogram", "[ALPHA] CRD webhook conversion duration in seconds");
        for (Conversion { crd, from, to, succeeded }, took) in &series.conversions {
            let labels = format!(
                "crd_name=\"{crd}\",from_version=\"{from}\",succeeded=\"{succeeded}\",to_version=\"{to}\""
            );
            took.write(out, name, &labels, &CONVERSIONS, 0);
        }
    }
}

fn request_labels(failure: Option<FailureType>) -> String {
    match failure {
        None => "failure_type=\"\",result=\"success\"".to_owned(),
        Some(failure) => format!("failure_type=\"{}\",result=\"failure\"", failure.label()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_counted_by_outcome_and_crd() {
        let counted = ConversionMetrics::default();
        let took = Duration::from_millis(3);
        counted.observe("foos.s.io", ("v1", "v2"), None, took);
        counted.observe("foos.s.io", ("v1", "v2"), Some(FailureType::Call), took);
        counted.observe("bars.s.io", ("v2", "v2"), None, took);
        let mut text = String::new();
        counted.write(&mut text);
        let requests = "apiserver_conversion_webhook_request_total";
        for line in [
            format!("{requests}{{failure_type=\"\",result=\"success\"}} 2"),
            format!("{requests}{{failure_type=\"conversion_webhook_call_failure\",result=\"failure\"}} 1"),
            r#"apiserver_conversion_webhook_duration_seconds_bucket{failure_type="",result="success",le="0.005"} 2"#.to_owned(),
            r#"apiserver_crd_conversion_webhook_duration_seconds_bucket{crd_name="foos.s.io",from_version="v1",succeeded="true",to_version="v2",le="0.002"} 0"#.to_owned(),
            r#"apiserver_crd_conversion_webhook_duration_seconds_bucket{crd_name="foos.s.io",from_version="v1",succeeded="true",to_version="v2",le="0.004"} 1"#.to_owned(),
            r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="foos.s.io",from_version="v1",succeeded="false",to_version="v2"} 1"#.to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("bars.s.io"), "a version that stays is no conversion");
        counted.forget("foos.s.io");
        let mut text = String::new();
        counted.write(&mut text);
        assert!(!text.contains("foos.s.io"));
    }
}
