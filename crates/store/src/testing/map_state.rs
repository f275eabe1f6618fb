//! A [`State`] that is a map, records everything that was published, and every violation of the contract.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::contract::{Change, Entry, Key, Reload, Revision, State};

pub struct MapState {
    /// Guards all of the below; held for single calls.
    inner: Mutex<Inner>,
    /// Counts reloads and calls of `publish`, for those who wait.
    told: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Key, Entry>,
    revision: Revision,
    /// Everything published since the last reload.
    log: Vec<Change>,
    reloads: usize,
    violations: Vec<String>,
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

    /// All changes under a prefix since the last reload, in the order they were published.
    pub fn log(&self, prefix: &str) -> Vec<Change> {
        self.inner.lock().log.iter().filter(|c| c.key.starts_with(prefix)).cloned().collect()
    }

    /// The last complete revision.
    pub fn revision(&self) -> Revision {
        self.inner.lock().revision
    }

    /// How many were finished.
    pub fn reloads(&self) -> usize {
        self.inner.lock().reloads
    }

    /// Violations of the contract of [`State`] by the engine: order, completeness, once each. Empty is good.
    pub fn contract_violations(&self) -> Vec<String> {
        self.inner.lock().violations.clone()
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

    fn reload(&self) -> Box<dyn Reload + '_> {
        Box::new(MapReload { state: self, entries: BTreeMap::new(), violations: Vec::new() })
    }

    fn publish(&self, changes: Vec<Change>, upto: Revision) {
        {
            let mut inner = self.inner.lock();
            let mut at = inner.revision;
            if upto < at {
                inner.violations.push(format!("published up to {upto} after {at}"));
            }
            for (i, change) in changes.iter().enumerate() {
                let Change { revision, key, .. } = change;
                if *revision <= inner.revision {
                    let was = inner.revision;
                    inner.violations.push(format!("{key}@{revision} published after {was} was complete"));
                }
                if *revision < at || *revision > upto {
                    inner.violations.push(format!("{key}@{revision} out of order: after {at}, up to {upto}"));
                }
                if changes[..i].iter().rev().take_while(|c| c.revision == *revision).any(|c| c.key == *key) {
                    inner.violations.push(format!("{key}@{revision} published twice"));
                }
                if change.value.is_none() && !inner.entries.contains_key(key) {
                    inner.violations.push(format!("{key}@{revision} deleted, but was not there"));
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

struct MapReload<'a> {
    state: &'a MapState,
    entries: BTreeMap<Key, Entry>,
    violations: Vec<String>,
}

impl Reload for MapReload<'_> {
    fn add(&mut self, entry: Entry) {
        if let Some((last, _)) = self.entries.last_key_value().filter(|(last, _)| **last >= entry.key) {
            self.violations.push(format!("reload: {last} before {}", entry.key));
        }
        self.entries.insert(entry.key.clone(), entry);
    }

    fn finish(self: Box<Self>, revision: Revision) {
        let MapReload { state, entries, mut violations } = *self;
        {
            let mut inner = state.inner.lock();
            for entry in entries.values().filter(|e| e.revision > revision) {
                violations.push(format!("reload at {revision}: {} is at {}", entry.key, entry.revision));
            }
            if revision < inner.revision {
                violations.push(format!("reload went back from {} to {revision}", inner.revision));
            }
            inner.violations.append(&mut violations);
            inner.entries = entries;
            inner.revision = revision;
            inner.log.clear();
            inner.reloads += 1;
        }
        state.told.send_modify(|n| *n += 1);
    }
}
