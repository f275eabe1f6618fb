//! Durations counted in buckets that grow with the value: a fixed 60 KB, within 1 % of the exact value, cheap to add to.

/// Buckets per power of two. 128 keeps the width of a bucket under 1/128 of its value.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Histogram { counts: vec![0; bucket_of(u64::MAX) + 1], total: 0 }
    }

    pub fn record(&mut self, nanos: u64) {
        self.counts[bucket_of(nanos)] += 1;
        self.total += 1;
    }

    /// Like `record`, for a client that sends every `interval` but not while a response is late: the requests it did not send
    /// would have waited for the rest of that time, and are counted (coordinated omission).
    pub fn record_with_missed(&mut self, nanos: u64, interval_nanos: u64) {
        let mut left = nanos;
        self.record(left);
        while left > interval_nanos {
            left -= interval_nanos;
            self.record(left);
        }
    }

    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// The value that `fraction` (0.5 for p50) of the recorded ones do not exceed; `None` when nothing was recorded.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((fraction * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle_of(bucket));
            }
        }
        None
    }
}

/// Values below `SUB` have a bucket each; above, the top `SUB_BITS + 1` bits name the bucket.
fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    (u64::from(shift) * SUB + (value >> shift)) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB {
        return bucket;
    }
    let shift = bucket / SUB - 1;
    let low = (bucket - shift * SUB) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn buckets_are_consecutive_and_hold_their_middle() {
        let mut last = bucket_of(0);
        for value in 1..100_000u64 {
            let bucket = bucket_of(value);
            assert!(bucket == last || bucket == last + 1, "gap before {value}");
            last = bucket;
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
        assert_eq!(bucket_of(middle_of(bucket_of(u64::MAX))), bucket_of(u64::MAX));
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::new();
        for value in 1..=1_000_000u64 {
            histogram.record(value * 37);
        }
        for fraction in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = fraction * 1_000_000.0 * 37.0;
            let got = histogram.quantile(fraction).unwrap() as f64;
            assert!((got - exact).abs() / exact < 0.01, "{fraction}: {got} for {exact}");
        }
    }

    #[test]
    fn requests_delayed_by_a_slow_one_are_counted() {
        let mut histogram = Histogram::new();
        histogram.record_with_missed(100, 30);
        assert_eq!(
            (histogram.total, histogram.quantile(0.01), histogram.quantile(1.0)),
            (4, Some(10), Some(100))
        );
        histogram.record_with_missed(30, 30);
        assert_eq!(histogram.total, 5);
    }

    #[test]
    fn merged_histogram_counts_both() {
        let (mut left, mut right) = (Histogram::new(), Histogram::new());
        left.record(10);
        right.record(1_000_000);
        left.merge(&right);
        assert_eq!(left.total, 2);
        assert_eq!(left.quantile(0.5), Some(10));
        left.clear();
        assert_eq!(left.quantile(0.5), None);
    }
}
