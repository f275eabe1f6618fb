//! Which APIServices are unavailable, and how often each became so, under upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{header, single};
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct AggregationMetrics {
    /// Guards both tables; held for a look-up, or while they are written out.
    counts: Mutex<Counts>,
    /// How often the aggregated discovery document was put together.
    documents: AtomicU64,
}

#[derive(Default)]
struct Counts {
    unavailable: BTreeMap<String, bool>,
    /// By name and reason.
    became: BTreeMap<(String, &'static str), u64>,
}

impl AggregationMetrics {
    pub fn set(&self, name: &str, available: bool) {
        self.counts.lock().unavailable.insert(name.to_owned(), !available);
    }

    pub fn became_unavailable(&self, name: &str, reason: &'static str) {
        *self.counts.lock().became.entry((name.to_owned(), reason)).or_default() += 1;
    }

    pub fn forget(&self, name: &str) {
        self.counts.lock().unavailable.remove(name);
    }

    pub fn aggregated_discovery(&self) {
        self.documents.fetch_add(1, Ordering::Relaxed);
    }

    pub fn write(&self, out: &mut String) {
        let name = "aggregator_discovery_aggregation_count_total";
        let help = "Number of times the aggregated discovery document was put together.";
        single(out, name, "counter", help, self.documents.load(Ordering::Relaxed));
        let counts = self.counts.lock();
        let name = "aggregator_unavailable_apiservice";
        header(out, name, "gauge", "APIServices that are marked as unavailable, by name.");
        for (service, unavailable) in &counts.unavailable {
            let _ = writeln!(out, "{name}{{name=\"{service}\"}} {}", u8::from(*unavailable));
        }
        if counts.became.is_empty() {
            return;
        }
        let name = "aggregator_unavailable_apiservice_total";
        header(out, name, "counter", "How often APIServices became unavailable, by name and reason.");
        for ((service, reason), count) in &counts.became {
            let _ = writeln!(out, "{name}{{name=\"{service}\",reason=\"{reason}\"}} {count}");
        }
    }
}
