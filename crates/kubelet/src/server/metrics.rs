//! `/metrics`: requests to this port, and what the node counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use env::Env;
use http::Method;
use metrics::{Bounds, Histogram, header, single};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::answer::{self, Answer};
use super::{Context, containers, stats};

const METHODS: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];
const PATHS: [&str; 18] = [
    "healthz",
    "pods",
    "stats",
    "metrics",
    "metrics/cadvisor",
    "metrics/probes",
    "metrics/resource",
    "run",
    "exec",
    "attach",
    "portForward",
    "containerLogs",
    "configz",
    "runningpods",
    "checkpoint",
    "logs",
    "statusz",
    "flagz",
];
const LONG_RUNNING: [&str; 3] = ["exec", "attach", "debug"];

const MILLISECOND: u64 = 1_000_000;
const DURATION: Bounds<11> = Bounds {
    values: [
        5 * MILLISECOND,
        10 * MILLISECOND,
        25 * MILLISECOND,
        50 * MILLISECOND,
        100 * MILLISECOND,
        250 * MILLISECOND,
        500 * MILLISECOND,
        1000 * MILLISECOND,
        2500 * MILLISECOND,
        5000 * MILLISECOND,
        10_000 * MILLISECOND,
    ],
    labels: ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10"],
    per_unit: 1000 * MILLISECOND,
};

/// Counts by method and path: a fixed number of both.
#[derive(Default)]
pub struct RequestMetrics {
    /// Guards the map; held to find an entry.
    series: Mutex<BTreeMap<(&'static str, &'static str), Arc<Series>>>,
}

#[derive(Default)]
struct Series {
    requests: AtomicU64,
    in_flight: AtomicI64,
    duration: Histogram<11>,
}

/// A request, until it is dropped.
pub struct InFlight {
    env: Env,
    begun: Instant,
    series: Arc<Series>,
    observed: bool,
}

impl RequestMetrics {
    pub fn begin(&self, env: &Env, method: &Method, path: &str) -> InFlight {
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
        let series = self.series.lock().entry((method, bucket(path))).or_default().clone();
        series.requests.fetch_add(1, Ordering::Relaxed);
        series.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { env: env.clone(), begun: env.monotonic(), series, observed: true }
    }

    fn write(&self, out: &mut String) {
        let series = self.series.lock().clone();
        let labels = |(method, path): &(&str, &str)| {
            let long = LONG_RUNNING.contains(path);
            format!("long_running=\"{long}\",method=\"{method}\",path=\"{path}\",server_type=\"readwrite\"")
        };
        let name = "kubelet_http_inflight_requests";
        header(out, name, "gauge", "[ALPHA] Number of the inflight http requests");
        for (of, series) in &series {
            let value = series.in_flight.load(Ordering::Relaxed);
            *out += &format!("{name}{{{}}} {value}\n", labels(of));
        }
        let name = "kubelet_http_requests_duration_seconds";
        header(out, name, "histogram", "[ALPHA] Duration in seconds to serve http requests");
        for (of, series) in &series {
            series.duration.write(out, name, &labels(of), &DURATION, 0);
        }
        let name = "kubelet_http_requests_total";
        header(out, name, "counter", "[ALPHA] Number of the http requests received since the server started");
        for (of, series) in &series {
            let value = series.requests.load(Ordering::Relaxed);
            *out += &format!("{name}{{{}}} {value}\n", labels(of));
        }
    }
}

impl InFlight {
    /// The session of a request is under way, too; its time is the request's.
    pub fn session(&self) -> InFlight {
        self.series.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { env: self.env.clone(), begun: self.begun, series: self.series.clone(), observed: false }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.series.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.observed {
            self.series.duration.took(&DURATION, self.env.monotonic() - self.begun);
        }
    }
}

/// The first part of a path, of metrics the first two.
fn bucket(path: &str) -> &'static str {
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let first = parts.next().unwrap_or("");
    let second = parts.next();
    let found = PATHS.into_iter().find(|known| match (first, second) {
        ("metrics", Some(second)) => known.strip_prefix("metrics/") == Some(second),
        _ => *known == first,
    });
    found.unwrap_or("other")
}

pub async fn serve(context: &Context) -> Answer {
    let mut out = String::new();
    context.metrics.write(&mut out);
    crate::node_metrics::write_build_info(&mut out);
    let name = "kubelet_node_name";
    header(&mut out, name, "gauge", "[ALPHA] The node's name. The count is always 1.");
    out += &format!("{name}{{node={:?}}} 1\n", context.node_name);
    let runtime = context.node.runtime();
    if let Ok(running) = containers::running_containers(&*runtime, BTreeMap::new()).await {
        let name = "kubelet_running_containers";
        header(&mut out, name, "gauge", "[ALPHA] Number of containers currently running");
        out += &format!("{name}{{container_state=\"running\"}} {}\n", running.len());
    }
    if let Ok(ready) = containers::ready_sandboxes(&*runtime, BTreeMap::new()).await {
        let help = "[ALPHA] Number of pods that have a running pod sandbox";
        single(&mut out, "kubelet_running_pods", "gauge", help, ready.len());
    }
    stats::write_volume_metrics(context, &mut out).await;
    context.node.metrics(&mut out);
    ::metrics::process(&mut out, context.started_at as f64);
    answer::metrics(out)
}
