//! Every notification, in order, several per key: what upstream uses since 1.36.

use std::collections::{BTreeSet, VecDeque};

use super::{Delta, Fifo};
use crate::Indexer;

/// So many notifications at most are applied as one transaction.
const BATCH: usize = 1000;

#[derive(Default)]
pub struct RealFifo {
    waiting: VecDeque<Delta>,
    synced: bool,
}

impl Fifo for RealFifo {
    fn push(&mut self, delta: Delta, _known: &Indexer) {
        self.waiting.push_back(delta);
    }

    /// A batch has distinct keys; a replacement, a resync and a bookmark stand alone.
    fn pop(&mut self) -> Vec<Delta> {
        let Some(first) = self.waiting.front() else { return Vec::new() };
        if place(first).is_none() {
            self.synced |= matches!(first, Delta::Replaced { .. });
            return self.waiting.drain(..1).collect();
        }
        let mut places = BTreeSet::new();
        let batch = self.waiting.iter().take(BATCH);
        // The usual batch is one change, which needs no set.
        let length = match self.waiting.len() {
            1 => 1,
            _ => batch.take_while(|delta| place(delta).is_some_and(|place| places.insert(place))).count(),
        };
        self.waiting.drain(..length).collect()
    }

    fn has_synced(&self) -> bool {
        self.synced
    }
}

/// Whose news it is; `None` for what concerns all.
fn place(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Added(obj) | Delta::Updated(obj) | Delta::Listed(obj) | Delta::Synced(obj) => Some(obj.path()),
        Delta::Deleted { key, .. } => Some(key.as_str()),
        Delta::Replaced { .. } | Delta::Sync | Delta::Bookmark(_) => None,
    }
}
