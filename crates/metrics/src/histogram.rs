//! Histograms of atomics: an observation is two additions, no lock and no float.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in whole units (nanoseconds, bytes, seconds) and as Prometheus writes them.
pub struct Bounds<const N: usize> {
    pub values: [u64; N],
    pub labels: [&'static str; N],
    /// Units per unit of the metric: nanoseconds in a second.
    pub per_unit: u64,
}

/// Counts by bucket. The bounds are passed with every use: they are constants of the metric.
pub struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    over: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Histogram {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            over: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Histogram<N> {
    pub fn observe(&self, bounds: &Bounds<N>, value: u64) {
        let at = bounds.values.iter().position(|bound| value <= *bound);
        at.map_or(&self.over, |at| &self.counts[at]).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub fn took(&self, bounds: &Bounds<N>, took: Duration) {
        self.observe(bounds, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().chain([&self.over]).map(|c| c.load(Ordering::Relaxed)).sum()
    }

    /// The series under `labels` (without a trailing comma); bounds before `from` are added to it.
    pub fn write(&self, out: &mut String, name: &str, labels: &str, bounds: &Bounds<N>, from: usize) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut sum = 0;
        for (at, count) in self.counts.iter().enumerate() {
            sum += count.load(Ordering::Relaxed);
            if at >= from {
                let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {sum}", bounds.labels[at]);
            }
        }
        sum += self.over.load(Ordering::Relaxed);
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {sum}");
        self.write_totals(out, name, labels, bounds, sum);
    }

    /// The same as a summary without quantiles.
    pub fn write_summary(&self, out: &mut String, name: &str, labels: &str, bounds: &Bounds<N>) {
        self.write_totals(out, name, labels, bounds, self.count());
    }

    fn write_totals(&self, out: &mut String, name: &str, labels: &str, bounds: &Bounds<N>, count: u64) {
        let total = self.sum.load(Ordering::Relaxed) as f64 / bounds.per_unit as f64;
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(out, "{name}_sum{open}{labels}{close} {total}");
        let _ = writeln!(out, "{name}_count{open}{labels}{close} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Bounds<3> =
        Bounds { values: [1024, 2048, 4096], labels: ["1024", "2048", "4096"], per_unit: 1 };

    #[test]
    fn a_bound_belongs_to_its_own_bucket_and_buckets_add_up() {
        let histogram = Histogram::default();
        for bytes in [0, 1024, 1025, 200_000] {
            histogram.observe(&EVENT, bytes);
        }
        let mut text = String::new();
        histogram.write(&mut text, "x", "", &EVENT, 0);
        assert!(text.starts_with("x_bucket{le=\"1024\"} 2\nx_bucket{le=\"2048\"} 3\n"), "{text}");
        assert!(text.ends_with("x_bucket{le=\"+Inf\"} 4\nx_sum 202049\nx_count 4\n"), "{text}");
    }
}
