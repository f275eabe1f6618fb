//! The versions and the log of one storage resource.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use catalog::Storage;
use store::{Key, Revision};

use crate::{Obj, Scope};

/// One change, as watchers read it. Small, because a fresh cluster's history is mostly creations.
pub(crate) struct Event {
    /// For a deletion: the last body with the deletion's revision.
    pub obj: Arc<Obj>,
    /// What stood there before; `None` for a creation.
    pub past: Option<Box<Past>>,
}

pub(crate) struct Past {
    /// Decides ADDED or MODIFIED, and whether a selection was left.
    pub prev: Arc<Obj>,
    pub deleted: bool,
    /// `prev` with the event's revision: what a watcher gets whose selection the object left. Made on first use.
    left: OnceLock<Arc<Obj>>,
}

impl Event {
    pub fn revision(&self) -> Revision {
        self.obj.revision()
    }
    pub fn deleted(&self) -> bool {
        self.past.as_ref().is_some_and(|p| p.deleted)
    }
    pub fn left(&self, storage: &Storage) -> Option<Arc<Obj>> {
        let past = self.past.as_ref()?;
        Some(past.left.get_or_init(|| Arc::new(past.prev.at_revision(storage, self.revision()))).clone())
    }
}

impl Past {
    fn new(prev: Arc<Obj>, deleted: bool) -> Box<Past> {
        Box::new(Past { prev, deleted, left: OnceLock::new() })
    }
}

/// The versions of one key that a reader may still ask for.
enum Chain {
    /// The usual case: alive, nothing superseded.
    One(Arc<Obj>),
    /// Oldest first; `None` is a deletion. Boxed, because `One` is by far the most frequent.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<(Revision, Option<Arc<Obj>>)>>),
}

impl Chain {
    fn newest(&self) -> Option<&Arc<Obj>> {
        match self {
            Chain::One(obj) => Some(obj),
            Chain::Many(versions) => versions.last().and_then(|(_, obj)| obj.as_ref()),
        }
    }
    fn at(&self, revision: Revision) -> Option<&Arc<Obj>> {
        match self {
            Chain::One(obj) => (obj.revision() <= revision).then_some(obj),
            Chain::Many(versions) => {
                versions.iter().rev().find(|(r, _)| *r <= revision).and_then(|(_, obj)| obj.as_ref())
            }
        }
    }
    fn push(&mut self, revision: Revision, obj: Option<Arc<Obj>>) {
        match self {
            Chain::Many(versions) => versions.push((revision, obj)),
            Chain::One(first) => {
                let first = (first.revision(), Some(first.clone()));
                *self = Chain::Many(Box::new(vec![first, (revision, obj)]));
            }
        }
    }
    /// Forgets versions nobody at or above `floor` can read. False when nothing is left.
    fn trim(&mut self, floor: Revision) -> bool {
        let Chain::Many(versions) = self else { return true };
        let keep_from = versions.iter().rposition(|(r, _)| *r <= floor).unwrap_or(0);
        versions.drain(..keep_from);
        if let Some((r, None)) = versions.first()
            && *r <= floor
        {
            versions.remove(0);
        }
        if let [(_, Some(only))] = versions.as_slice() {
            *self = Chain::One(only.clone());
            return true;
        }
        !versions.is_empty()
    }
}

/// All of one storage resource. Behind a lock that is held for inserts and for bounded stretches of reads.
pub(crate) struct Shard {
    keys: BTreeMap<Key, Chain>,
    /// Changes in order; the first has number `first`.
    log: VecDeque<Event>,
    first: u64,
    live: usize,
    /// When anything here changed last.
    changed: Revision,
    /// Keys by value of the storage's indexed field, of the newest state.
    index: HashMap<Box<str>, BTreeSet<Key>>,
    indexed: Option<usize>,
}

