//! Everything a cluster ever wrote, in order, to compare two runs with the same seed.
//!
//! ```text
//! engine ── publish ──> Recorded ──> Table
//!                          └──> Journal   "revision what key body", one line a change
//! ```

use std::fmt::Write;
use std::sync::Arc;

use apiserver::ApiConfig;
use parking_lot::Mutex;
use serde_json::Value;
use store::{Change, MemoryEngine, Reload, Revision, State};
use table::Table;

/// A log of changes. Clones share it.
#[derive(Clone, Default)]
pub struct Journal {
    /// Guards the lines; held while a commit's are appended.
    lines: Arc<Mutex<String>>,
}

impl Journal {
    /// Records what a cluster with this configuration writes.
    pub fn record(&self, config: &mut ApiConfig) {
        let state = Recorded { table: config.table.clone(), journal: self.clone() };
        config.engine = MemoryEngine::open(Arc::new(state));
    }

    pub fn text(&self) -> String {
        self.lines.lock().clone()
    }

    /// Every state of objects whose key starts with `prefix`, in order, with the key; `None`: deleted.
    pub fn states(&self, prefix: &str) -> Vec<(String, Option<Value>)> {
        let lines = self.lines.lock();
        let states = lines.lines().filter_map(|line| {
            let mut parts = line.splitn(4, ' ').skip(2);
            let (key, body) = (parts.next()?, parts.next()?);
            key.starts_with(prefix).then(|| (key.to_owned(), serde_json::from_str(body).ok()))
        });
        states.collect()
    }
}

/// Panics at the first line in which two logs differ.
pub fn assert_same(one: &str, two: &str, what: &str) {
    for (n, (left, right)) in one.lines().zip(two.lines()).enumerate() {
        assert_eq!(left, right, "{what}: line {n} of the log");
    }
    assert_eq!(one.len(), two.len(), "{what}: one log is longer");
}

struct Recorded {
    table: Arc<Table>,
    journal: Journal,
}

impl State for Recorded {
    fn current(&self, key: &str) -> Option<Revision> {
        self.table.current(key)
    }
    fn reload(&self) -> Box<dyn Reload + '_> {
        self.table.reload()
    }
    fn unreadable(&self) -> Option<store::Unreadable> {
        self.table.unreadable()
    }
    fn unreadable_at(&self, key: &str) -> Option<store::Unreadable> {
        self.table.unreadable_at(key)
    }
    fn publish(&self, changes: Vec<Change>, upto: Revision) {
        let mut lines = self.journal.lines.lock();
        for Change { revision, key, value, .. } in &changes {
            let what = match (value, self.table.current(key)) {
                (None, _) => "DELETED",
                (Some(_), None) => "ADDED",
                (Some(_), Some(_)) => "MODIFIED",
            };
            let body = value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            let _ = writeln!(lines, "{revision} {what} {key} {body}");
        }
        drop(lines);
        self.table.publish(changes, upto);
    }
}
