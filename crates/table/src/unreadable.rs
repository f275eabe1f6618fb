//! Keys whose newest value is not an object: another program wrote it into the shared store.
//!
//! The last readable version stays in its chain, so that the value that repairs it, or its deletion, is an event like any other.
//! Until then reads and watches of it fail, and what the server itself needs (roles, allocated ports) goes on with the last
//! readable version.

use std::collections::BTreeMap;
use std::ops::Bound;

use catalog::Storage;
use store::{Key, Revision, Unreadable};

use crate::Selection;

/// One for each such key: never more than the store has keys.
#[derive(Clone, Default)]
pub(crate) struct UnreadableKeys {
    keys: BTreeMap<Key, Value>,
}

#[derive(Clone, Copy)]
struct Value {
    /// The first revision that could not be read.
    since: Revision,
    /// The last of them: what guards compare with.
    changed: Revision,
    protobuf: bool,
}

impl UnreadableKeys {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn mark(&mut self, key: Key, revision: Revision, protobuf: bool) {
        let fresh = Value { since: revision, changed: revision, protobuf };
        let value = self.keys.entry(key).or_insert(fresh);
        (value.changed, value.protobuf) = (revision, protobuf);
    }

    /// The key is readable again, or gone. True when it was unreadable.
    pub fn clear(&mut self, key: &str) -> bool {
        !self.keys.is_empty() && self.keys.remove(key).is_some()
    }

    /// The revision of the key's last change, if that cannot be read.
    pub fn changed(&self, key: &str) -> Option<Revision> {
        self.keys.get(key).map(|value| value.changed)
    }

    pub fn get(&self, key: &str) -> Option<Unreadable> {
        let (key, value) = self.keys.get_key_value(key)?;
        Some(Unreadable { key: key.clone(), protobuf: value.protobuf, count: 1 })
    }

    /// What a selection might have to show at a revision, and cannot: of such a value only the key is known.
    pub fn selected(
        &self,
        storage: &Storage,
        selection: &Selection,
        prefix: &str,
        revision: Revision,
    ) -> Option<Unreadable> {
        let may_match = |key: &str| match (selection.exact_key(storage), selection.exact_name()) {
            (Some(exact), _) => key == exact,
            (None, Some(name)) => key.rsplit('/').next() == Some(name),
            (None, None) => true,
        };
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let selected = self.keys.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        summary(selected.filter(|(key, value)| value.since <= revision && may_match(key)))
    }

    /// Key, revision of the last change, and whether it is protobuf.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, Revision, bool)> {
        self.keys.iter().map(|(key, value)| (key, value.changed, value.protobuf))
    }

    pub fn all(&self) -> Option<Unreadable> {
        summary(self.keys.iter())
    }
}

fn summary<'a>(mut keys: impl Iterator<Item = (&'a Key, &'a Value)>) -> Option<Unreadable> {
    let (key, value) = keys.next()?;
    Some(Unreadable { key: key.clone(), protobuf: value.protobuf, count: 1 + keys.count() })
}
