//! The store with metrics: its commits by resource, and how long they take.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use catalog::{Name, Storage};
use env::Env;
use store::{BoxFuture, Commit, CommitError, Engine, Guard, Op, Revision};
use table::Table;

use metrics::{Histogram, header};

use super::bounds::LATENCY;
use super::by_id::ById;

/// Upstream's words for what a transaction does to the object it is about.
const OPERATIONS: [&str; 3] = ["create", "update", "delete"];

#[derive(Default)]
struct Series {
    latency: Histogram<23>,
    errors: AtomicU64,
}

/// Measures the commits of the engine it wraps.
pub struct MeteredEngine {
    engine: Arc<dyn Engine>,
    /// For the resource of a key.
    table: Arc<Table>,
    env: Env,
    series: ById<OfStorage>,
}

/// The series of one storage resource.
struct OfStorage {
    group: Name,
    plural: Name,
    operations: [OnceLock<Box<Series>>; OPERATIONS.len()],
}

impl MeteredEngine {
    pub fn new(engine: Arc<dyn Engine>, table: Arc<Table>, env: Env) -> Arc<MeteredEngine> {
        Arc::new(MeteredEngine { engine, table, env, series: ById::default() })
    }

    fn storage(&self, storage: &Storage) -> Arc<OfStorage> {
        let Storage { group, plural, .. } = storage;
        self.series.get(
            storage.id.0,
            |of| of.group == *group && of.plural == *plural,
            || OfStorage { group: group.clone(), plural: plural.clone(), operations: Default::default() },
        )
    }

    /// What the commit does to its first key, which is the object; side effects follow.
    fn of(&self, commit: &Commit) -> Option<(Arc<OfStorage>, usize)> {
        let (key, op) = commit.ops.first()?;
        let of = self.storage(self.table.catalog().storage_of_key(key)?);
        let absent = commit.guards.iter().any(|(k, guard)| k == key && *guard == Guard::Absent);
        let operation = match op {
            Op::Put { .. } if absent => 0,
            Op::Put { .. } => 1,
            Op::Delete => 2,
        };
        Some((of, operation))
    }

    pub fn write(&self, out: &mut String) {
        let catalog = self.table.catalog();
        let used = self.series.retain(catalog.storages().iter().map(|storage| storage.id.0));
        let mut all: Vec<(String, &Series)> = Vec::new();
        for of in &used {
            for (operation, series) in OPERATIONS.iter().zip(&of.operations) {
                let Some(series) = series.get() else { continue };
                let (group, resource) = (&of.group, &of.plural);
                let labels = format!("group=\"{group}\",operation=\"{operation}\",resource=\"{resource}\"");
                all.push((labels, series));
            }
        }
        let name = "etcd_request_duration_seconds";
        header(
            out,
            name,
            "histogram",
            "Latency of requests to the store in seconds, by operation and resource.",
        );
        for (labels, series) in &all {
            series.latency.write(out, name, labels, &LATENCY, 0);
        }
        let name = "etcd_requests_total";
        header(out, name, "counter", "Number of requests to the store, by operation and resource.");
        for (labels, series) in &all {
            let _ = writeln!(out, "{name}{{{labels}}} {}", series.latency.count());
        }
        let name = "etcd_request_errors_total";
        header(out, name, "counter", "Number of failed requests to the store, by operation and resource.");
        for (labels, series) in &all {
            let errors = series.errors.load(Ordering::Relaxed);
            if errors > 0 {
                let _ = writeln!(out, "{name}{{{labels}}} {errors}");
            }
        }
        if let Some(bytes) = self.engine.size_bytes() {
            let name = "apiserver_storage_size_bytes";
            header(out, name, "gauge", "Size of the store's files in bytes.");
            let _ = writeln!(out, "{name}{{storage_cluster_id=\"store-0\"}} {bytes}");
        }
    }
}

impl Engine for MeteredEngine {
    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let Some((of, operation)) = self.of(&commit) else { return self.engine.commit(commit) };
        let committing = self.engine.commit(commit);
        Box::pin(async move {
            let begun = self.env.monotonic();
            let answer = committing.await;
            let series = of.operations[operation].get_or_init(Box::default);
            series.latency.took(&LATENCY, self.env.monotonic() - begun);
            // A guard that does not hold is no failure.
            if matches!(&answer, Err(error) if !matches!(error, CommitError::Conflict { .. })) {
                series.errors.fetch_add(1, Ordering::Relaxed);
            }
            answer
        })
    }
    fn barrier(&self) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.engine.barrier()
    }
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        self.engine.compact(upto)
    }
    fn expire(&self, now: u64) -> BoxFuture<'_, Result<(), CommitError>> {
        self.engine.expire(now)
    }
    fn health(&self) -> Result<(), String> {
        self.engine.health()
    }
    fn failed(&self) -> Option<String> {
        self.engine.failed()
    }
    fn full(&self) -> Option<String> {
        self.engine.full()
    }
    fn size_bytes(&self) -> Option<u64> {
        self.engine.size_bytes()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.engine.close()
    }
}
