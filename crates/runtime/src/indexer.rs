//! What an informer knows: objects by key, and by whatever else one looks for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use store::Revision;
use table::Obj;

use crate::Key;

/// The values an object is found under.
pub type IndexBy = fn(&Obj) -> Vec<String>;

/// Objects in key order; holds references to the server's own objects in process, copies nothing.
#[derive(Default)]
pub struct Indexer {
    /// Guards objects and indexes together, so that a reader sees both from one moment.
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Key, Arc<Obj>>,
    indexes: Vec<Index>,
    revision: Revision,
}

struct Index {
    name: &'static str,
    by: IndexBy,
    /// Never iterated over: looked up by value only.
    entries: HashMap<String, BTreeSet<Key>>,
}

impl Indexer {
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Obj>> {
        self.inner.read().objects.get(&Key::new(namespace, name)).cloned()
    }
    pub fn get_key(&self, key: &Key) -> Option<Arc<Obj>> {
        self.inner.read().objects.get(key).cloned()
    }
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn list(&self) -> Vec<Arc<Obj>> {
        self.inner.read().objects.values().cloned().collect()
    }
    pub fn keys(&self) -> Vec<Key> {
        self.inner.read().objects.keys().cloned().collect()
    }
    /// The index every resource has: keys are sorted, and begin with the namespace.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<Obj>> {
        if namespace.is_empty() {
            return self.list();
        }
        let from = format!("{namespace}/");
        let inner = self.inner.read();
        let range = inner
            .objects
            .range::<str, _>((std::ops::Bound::Included(from.as_str()), std::ops::Bound::Unbounded));
        range.take_while(|(key, _)| key.as_str().starts_with(&from)).map(|(_, obj)| obj.clone()).collect()
    }
    /// Objects an index names under `value`, in key order. Empty for an index nobody added.
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<Obj>> {
        let inner = self.inner.read();
        let Some(index) = inner.indexes.iter().find(|i| i.name == index) else { return Vec::new() };
        let keys = index.entries.get(value).into_iter().flatten();
        keys.filter_map(|key| inner.objects.get(key).cloned()).collect()
    }
    /// Adds an index, once; what is there already is found in it at once.
    pub fn add_index(&self, name: &'static str, by: IndexBy) {
        let mut inner = self.inner.write();
        if inner.indexes.iter().any(|i| i.name == name) {
            return;
        }
        let mut index = Index { name, by, entries: HashMap::new() };
        for (key, obj) in &inner.objects {
            index.insert(key, obj);
        }
        inner.indexes.push(index);
    }
    /// Everything up to this revision was seen.
    pub fn revision(&self) -> Revision {
        self.inner.read().revision
    }

    pub(crate) fn saw(&self, revision: Revision) {
        let mut inner = self.inner.write();
        inner.revision = inner.revision.max(revision);
    }
    /// The object that stood there before.
    pub(crate) fn put(&self, obj: Arc<Obj>) -> Option<Arc<Obj>> {
        let key = Key::of(&obj);
        let mut inner = self.inner.write();
        let Inner { objects, indexes, revision } = &mut *inner;
        *revision = (*revision).max(obj.revision());
        let old = objects.insert(key.clone(), obj.clone());
        for index in indexes {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            index.insert(&key, &obj);
        }
        old
    }
    pub(crate) fn remove(&self, key: &Key) -> Option<Arc<Obj>> {
        let mut inner = self.inner.write();
        let old = inner.objects.remove(key)?;
        for index in &mut inner.indexes {
            index.remove(key, &old);
        }
        Some(old)
    }
}

impl Index {
    fn insert(&mut self, key: &Key, obj: &Obj) {
        for value in (self.by)(obj) {
            self.entries.entry(value).or_default().insert(key.clone());
        }
    }
    fn remove(&mut self, key: &Key, obj: &Obj) {
        for value in (self.by)(obj) {
            if let Some(keys) = self.entries.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.entries.remove(&value);
                }
            }
        }
    }
}
