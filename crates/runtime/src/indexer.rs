//! What an informer knows: objects by key, and by whatever else one looks for.

mod tally;
#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use object::{Obj, Revision};
use parking_lot::{RwLock, RwLockWriteGuard};

use crate::Key;
use tally::{AnyTally, Empty};

pub use tally::Tally;

/// The values an object is found under.
pub type IndexBy = Box<dyn Fn(&Obj) -> Vec<String> + Send + Sync>;

/// Objects in key order; holds references to the server's own objects in process, copies nothing.
#[derive(Default)]
pub struct Indexer {
    /// Guards objects and indexes together, so that a reader sees both from one moment.
    inner: RwLock<Inner>,
    given: AtomicU64,
}

#[derive(Default)]
struct Inner {
    objects: BTreeSet<Held>,
    indexes: Vec<Index>,
    revision: Revision,
}

/// An object in the order of its key, which is part of it: there is one for every object of the cluster, and a key of its
/// own would be the larger half.
struct Held(Arc<Obj>);

struct Index {
    name: &'static str,
    by: IndexBy,
    /// Never iterated over: looked up by value only.
    entries: HashMap<String, Entry>,
    tallies: Vec<Empty>,
}

/// The objects under one value.
struct Entry {
    held: BTreeSet<Held>,
    /// In the order of [`Index::tallies`].
    tallies: Vec<Box<dyn AnyTally>>,
}

impl Indexer {
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Obj>> {
        self.get_key(&Key::new(namespace, name))
    }
    pub fn get_key(&self, key: &Key) -> Option<Arc<Obj>> {
        self.given.fetch_add(1, Relaxed);
        self.inner.read().objects.get(key.as_str().as_bytes()).map(Held::obj)
    }
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn list(&self) -> Vec<Arc<Obj>> {
        self.count(self.inner.read().objects.iter().map(Held::obj).collect())
    }
    pub fn keys(&self) -> Vec<Key> {
        self.inner.read().objects.iter().map(|held| Key::of(&held.0)).collect()
    }
    /// The index every resource has: keys are sorted, and begin with the namespace.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<Obj>> {
        if namespace.is_empty() {
            return self.list();
        }
        let inner = self.inner.read();
        if inner.objects.is_empty() {
            return Vec::new();
        }
        let from = [namespace, "/"].concat();
        let range = inner.objects.range::<[u8], _>((Bound::Included(from.as_bytes()), Bound::Unbounded));
        let within = range.take_while(|held| held.0.path_bytes().starts_with(from.as_bytes()));
        self.count(within.map(Held::obj).collect())
    }
    /// Objects an index names under `value`, in key order. Empty for an index nobody added.
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<Obj>> {
        let inner = self.inner.read();
        let Some(index) = inner.indexes.iter().find(|i| i.name == index) else { return Vec::new() };
        let entry = index.entries.get(value);
        self.count(entry.into_iter().flat_map(|entry| &entry.held).map(Held::obj).collect())
    }
    /// Adds an index, once; what is there already is found in it at once.
    pub fn add_index(&self, name: &'static str, by: impl Fn(&Obj) -> Vec<String> + Send + Sync + 'static) {
        let mut inner = self.inner.write();
        if inner.indexes.iter().any(|i| i.name == name) {
            return;
        }
        let mut index = Index { name, by: Box::new(by), entries: HashMap::new(), tallies: Vec::new() };
        for held in &inner.objects {
            index.insert(&held.0);
        }
        inner.indexes.push(index);
    }
    /// Adds a tally to an index, once for each type. Without the index it would count nothing, and mislead: that is a bug.
    pub fn add_tally<T: Tally>(&self, index: &'static str) {
        let mut inner = self.inner.write();
        let index = inner
            .indexes
            .iter_mut()
            .find(|i| i.name == index)
            .expect("a tally is of an index that was added");
        if index.tallies.iter().any(|known| known.ty == TypeId::of::<T>()) {
            return;
        }
        #[expect(clippy::iter_over_hash_type, reason = "each is filled for itself")]
        for entry in index.entries.values_mut() {
            let mut tally = T::default();
            entry.held.iter().for_each(|held| tally.add(&held.0));
            entry.tallies.push(Box::new(tally));
        }
        index.tallies.push(Empty::of::<T>());
    }
    /// Reads the tally of the objects an index names under `value`; an empty one if there are none.
    pub fn tally<T: Tally, R>(&self, index: &'static str, value: &str, read: impl FnOnce(&T) -> R) -> R {
        let inner = self.inner.read();
        let entry = inner.indexes.iter().find(|i| i.name == index).and_then(|i| i.entries.get(value));
        let mut tallies = entry.into_iter().flat_map(|entry| &entry.tallies);
        match tallies.find_map(|tally| (&**tally as &dyn Any).downcast_ref::<T>()) {
            Some(tally) => read(tally),
            None => read(&T::default()),
        }
    }
    /// How many objects readers were given so far: what reconciles cost, for tests that hold them to it.
    pub fn given(&self) -> u64 {
        self.given.load(Relaxed)
    }
    fn count(&self, given: Vec<Arc<Obj>>) -> Vec<Arc<Obj>> {
        self.given.fetch_add(given.len() as u64, Relaxed);
        given
    }
    /// Everything up to this revision was seen.
    pub fn revision(&self) -> Revision {
        self.inner.read().revision
    }

    pub(crate) fn saw(&self, revision: Revision) {
        let mut inner = self.inner.write();
        inner.revision = inner.revision.max(revision);
    }
    /// Does what takes longer before [`Indexer::begin`] keeps all readers out.
    pub(crate) fn prepare(&self, obj: &Obj) {
        let inner = self.inner.read();
        inner.indexes.iter().flat_map(|index| &index.tallies).for_each(|tally| (tally.prepare)(obj));
    }
    /// Changes that readers see all at once, when the value is dropped.
    pub(crate) fn begin(&self) -> Transaction<'_> {
        Transaction { inner: self.inner.write() }
    }
}

