//! Keys that no definition claims: objects of a resource that is not known yet, or no longer, and what others put into our part
//! of a shared store.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use store::{Key, Revision};

/// One for each such key: never more than the store has keys.
#[derive(Default)]
pub(crate) struct Unclaimed {
    keys: BTreeMap<Key, Stored>,
}

pub(crate) struct Stored {
    pub value: Bytes,
    pub revision: Revision,
    pub expires_at: Option<u64>,
}

impl Unclaimed {
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn put(&mut self, key: Key, stored: Stored) {
        self.keys.insert(key, stored);
    }

    pub fn remove(&mut self, key: &str) {
        self.keys.remove(key);
    }

    pub fn revision(&self, key: &str) -> Option<Revision> {
        self.keys.get(key).map(|stored| stored.revision)
    }

    /// Takes out what lies under a prefix, in key order.
    pub fn claim(&mut self, prefix: &str) -> Vec<(Key, Stored)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let under = self.keys.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        let keys: Vec<Key> = under.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.keys.remove_entry(key)).collect()
    }
}
