//! What other servers tell of themselves: discovery and OpenAPI, fetched in the background and kept until something newer comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use object::Value;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct Documents {
    pub discovered: Collection<Discovered>,
    pub v2: Collection<SpecV2>,
    pub v3: Collection<SpecV3>,
}

/// The resources of a group version.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Discovered {
    /// APIResourceDiscovery.
    pub resources: Vec<Value>,
    /// False: its server could not be asked.
    pub current: bool,
}

/// OpenAPI v2 of a group version.
#[derive(Debug, PartialEq)]
pub(crate) struct SpecV2 {
    /// Where its paths begin.
    pub root: String,
    /// Its paths, and the definitions they need.
    pub document: Value,
}

/// OpenAPI v3 of a server.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SpecV3 {
    /// Where the paths of its group version begin.
    pub root: String,
    /// The names of its documents, with their hashes.
    pub hashes: BTreeMap<String, String>,
    /// The one document, in JSON, where the server has only v2.
    pub converted: Option<Bytes>,
}

/// Documents of one kind, by the name of the APIService.
pub(crate) struct Collection<T> {
    now: ArcSwap<Snapshot<T>>,
    /// Held while one of them is replaced: one after the other.
    changing: Mutex<()>,
}

pub(crate) struct Snapshot<T> {
    /// Another with every change.
    pub generation: u64,
    pub of: BTreeMap<String, Arc<T>>,
}

impl<T> Default for Snapshot<T> {
    fn default() -> Snapshot<T> {
        Snapshot { generation: 0, of: BTreeMap::new() }
    }
}

impl<T> Default for Collection<T> {
    fn default() -> Collection<T> {
        Collection { now: ArcSwap::default(), changing: Mutex::new(()) }
    }
}

impl<T: PartialEq> Collection<T> {
    pub fn load(&self) -> Arc<Snapshot<T>> {
        self.now.load_full()
    }

    pub fn set(&self, name: &str, document: T) {
        let _changing = self.changing.lock();
        let now = self.now.load();
        if now.of.get(name).is_some_and(|known| **known == document) {
            return;
        }
        let mut of = now.of.clone();
        of.insert(name.to_owned(), Arc::new(document));
        self.now.store(Arc::new(Snapshot { generation: now.generation + 1, of }));
    }

    /// Only those are kept.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        let _changing = self.changing.lock();
        let now = self.now.load();
        if now.of.keys().all(|name| keep(name)) {
            return;
        }
        let mut of = now.of.clone();
        of.retain(|name, _| keep(name));
        self.now.store(Arc::new(Snapshot { generation: now.generation + 1, of }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_another_only_if_something_changed() {
        let all = Collection::default();
        all.set("a", 1);
        all.set("b", 2);
        let before = all.load();
        all.set("a", 1);
        all.retain(|name| name != "c");
        assert_eq!(all.load().generation, before.generation);
        all.set("a", 3);
        all.retain(|name| name == "a");
        let now = all.load();
        assert_eq!((now.generation, now.of.len()), (before.generation + 2, 1));
        assert_eq!((*now.of["a"], *before.of["a"]), (3, 1));
    }
}
