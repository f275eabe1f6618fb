//! The versions and the log of one storage resource.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use catalog::Storage;
use store::Revision;

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
    /// All versions have the same.
    fn key(&self) -> &[u8] {
        match self {
            Chain::One(obj) => obj.key_bytes(),
            // The first is never a deletion: a chain begins with a creation, and `trim` cuts up to the next one.
            Chain::Many(versions) => {
                versions.iter().find_map(|(_, obj)| obj.as_ref()).map_or(&[], |obj| obj.key_bytes())
            }
        }
    }
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

/// Ordered by the key the objects hold: there is one for every object, and a key of its own would double it.
impl Ord for Chain {
    fn cmp(&self, other: &Chain) -> Ordering {
        self.key().cmp(other.key())
    }
}
impl PartialOrd for Chain {
    fn partial_cmp(&self, other: &Chain) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Chain {
    fn eq(&self, other: &Chain) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Chain {}
impl Borrow<[u8]> for Chain {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

/// All of one storage resource. Behind a lock that is held for inserts and for bounded stretches of reads.
pub(crate) struct Shard {
    chains: BTreeSet<Chain>,
    /// Changes in order; the first has number `first`.
    log: VecDeque<Event>,
    first: u64,
    live: usize,
    /// When anything here changed last.
    changed: Revision,
    /// The newest states by value of the storage's indexed field; each is a chain of one.
    index: HashMap<Box<str>, BTreeSet<Chain>>,
    indexed: Option<usize>,
}

impl Shard {
    pub fn new(storage: &Storage) -> Shard {
        let indexed =
            storage.indexed.as_ref().and_then(|name| storage.selectable.iter().position(|s| s.name == *name));
        Shard {
            chains: BTreeSet::new(),
            log: VecDeque::new(),
            first: 0,
            live: 0,
            changed: Revision(0),
            index: HashMap::new(),
            indexed,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Obj>> {
        self.chains.get(key.as_bytes()).and_then(Chain::newest)
    }

    pub fn get_at(&self, key: &str, revision: Revision) -> Option<&Arc<Obj>> {
        self.chains.get(key.as_bytes()).and_then(|c| c.at(revision))
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
        self.chains.insert(Chain::One(obj));
    }

    /// A put. Returns what it superseded.
    pub fn put(&mut self, revision: Revision, obj: Arc<Obj>) -> Option<Arc<Obj>> {
        self.changed = revision;
        let (chain, prev) = match self.chains.take(obj.key_bytes()) {
            None => (Chain::One(obj.clone()), None),
            Some(mut chain) => {
                let prev = chain.newest().cloned();
                chain.push(revision, Some(obj.clone()));
                (chain, prev)
            }
        };
        self.chains.insert(chain);
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
        let prev = self.get(key)?.clone();
        let mut chain = self.chains.take(key.as_bytes())?;
        chain.push(revision, None);
        self.chains.insert(chain);
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
        let key = event.obj.key_bytes();
        if let Some(Chain::Many(_)) = self.chains.get(key)
            && let Some(mut chain) = self.chains.take(key)
            && chain.trim(floor)
        {
            self.chains.insert(chain);
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
        self.chains_in(storage, scope, after).filter_map(move |chain| chain.at(revision))
    }

    /// Keys with that value of the indexed field now; only right for reads of the newest state.
    pub fn indexed(&self, value: &str) -> impl Iterator<Item = &Arc<Obj>> {
        self.index.get(value).into_iter().flatten().filter_map(Chain::newest)
    }

    fn chains_in<'a>(
        &'a self,
        storage: &Storage,
        scope: &Scope,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Chain> + use<'a> {
        let prefix: String = match scope {
            Scope::All => storage.prefix.to_string(),
            Scope::Namespace(namespace) => format!("{}{namespace}/", storage.prefix),
        };
        let start = match after {
            Some(after) if after >= prefix.as_str() => Bound::Excluded(after.as_bytes()),
            _ => Bound::Included(prefix.as_bytes()),
        };
        self.chains
            .range::<[u8], _>((start, Bound::Unbounded))
            .take_while(move |chain| chain.key().starts_with(prefix.as_bytes()))
    }

    fn index_add(&mut self, obj: &Arc<Obj>) {
        if let Some(field) = self.indexed {
            self.index.entry(obj.field(field).into()).or_default().insert(Chain::One(obj.clone()));
        }
    }

    fn index_remove(&mut self, obj: &Arc<Obj>) {
        let Some(field) = self.indexed else { return };
        let value = obj.field(field);
        if let Some(newest) = self.index.get_mut(value) {
            newest.remove(obj.key_bytes());
            if newest.is_empty() {
                self.index.remove(value);
            }
        }
    }
}
