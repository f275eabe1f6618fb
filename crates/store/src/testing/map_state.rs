//! A [`State`] that is a map, remembers everything it was told, and notes every broken promise.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::contract::{Change, Entry, Key, Revision, State};

pub struct MapState {
    /// Guards all of the below; held for single calls.
    inner: Mutex<Inner>,
    /// Counts calls of `reset` and `publish`, for those who wait.
    told: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Key, Entry>,
    revision: Revision,
    /// Everything published since the last reset.
    log: Vec<Change>,
    resets: usize,
    broken: Vec<String>,
}

impl Default for MapState {
    fn default() -> Self {
        MapState { inner: Mutex::default(), told: watch::channel(0).0 }
    }
}

impl MapState {
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.inner.lock().entries.get(key).cloned()
    }

    /// All entries under a prefix, in key order.
    pub fn entries(&self, prefix: &str) -> Vec<Entry> {
        self.inner.lock().entries.values().filter(|e| e.key.starts_with(prefix)).cloned().collect()
    }

    /// All changes under a prefix since the last reset, in the order they were published.
    pub fn log(&self, prefix: &str) -> Vec<Change> {
        self.inner.lock().log.iter().filter(|c| c.key.starts_with(prefix)).cloned().collect()
    }

    /// The last complete revision.
    pub fn revision(&self) -> Revision {
        self.inner.lock().revision
    }

    pub fn resets(&self) -> usize {
        self.inner.lock().resets
    }

    /// Promises of [`State`] that the engine broke: order, completeness, once each. Empty is good.
    pub fn broken_promises(&self) -> Vec<String> {
        self.inner.lock().broken.clone()
    }

    /// Waits until `holds` does, looking again after every publish; `false` after `timeout`.
    #[allow(clippy::disallowed_methods, reason = "the suite knows engines, no worlds")]
    pub async fn wait_until(&self, timeout: Duration, holds: impl Fn(&MapState) -> bool) -> bool {
        let mut told = self.told.subscribe();
        let wait = async {
            while !holds(self) {
                told.changed().await.expect("the sender lives in self");
            }
        };
        tokio::time::timeout(timeout, wait).await.is_ok()
    }
}

impl State for MapState {
    fn current(&self, key: &str) -> Option<Revision> {
        self.inner.lock().entries.get(key).map(|e| e.revision)
    }

    fn reset(&self, revision: Revision, entries: Vec<Entry>) {
        {
            let mut inner = self.inner.lock();
            for pair in entries.windows(2) {
                if pair[0].key >= pair[1].key {
                    inner.broken.push(format!("reset: {} before {}", pair[0].key, pair[1].key));
                }
            }
            for entry in entries.iter().filter(|e| e.revision > revision) {
                inner.broken.push(format!("reset to {revision}: {} is at {}", entry.key, entry.revision));
            }
            if revision < inner.revision {
                let was = inner.revision;
                inner.broken.push(format!("reset went back from {was} to {revision}"));
            }
            inner.entries = entries.into_iter().map(|e| (e.key.clone(), e)).collect();
            inner.revision = revision;
            inner.log.clear();
            inner.resets += 1;
        }
        self.told.send_modify(|n| *n += 1);
    }

    fn publish(&self, changes: Vec<Change>, upto: Revision) {
        {
            let mut inner = self.inner.lock();
            let mut at = inner.revision;
            if upto < at {
                inner.broken.push(format!("published up to {upto} after {at}"));
            }
            for (i, change) in changes.iter().enumerate() {
                let Change { revision, key, .. } = change;
                if *revision <= inner.revision {
                    let was = inner.revision;
                    inner.broken.push(format!("{key}@{revision} published after {was} was complete"));
                }
                if *revision < at || *revision > upto {
                    inner.broken.push(format!("{key}@{revision} out of order: after {at}, up to {upto}"));
                }
                if changes[..i].iter().rev().take_while(|c| c.revision == *revision).any(|c| c.key == *key) {
                    inner.broken.push(format!("{key}@{revision} published twice"));
                }
                if change.value.is_none() && !inner.entries.contains_key(key) {
                    inner.broken.push(format!("{key}@{revision} deleted, but was not there"));
                }
                at = *revision;
                match &change.value {
                    Some(value) => {
                        let (key, value) = (key.clone(), value.clone());
                        let entry = Entry {
                            key: key.clone(),
                            value,
                            revision: *revision,
                            expires_at: change.expires_at,
                        };
                        inner.entries.insert(key, entry);
                    }
                    None => {
                        inner.entries.remove(key);
                    }
                }
            }
            inner.log.extend(changes);
            inner.revision = upto;
        }
        self.told.send_modify(|n| *n += 1);
    }
}
