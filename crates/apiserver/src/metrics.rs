//! Metrics in Prometheus' text format, under kube-apiserver's names.
//!
//! A request costs a few additions: its series is found by position ([`routes`]), histograms are atomics, text is formatted by the
//! scrape. Names, types, labels and buckets are kube-apiserver's. A family is exposed only if its values are meaningful: those of API
//! aggregation and of aborted requests are not. Requests of controllers in this process are no HTTP requests and not counted as
//! such; flow control counts them.

mod admission;
mod auth;
mod bounds;
mod by_id;
mod connect;
mod routes;
mod store;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use dynamic_admission::{MatchConditionMetrics, PolicyMetrics, WebhookMetrics};
use env::Env;
use flowcontrol::WatchGuard;
use metrics::{header, single};
use table::Table;
use tokio::time::Instant;

pub use admission::AdmissionMetrics;
pub use auth::AuthMetrics;
pub use connect::{ConnectMetrics, ProxyType};
pub use metrics::process;
pub use routes::{DryRun, Extent, Route, Routes, Verb};
pub use store::MeteredEngine;

/// All metrics of one server.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    routes: Routes,
    auth: AuthMetrics,
    connect: ConnectMetrics,
    admissions: AdmissionMetrics,
    webhooks: Arc<WebhookMetrics>,
    policies: Arc<PolicyMetrics>,
    conditions: Arc<MatchConditionMetrics>,
    reading: InFlight,
    writing: InFlight,
    handshake_errors: AtomicU64,
    born: Instant,
    env: Env,
}

impl Metrics {
    pub fn new(
        env: &Env,
        admissions: AdmissionMetrics,
        webhooks: Arc<WebhookMetrics>,
        policies: Arc<PolicyMetrics>,
        conditions: Arc<MatchConditionMetrics>,
    ) -> Metrics {
        let inner = Inner {
            routes: Routes::default(),
            auth: AuthMetrics::default(),
            connect: ConnectMetrics::default(),
            admissions,
            webhooks,
            policies,
            conditions,
            reading: InFlight::default(),
            writing: InFlight::default(),
            handshake_errors: AtomicU64::new(0),
            born: env.monotonic(),
            env: env.clone(),
        };
        Metrics { inner: Arc::new(inner) }
    }

    pub fn routes(&self) -> &Routes {
        &self.inner.routes
    }
    pub fn auth(&self) -> &AuthMetrics {
        &self.inner.auth
    }

    pub fn connect(&self) -> &ConnectMetrics {
        &self.inner.connect
    }

