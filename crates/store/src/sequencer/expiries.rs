//! Which keys expire, and when: an index in time order.

use std::collections::{BTreeSet, HashMap};

use crate::contract::Key;

#[derive(Default)]
pub(super) struct Expiries {
    by_time: BTreeSet<(u64, Key)>,
    /// The time under which a key stands in `by_time`; there is at most one.
    by_key: HashMap<Key, u64>,
}

impl Expiries {
    /// The key was written (`Some`: it expires then) or deleted (`None`).
    pub(super) fn set(&mut self, key: &Key, expires_at: Option<u64>) {
        // Most keys never expire: they cost one look at an integer, or one hash, and no allocation.
        if self.by_key.is_empty() && expires_at.is_none() {
            return;
        }
        let old = match expires_at {
            Some(time) => self.by_key.insert(key.clone(), time),
            None => self.by_key.remove(key),
        };
        if old == expires_at {
            return;
        }
        if let Some(time) = old {
            self.by_time.remove(&(time, key.clone()));
        }
        if let Some(time) = expires_at {
            self.by_time.insert((time, key.clone()));
        }
    }

    /// Up to `limit` keys with a time of at most `now`, soonest first.
    pub(super) fn due(&self, now: u64, limit: usize) -> Vec<Key> {
        self.by_time
            .iter()
            .take_while(|(time, _)| *time <= now)
            .take(limit)
            .map(|(_, key)| key.clone())
            .collect()
    }
}
