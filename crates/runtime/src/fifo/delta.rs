//! Per-key compression: a key waits once, at the place of its first pending delta, with all its deltas.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Delta, Fifo};
use crate::{Indexer, Key};

#[derive(Default)]
pub struct DeltaFifo {
    /// Deltas of a key, oldest first. A key is here exactly when it is in `queue`.
    items: BTreeMap<Key, Vec<Delta>>,
    queue: VecDeque<Key>,
    /// Progress is told once nothing waits.
    bookmark: Option<Delta>,
}

impl DeltaFifo {
    fn queue(&mut self, key: Key, delta: Delta) {
        let Some(pending) = self.items.get_mut(&key) else {
            self.queue.push_back(key.clone());
            self.items.insert(key, vec![delta]);
            return;
        };
        // The only compression: of two deletions in a row one stays, the one that knows the final state.
        if let (Some(Delta::Deleted { unknown: had, .. }), Delta::Deleted { unknown, .. }) =
            (pending.last(), &delta)
        {
            if *unknown || !*had {
                return;
            }
            pending.pop();
        }
        pending.push(delta);
    }

    fn will_exist(&self, key: &Key, known: &Indexer) -> bool {
        match self.items.get(key).and_then(|pending| pending.last()) {
            Some(Delta::Deleted { .. }) => false,
            Some(_) => true,
            None => known.get_key(key).is_some(),
        }
    }
}

impl Fifo for DeltaFifo {
    fn push(&mut self, delta: Delta, known: &Indexer) {
        match delta {
            Delta::Added(ref obj) | Delta::Updated(ref obj) => self.queue(Key::of(obj), delta),
            Delta::Deleted { ref key, .. } => {
                // A deletion of what nobody knows is no news.
                if self.items.contains_key(key) || known.get_key(key).is_some() {
                    self.queue(key.clone(), delta);
                }
            }
            Delta::Replaced { items, revision } => {
                let listed: BTreeSet<Key> = items.iter().map(|obj| Key::of(obj)).collect();
                for obj in items {
                    self.queue(Key::of(&obj), Delta::Updated(obj));
                }
                let mut missing: BTreeSet<Key> = known.keys().into_iter().collect();
                missing.extend(self.items.keys().cloned());
                for key in missing.difference(&listed) {
                    if self.will_exist(key, known) {
                        let obj = match self.items.get(key).and_then(|pending| pending.last()) {
                            Some(Delta::Added(obj) | Delta::Updated(obj)) => Some(obj.clone()),
                            _ => known.get_key(key),
                        };
                        self.queue(key.clone(), Delta::Deleted { key: key.clone(), obj, unknown: true });
                    }
                }
                self.bookmark = Some(Delta::Bookmark(revision));
            }
            Delta::Sync => {
                // Told again, unless something newer waits anyway.
                for obj in known.list() {
                    let key = Key::of(&obj);
                    if !self.items.contains_key(&key) {
                        self.queue(key, Delta::Updated(obj));
                    }
                }
            }
            Delta::Bookmark(_) => self.bookmark = Some(delta),
        }
    }

    fn pop(&mut self) -> Vec<Delta> {
        match self.queue.pop_front() {
            Some(key) => self.items.remove(&key).unwrap_or_default(),
            None => self.bookmark.take().into_iter().collect(),
        }
    }
}
