//! Every notification, in order, several per key: what upstream uses since 1.36.

use std::collections::{BTreeSet, VecDeque};

use super::{Delta, Fifo};
use crate::{Indexer, Key};

/// So many notifications at most are applied as one transaction.
const BATCH: usize = 1000;

#[derive(Default)]
pub struct RealFifo {
    waiting: VecDeque<Delta>,
}

impl Fifo for RealFifo {
    fn push(&mut self, delta: Delta, _known: &Indexer) {
        self.waiting.push_back(delta);
    }

    /// A batch has distinct keys; a replacement, a resync and a bookmark stand alone.
    fn pop(&mut self) -> Vec<Delta> {
        let mut batch = Vec::new();
        let mut keys = BTreeSet::new();
        while let Some(next) = self.waiting.front() {
            let key = match next {
                Delta::Added(obj) | Delta::Updated(obj) => Key::of(obj),
                Delta::Deleted { key, .. } => key.clone(),
                Delta::Replaced { .. } | Delta::Sync | Delta::Bookmark(_) => {
                    if batch.is_empty() {
                        batch.extend(self.waiting.pop_front());
                    }
                    return batch;
                }
            };
            if batch.len() == BATCH || !keys.insert(key) {
                return batch;
            }
            batch.extend(self.waiting.pop_front());
        }
        batch
    }
}
