//! Keys that no definition claims: objects of a resource that is not known yet, or no longer, and what others put into our part
//! of a shared store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use catalog::Storage;
use store::{Key, Revision};

use crate::shard::Shard;
use crate::table::{PROTOBUF, is_protobuf, object};

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

    /// What lies under a storage's prefix becomes its objects.
    pub fn claim(&mut self, storage: &Storage, shard: &mut Shard) {
        for (key, stored) in self.take(&storage.prefix) {
            match object(storage, &key, &stored.value, stored.revision, stored.expires_at) {
                Ok(obj) => shard.load(Arc::new(obj)),
                Err(_) => shard.mark_unreadable(stored.revision, key, is_protobuf(&stored.value)),
            }
        }
    }

    /// What lives in a shard is nobody's from now on.
    pub fn release(&mut self, shard: &Shard) {
        for obj in shard.newest() {
            let value = obj.stored_value().into();
            let stored = Stored { value, revision: obj.revision(), expires_at: obj.expires_at() };
            self.put(obj.key().into(), stored);
        }
        // Only their form and revision are known: to whoever defines them next they are as unreadable.
        for (key, revision, protobuf) in shard.unreadable_keys().iter() {
            let value = Bytes::from_static(if protobuf { PROTOBUF } else { b"" });
            self.put(key.clone(), Stored { value, revision, expires_at: None });
        }
    }

    /// Takes out what lies under a prefix, in key order.
    fn take(&mut self, prefix: &str) -> Vec<(Key, Stored)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let under = self.keys.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        let keys: Vec<Key> = under.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.keys.remove_entry(key)).collect()
    }
}