    /// A TLS handshake failed.
    pub fn handshake_failed(&self) {
        self.inner.handshake_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a long-running request, until dropped.
    pub fn long_running(&self, route: Route, begun: Instant) -> LongRunning {
        route.running(1);
        LongRunning { metrics: self.clone(), route, begun, code: 200, bytes: 0, _watch: None }
    }

    /// Counts the bytes of an answer that is streamed.
    pub fn response_size(&self, route: Route) -> ResponseSize {
        ResponseSize { route, bytes: 0 }
    }

    /// Counts a request in flight, until dropped.
    pub fn enter(&self, writing: bool) -> InFlightSlot {
        let gauge = self.gauge(writing);
        let count = gauge.now.fetch_add(1, Ordering::AcqRel) + 1;
        gauge.seen(self.second(self.inner.env.monotonic()), count);
        InFlightSlot { metrics: self.clone(), writing }
    }

    fn gauge(&self, writing: bool) -> &InFlight {
        if writing { &self.inner.writing } else { &self.inner.reading }
    }

    fn second(&self, now: Instant) -> u32 {
        (now - self.inner.born).as_secs() as u32
    }

    pub fn write(&self, out: &mut String, table: &Table, store: &MeteredEngine, started: f64) {
        let catalog = table.catalog();
        self.inner.routes.write(out, &catalog);
        let name = "apiserver_current_inflight_requests";
        header(
            out,
            name,
            "gauge",
            "Maximum number of requests in flight in the last second, by request kind.",
        );
        let now = self.second(self.inner.env.monotonic());
        for (kind, gauge) in [("mutating", &self.inner.writing), ("readOnly", &self.inner.reading)] {
            let _ = writeln!(out, "{name}{{request_kind=\"{kind}\"}} {}", gauge.last_second(now));
        }
        self.inner.auth.write(out);
        self.inner.connect.write(out);
        self.inner.admissions.write(out);
        self.inner.webhooks.write(out);
        self.inner.policies.write(out);
        self.inner.conditions.write(out);
        store.write(out);
        let name = "apiserver_resource_objects";
        header(out, name, "gauge", "Number of stored objects, by resource.");
        let counts = || catalog.storages().iter().map(|s| (s, table.count(s.id)));
        for (storage, count) in counts() {
            let (group, plural) = (&storage.group, &storage.plural);
            let _ = writeln!(out, "{name}{{group=\"{group}\",resource=\"{plural}\"}} {count}");
        }
        let name = "apiserver_storage_objects";
        let help = "Number of stored objects, by resource. Deprecated: use apiserver_resource_objects.";
        header(out, name, "gauge", help);
        for (storage, count) in counts() {
            let dot = if storage.group.is_empty() { "" } else { "." };
            let _ = writeln!(out, "{name}{{resource=\"{}{dot}{}\"}} {count}", storage.plural, storage.group);
        }
        let name = "apiserver_tls_handshake_errors_total";
        let errors = self.inner.handshake_errors.load(Ordering::Relaxed);
        single(out, name, "counter", "Number of failed TLS handshakes.", errors);
        build_info(out);
        process(out, started);
    }
}

/// What `/version` says, as labels.
fn build_info(out: &mut String) {
    let name = "kubernetes_build_info";
    header(out, name, "gauge", "A constant 1; the labels name version, revision, compiler and platform.");
    let mut labels: Vec<(String, String)> = Vec::new();
    for (field, value) in crate::discovery::version_fields() {
        let mut label = String::new();
        for c in field.chars() {
            if c.is_ascii_uppercase() {
                label.push('_');
            }
            label.push(c.to_ascii_lowercase());
        }
        labels.push((label, value));
    }
    labels.sort_unstable();
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let _ = writeln!(out, "{name}{{{}}} 1", labels.join(","));
}

/// Requests of one kind in flight.
#[derive(Default)]
struct InFlight {
    now: AtomicI64,
    /// The second (upper 32 bits), and the most requests in it (lower 32 bits).
    most: AtomicU64,
}

impl InFlight {
    fn seen(&self, second: u32, count: i64) {
        let new = (u64::from(second) << 32) | count.clamp(0, i64::from(u32::MAX)) as u64;
        // A later second is larger whatever its count; within one the larger count wins.
        self.most.fetch_max(new, Ordering::Relaxed);
    }

    fn last_second(&self, now: u32) -> u64 {
        let most = self.most.load(Ordering::Relaxed);
        let under_way = self.now.load(Ordering::Relaxed).max(0) as u64;
        let recent = (most >> 32) as u32 + 1 >= now;
        if recent { under_way.max(most & u64::from(u32::MAX)) } else { under_way }
    }
}

/// A slot among the requests in flight.
pub struct InFlightSlot {
    metrics: Metrics,
    writing: bool,
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        self.metrics.gauge(self.writing).now.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A watch, or a connection to a pod: counted as open, and as answered when it ends.
pub struct LongRunning {
    metrics: Metrics,
    route: Route,
    begun: Instant,
    code: u16,
    bytes: u64,
    /// Counts it among the watches a write wakes.
    _watch: Option<WatchGuard>,
}

impl LongRunning {
    pub fn counted(mut self, watch: Option<WatchGuard>) -> LongRunning {
        self._watch = watch;
        self
    }

    /// 200 if it is not said.
    pub fn answered_with(mut self, code: u16) -> LongRunning {
        self.code = code;
        self
    }

    /// An event was sent.
    pub fn event(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.route.event(bytes as u64);
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.route.running(-1);
        let took = self.metrics.inner.env.monotonic() - self.begun;
        self.route.answered(DryRun::No, self.code, took, Duration::ZERO);
        if self.bytes > 0 || self.route.is_read() {
            self.route.sent(self.bytes);
        }
    }
}

/// The size of a streamed answer, observed when it ends.
pub struct ResponseSize {
    route: Route,
    bytes: u64,
}

impl ResponseSize {
    pub fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

impl Drop for ResponseSize {
    fn drop(&mut self) {
        self.route.sent(self.bytes);
    }
}