/// The one writer at work; nobody reads meanwhile.
pub(crate) struct Transaction<'a> {
    inner: RwLockWriteGuard<'a, Inner>,
}

impl Transaction<'_> {
    /// The object that stood there before.
    pub(crate) fn put(&mut self, obj: Arc<Obj>) -> Option<Arc<Obj>> {
        let Inner { objects, indexes, .. } = &mut *self.inner;
        let old = objects.replace(Held(obj.clone())).map(|held| held.0);
        for index in indexes {
            match &old {
                Some(old) => index.replace(old, &obj),
                None => index.insert(&obj),
            }
        }
        old
    }
    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Obj>> {
        let old = self.inner.objects.take(key.as_bytes())?.0;
        for index in &mut self.inner.indexes {
            index.remove(&old);
        }
        Some(old)
    }
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Obj>> {
        self.inner.objects.get(key.as_bytes()).map(|held| &held.0)
    }
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<Obj>> {
        self.inner.objects.iter().map(|held| &held.0)
    }
    /// The state is a new one: what it was read at counts, even if more was seen before.
    pub(crate) fn restart_at(&mut self, revision: Revision) {
        self.inner.revision = revision;
    }
}

impl Index {
    fn insert(&mut self, obj: &Arc<Obj>) {
        for value in (self.by)(obj) {
            let entry = self.entries.entry(value).or_insert_with(|| Entry {
                held: BTreeSet::new(),
                tallies: self.tallies.iter().map(|empty| (empty.make)()).collect(),
            });
            if entry.held.insert(Held(obj.clone())) {
                entry.tallies.iter_mut().for_each(|tally| tally.add(obj));
            }
        }
    }
    /// One that is found where it was, as most are, leaves the entries as they are.
    fn replace(&mut self, old: &Obj, new: &Arc<Obj>) {
        let values = (self.by)(new);
        if values != (self.by)(old) {
            self.remove(old);
            return self.insert(new);
        }
        for value in values {
            // A value may be named twice.
            if let Some(entry) = self.entries.get_mut(&value)
                && entry.held.replace(Held(new.clone())).is_some_and(|was| !Arc::ptr_eq(&was.0, new))
            {
                for tally in &mut entry.tallies {
                    tally.remove(old);
                    tally.add(new);
                }
            }
        }
    }
    fn remove(&mut self, obj: &Obj) {
        for value in (self.by)(obj) {
            if let Some(entry) = self.entries.get_mut(&value) {
                if entry.held.remove(obj.path_bytes()) {
                    entry.tallies.iter_mut().for_each(|tally| tally.remove(obj));
                }
                if entry.held.is_empty() {
                    self.entries.remove(&value);
                }
            }
        }
    }
}

impl Held {
    fn obj(&self) -> Arc<Obj> {
        self.0.clone()
    }
}
impl Borrow<[u8]> for Held {
    fn borrow(&self) -> &[u8] {
        self.0.path_bytes()
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        self.0.path_bytes().cmp(other.0.path_bytes())
    }
}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.0.path_bytes() == other.0.path_bytes()
    }
}
impl Eq for Held {}
