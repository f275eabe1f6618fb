//! Counters under the names people already have dashboards for, in Prometheus' text form.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use catalog::{Catalog, Resource, ResourceId};
use parking_lot::Mutex;

/// Upper bounds of the latency histogram, in seconds: upstream's.
const BUCKETS: [f64; 24] = [
    0.005,
    0.025,
    0.05,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    1.25,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    15.0,
    20.0,
    30.0,
    45.0,
    60.0,
    f64::INFINITY,
];

/// What a series is kept under. Only what the catalogue serves is counted, so the number of series is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesId {
    resource: ResourceId,
    /// Position among the resource's subresources, from 1; 0 is the resource itself.
    subresource: u8,
    verb: &'static str,
    scope: &'static str,
}

#[derive(Default)]
struct Series {
    /// By status code.
    codes: BTreeMap<(u16, bool), u64>,
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    /// Watches open now.
    running: i64,
}

/// All metrics of one server.
#[derive(Clone, Default)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Guards the request series; held for one update or one scrape.
    series: Mutex<BTreeMap<SeriesId, Series>>,
    reading: AtomicI64,
    writing: AtomicI64,
    watch_events: AtomicU64,
}

/// What a request is counted under.
pub struct Counted<'a> {
    pub resource: &'a Resource,
    pub subresource: &'a str,
    pub verb: &'static str,
    pub scope: &'static str,
    pub dry_run: bool,
}

/// Counts one watch while it lives.
pub struct LongRunning {
    metrics: Metrics,
    id: SeriesId,
}

impl LongRunning {
    pub fn events(&self, count: usize) {
        self.metrics.inner.watch_events.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        if let Some(series) = self.metrics.inner.series.lock().get_mut(&self.id) {
            series.running -= 1;
        }
    }
}

impl Metrics {
    pub fn request(&self, counted: &Counted<'_>, code: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|b| seconds <= *b).unwrap_or(BUCKETS.len() - 1);
        let mut all = self.inner.series.lock();
        let series = all.entry(id(counted)).or_default();
        *series.codes.entry((code, counted.dry_run)).or_default() += 1;
        series.buckets[bucket] += 1;
        series.sum += seconds;
    }

    pub fn long_running(&self, counted: &Counted<'_>) -> LongRunning {
        let id = id(counted);
        self.inner.series.lock().entry(id).or_default().running += 1;
        LongRunning { metrics: self.clone(), id }
    }

    /// How many requests of that sort are under way; the caller adds and takes away.
    pub fn in_flight(&self, writing: bool) -> &AtomicI64 {
        if writing { &self.inner.writing } else { &self.inner.reading }
    }

    /// `objects`: how many each resource holds.
    pub fn render(&self, catalog: &Catalog, objects: &[(String, usize)], started: f64) -> String {
        let mut out = String::with_capacity(16 * 1024);
        let all = self.inner.series.lock();
        let all: Vec<(String, &'static str, &Series)> =
            all.iter().map(|(id, series)| (labels(catalog, id), id.verb, series)).collect();
        header(
            &mut out,
            "apiserver_request_total",
            "counter",
            "Requests by verb, resource, scope and HTTP code.",
        );
        for (labels, _, series) in &all {
            for ((code, dry_run), count) in &series.codes {
                let dry_run = if *dry_run { "All" } else { "" };
                let _ = writeln!(
                    out,
                    "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"{dry_run}\",{labels}}} {count}"
                );
            }
        }
        let name = "apiserver_request_duration_seconds";
        header(&mut out, name, "histogram", "How long requests took, watches not counted.");
        for (labels, _, series) in all.iter().filter(|(_, verb, _)| *verb != "WATCH") {
            let mut sum = 0;
            for (bound, count) in BUCKETS.iter().zip(series.buckets) {
                sum += count;
                let bound = if bound.is_infinite() { "+Inf".to_owned() } else { bound.to_string() };
                let _ = writeln!(
                    out,
                    "{name}_bucket{{component=\"apiserver\",dry_run=\"\",{labels},le=\"{bound}\"}} {sum}"
                );
            }
            let _ =
                writeln!(out, "{name}_sum{{component=\"apiserver\",dry_run=\"\",{labels}}} {}", series.sum);
            let _ = writeln!(out, "{name}_count{{component=\"apiserver\",dry_run=\"\",{labels}}} {sum}");
        }
        header(&mut out, "apiserver_longrunning_requests", "gauge", "Watches open now.");
        for (labels, _, series) in all.iter().filter(|(_, verb, _)| *verb == "WATCH") {
            let _ = writeln!(
                out,
                "apiserver_longrunning_requests{{component=\"apiserver\",{labels}}} {}",
                series.running
            );
        }
        header(
            &mut out,
            "apiserver_current_inflight_requests",
            "gauge",
            "Requests under way now, watches not counted.",
        );
        for (kind, gauge) in [("mutating", &self.inner.writing), ("readOnly", &self.inner.reading)] {
            let _ = writeln!(
                out,
                "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {}",
                gauge.load(Ordering::Relaxed)
            );
        }
        header(&mut out, "apiserver_watch_events_total", "counter", "Events sent to watchers.");
        let _ =
            writeln!(out, "apiserver_watch_events_total {}", self.inner.watch_events.load(Ordering::Relaxed));
        header(&mut out, "apiserver_storage_objects", "gauge", "Objects held, by resource.");
        for (resource, count) in objects {
            let _ = writeln!(out, "apiserver_storage_objects{{resource=\"{resource}\"}} {count}");
        }
        process(&mut out, started);
        out
    }
}

fn id(counted: &Counted<'_>) -> SeriesId {
    let at = counted.resource.subresources.iter().position(|s| s.name == *counted.subresource);
    SeriesId {
        resource: counted.resource.id,
        subresource: at.map_or(0, |at| at as u8 + 1),
        verb: counted.verb,
        scope: counted.scope,
    }
}

fn labels(catalog: &Catalog, id: &SeriesId) -> String {
    let resource = catalog.resource(id.resource);
    let subresource = id.subresource.checked_sub(1).and_then(|at| resource.subresources.get(at as usize));
    format!(
        "group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
        resource.group,
        resource.plural,
        id.scope,
        subresource.map_or("", |s| &s.name),
        id.verb,
        resource.version
    )
}

fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// What /proc says of this process.
fn process(out: &mut String, started: f64) {
    let page = 4096.0;
    let memory = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = memory.split(' ').nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) * page;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: f64 = stat.rsplit(')').next().map_or(0.0, |rest| {
        rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum()
    });
    header(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
    let _ = writeln!(out, "process_resident_memory_bytes {resident}");
    header(out, "process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.");
    let _ = writeln!(out, "process_cpu_seconds_total {}", ticks / 100.0);
    header(
        out,
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
    );
    let _ = writeln!(out, "process_start_time_seconds {started}");
}
