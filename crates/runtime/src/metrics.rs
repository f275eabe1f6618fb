//! Numbers in the text form Prometheus reads, with the names and buckets people have dashboards for.

use std::collections::BTreeMap;
use std::fmt::Write;

use parking_lot::Mutex;

/// Of the work queues: ten nanoseconds, ten times more each.
pub(crate) const QUEUE_BUCKETS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// Of reconciles.
pub(crate) const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// How often each size occurred.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is larger than all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }
    pub fn observe(&mut self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts[place] += 1;
        self.sum += value;
    }
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn render(&self, name: &str, labels: &str, out: &mut String) {
        let (mut below, comma) = (0, if labels.is_empty() { "" } else { "," });
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {below}", number(*bound));
        }
        let all = self.count();
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {all}");
        let _ = writeln!(out, "{name}_sum{braced} {}", number(self.sum));
        let _ = writeln!(out, "{name}_count{braced} {all}");
    }
}

/// So many values of its labels a metric may have: some are names that users choose.
const MOST_LABELS: usize = 1000;

/// A counter for each set of labels.
pub struct Counters {
    name: &'static str,
    help: &'static str,
    /// Guards the counts by their labels as text; held to add one.
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    pub fn new(name: &'static str, help: &'static str) -> Counters {
        Counters { name, help, counts: Mutex::default() }
    }
    pub fn add(&self, labels: &[(&str, &str)], by: u64) {
        let mut counts = self.counts.lock();
        let labels = labels_text(labels);
        if counts.len() < MOST_LABELS || counts.contains_key(&labels) {
            *counts.entry(labels).or_default() += by;
        }
    }
    pub fn get(&self, labels: &[(&str, &str)]) -> u64 {
        self.counts.lock().get(&labels_text(labels)).copied().unwrap_or(0)
    }
    pub fn render(&self, out: &mut String) {
        head(self.name, "counter", self.help, out);
        for (labels, count) in &*self.counts.lock() {
            sample(self.name, labels, *count as f64, out);
        }
    }
}

/// A histogram for each set of labels.
pub struct Histograms {
    name: &'static str,
    help: &'static str,
    bounds: &'static [f64],
    /// Guards the histograms by their labels as text; held to add one value.
    all: Mutex<BTreeMap<String, Histogram>>,
}

impl Histograms {
    pub fn new(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Histograms {
        Histograms { name, help, bounds, all: Mutex::default() }
    }
    pub fn observe(&self, labels: &[(&str, &str)], value: f64) {
        let mut all = self.all.lock();
        let labels = labels_text(labels);
        if all.len() < MOST_LABELS || all.contains_key(&labels) {
            all.entry(labels).or_insert_with(|| Histogram::new(self.bounds)).observe(value);
        }
    }
    pub fn render(&self, out: &mut String) {
        head(self.name, "histogram", self.help, out);
        for (labels, histogram) in &*self.all.lock() {
            histogram.render(self.name, labels, out);
        }
    }
}

fn labels_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

/// The lines before a metric's values.
pub(crate) fn head(name: &str, kind: &str, help: &str, out: &mut String) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(crate) fn sample(name: &str, labels: &str, value: f64, out: &mut String) {
    let _ = writeln!(out, "{name}{{{labels}}} {}", number(value));
}

/// As Go prints it: large exponents only where the plain form is long.
fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once("e-").unwrap_or((&text, "0"));
        return format!("{mantissa}e-{exponent:0>2}");
    }
    value.to_string()
}