impl Shard {
    pub fn new(storage: &Storage) -> Shard {
        let indexed =
            storage.indexed.as_ref().and_then(|name| storage.selectable.iter().position(|s| s.name == *name));
        Shard {
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            first: 0,
            live: 0,
            changed: Revision(0),
            index: HashMap::new(),
            indexed,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Obj>> {
        self.keys.get(key).and_then(Chain::newest)
    }

    pub fn get_at(&self, key: &str, revision: Revision) -> Option<&Arc<Obj>> {
        self.keys.get(key).and_then(|c| c.at(revision))
    }

    pub fn live(&self) -> usize {
        self.live
    }

    pub fn changed(&self) -> Revision {
        self.changed
    }

    /// Inserts a fresh object without an event: the first load.
    pub fn load(&mut self, obj: Arc<Obj>) {
        self.index_add(&obj);
        self.live += 1;
        self.changed = self.changed.max(obj.revision());
        self.keys.insert(obj.key().clone(), Chain::One(obj));
    }

    /// A put. Returns what it superseded.
    pub fn put(&mut self, revision: Revision, obj: Arc<Obj>) -> Option<Arc<Obj>> {
        self.changed = revision;
        let prev = match self.keys.get_mut(obj.key()) {
            None => {
                self.keys.insert(obj.key().clone(), Chain::One(obj.clone()));
                None
            }
            Some(chain) => {
                let prev = chain.newest().cloned();
                chain.push(revision, Some(obj.clone()));
                prev
            }
        };
        if let Some(prev) = &prev {
            self.index_remove(prev);
        } else {
            self.live += 1;
        }
        self.index_add(&obj);
        self.log.push_back(Event { obj, past: prev.clone().map(|p| Past::new(p, false)) });
        prev
    }

    /// A deletion; nothing when the key is not there.
    pub fn delete(&mut self, storage: &Storage, revision: Revision, key: &str) -> Option<Arc<Obj>> {
        let chain = self.keys.get_mut(key)?;
        let prev = chain.newest().cloned()?;
        chain.push(revision, None);
        self.changed = revision;
        self.live -= 1;
        self.index_remove(&prev);
        let obj = Arc::new(prev.at_revision(storage, revision));
        self.log.push_back(Event { obj, past: Some(Past::new(prev.clone(), true)) });
        Some(prev)
    }

    /// Drops the oldest event and the versions only it needed.
    pub fn forget_oldest(&mut self, floor: Revision) {
        let Some(event) = self.log.pop_front() else { return };
        self.first += 1;
        if let Some(chain) = self.keys.get_mut(event.obj.key())
            && !chain.trim(floor)
        {
            self.keys.remove(event.obj.key());
        }
        if self.log.len() * 4 < self.log.capacity() && self.log.capacity() > 1024 {
            self.log.shrink_to(self.log.len() * 2);
        }
    }

    /// The number of the first event after `revision`.
    pub fn number_after(&self, revision: Revision) -> u64 {
        self.first + self.log.partition_point(|e| e.revision() <= revision) as u64
    }

    /// Events from number `from` on; `None` when some of them are forgotten.
    pub fn events_from(&self, from: u64) -> Option<impl Iterator<Item = &Event>> {
        let skip = from.checked_sub(self.first)?;
        Some(self.log.range((skip as usize).min(self.log.len())..))
    }

    /// Objects of `scope` at `revision`, in key order, after `after`.
    pub fn range<'a>(
        &'a self,
        storage: &Storage,
        scope: &Scope,
        after: Option<&str>,
        revision: Revision,
    ) -> impl Iterator<Item = &'a Arc<Obj>> + use<'a> {
        self.keys_in(storage, scope, after).filter_map(move |(_, chain)| chain.at(revision))
    }

    /// Keys with that value of the indexed field now; only right for reads of the newest state.
    pub fn indexed(&self, value: &str) -> impl Iterator<Item = &Arc<Obj>> {
        self.index.get(value).into_iter().flatten().filter_map(|key| self.get(key))
    }

    fn keys_in<'a>(
        &'a self,
        storage: &Storage,
        scope: &Scope,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Chain)> + use<'a> {
        let prefix: String = match scope {
            Scope::All => storage.prefix.to_string(),
            Scope::Namespace(namespace) => format!("{}{namespace}/", storage.prefix),
        };
        let start = match after {
            Some(after) if after >= prefix.as_str() => Bound::Excluded(after),
            _ => Bound::Included(prefix.as_str()),
        };
        self.keys
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&prefix))
    }

    fn index_add(&mut self, obj: &Arc<Obj>) {
        if let Some(field) = self.indexed {
            self.index.entry(obj.field(field).into()).or_default().insert(obj.key().clone());
        }
    }

    fn index_remove(&mut self, obj: &Arc<Obj>) {
        let Some(field) = self.indexed else { return };
        let value = obj.field(field);
        if let Some(keys) = self.index.get_mut(value) {
            keys.remove(obj.key());
            if keys.is_empty() {
                self.index.remove(value);
            }
        }
    }
}
