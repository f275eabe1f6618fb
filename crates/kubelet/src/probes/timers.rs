//! What is due when: one ordered set for all probes of a node.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::Key;

#[derive(Default)]
pub struct Timers {
    /// By time, and in the order they were set.
    due: BTreeMap<(Instant, u64), Key>,
    count: u64,
}

/// One entry, to take it back.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    pub at: Instant,
    number: u64,
}

impl Timers {
    pub fn insert(&mut self, at: Instant, key: Key) -> Timer {
        self.count += 1;
        self.due.insert((at, self.count), key);
        Timer { at, number: self.count }
    }

    pub fn remove(&mut self, timer: Timer) {
        self.due.remove(&(timer.at, timer.number));
    }

    /// When the next is due.
    pub fn first(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn pop(&mut self) -> Option<Key> {
        self.due.pop_first().map(|(_, key)| key)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.due.len()
    }
}
