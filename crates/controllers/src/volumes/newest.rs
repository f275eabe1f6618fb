//! The newest version of each object that a controller knows: what its informer has seen, or what it wrote itself since.
//!
//! A binding is four writes. Each is heard of a little later, and deciding on what was before would fail with a conflict.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Obj;
use parking_lot::Mutex;
use runtime::{Informer, Key};

pub(crate) struct Newest {
    informer: Arc<Informer>,
    /// Guards own writes the informer has not shown yet: as many as are on their way.
    written: Mutex<BTreeMap<Key, Arc<Obj>>>,
}

impl Newest {
    pub(crate) fn new(informer: &Arc<Informer>) -> Newest {
        Newest { informer: informer.clone(), written: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Obj>> {
        // Before the store: an entry goes only after the store has what replaces it.
        let written = self.written.lock().get(key).cloned();
        let seen = self.informer.store().get_key(key)?;
        match written {
            Some(written) if supersedes(&written, &seen) => Some(written),
            _ => Some(seen),
        }
    }

    /// The answer to a write; `false`: the object is gone meanwhile, or newer.
    pub(crate) fn wrote(&self, obj: &Arc<Obj>) -> bool {
        let mut written = self.written.lock();
        // The store is looked at under the lock that `saw` takes after it changed: nothing stays that nobody takes out.
        let seen = self.informer.store().get_key(&Key::of(obj));
        let news = seen.is_some_and(|seen| supersedes(obj, &seen));
        if news {
            written.insert(Key::of(obj), obj.clone());
        }
        news
    }

    /// The informer tells of a change; to be called by a handler.
    pub(crate) fn saw(&self, obj: &Obj) {
        let mut written = self.written.lock();
        if written.get(obj.path()).is_some_and(|written| written.revision() <= obj.revision()) {
            written.remove(obj.path());
        }
    }

    /// The object is gone; what a relist missed was perhaps older than what was written.
    pub(crate) fn gone(&self, obj: &Obj) {
        let mut written = self.written.lock();
        if written.get(obj.path()).is_some_and(|written| written.uid() == obj.uid()) {
            written.remove(obj.path());
        }
    }
}

fn supersedes(written: &Obj, seen: &Obj) -> bool {
    written.uid() == seen.uid() && written.revision() > seen.revision()
}
