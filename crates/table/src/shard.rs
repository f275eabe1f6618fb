//! The versions and the log of one storage resource.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use catalog::Storage;
use object::Obj;
use store::{Key, Revision, Unreadable};

use crate::index::Indexes;
use crate::unreadable::UnreadableKeys;
use crate::{Scope, Selection};

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
pub(crate) enum Chain {
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
    pub(crate) fn newest(&self) -> Option<&Arc<Obj>> {
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

/// All of one storage resource. PageStart a lock that is held for inserts and for bounded stretches of reads.
pub(crate) struct Shard {
    chains: BTreeSet<Chain>,
    /// Changes in order; the first has number `first`.
    log: VecDeque<Event>,
    first: u64,
    /// The last event that was forgotten: reads below it are answered 410.
    floor: Revision,
    live: usize,
    /// How many of them are in each namespace.
    in_namespace: HashMap<Box<str>, usize>,
    /// Of the bodies of the live ones.
    live_bytes: u64,
    /// When anything here changed last.
    changed: Revision,
    indexes: Indexes,
    unreadable_keys: UnreadableKeys,
}

/// More objects than this are scanned, a stretch at a time, rather than read from an index in one go.
const FEW: usize = 16 * 1024;
/// So many changes are looked through to read an index at an older revision.
const FEW_CHANGES: usize = 4096;
/// So many objects tell which field of a selection is the one to index.
const SAMPLE: usize = 1024;
/// How many objects an index being made takes in before it lets others in.
const BUILD_STRETCH: usize = 2048;

/// Part of a list, found by an index.
pub(crate) struct Found {
    pub items: Vec<Arc<Obj>>,
    pub more: bool,
}

impl Shard {
    pub fn new(storage: &Storage) -> Shard {
        let indexed = storage.indexed.as_ref().and_then(|name| storage.selectable_at(name));
        Shard {
            chains: BTreeSet::new(),
            log: VecDeque::new(),
            first: 0,
            floor: Revision(0),
            live: 0,
            in_namespace: HashMap::new(),
            live_bytes: 0,
            changed: Revision(0),
            indexes: Indexes::new(indexed),
            unreadable_keys: UnreadableKeys::default(),
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

    /// How many of them a scope has.
    pub fn live_in(&self, scope: &Scope) -> usize {
        match scope {
            Scope::All => self.live,
            Scope::Namespace(namespace) => self.in_namespace.get(namespace.as_str()).copied().unwrap_or(0),
        }
    }

    fn appears(&mut self, obj: &Obj) {
        self.live += 1;
        match self.in_namespace.get_mut(obj.namespace()) {
            Some(count) => *count += 1,
            None => _ = self.in_namespace.insert(obj.namespace().into(), 1),
        }
    }

    fn disappears(&mut self, obj: &Obj) {
        self.live -= 1;
        if let Some(count) = self.in_namespace.get_mut(obj.namespace()) {
            *count -= 1;
            if *count == 0 {
                self.in_namespace.remove(obj.namespace());
            }
        }
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn floor(&self) -> Revision {
        self.floor
    }

    pub fn changed(&self) -> Revision {
        self.changed
    }

    /// Inserts a fresh object without an event: the first load.
    pub fn load(&mut self, obj: Arc<Obj>) {
        self.index_add(&obj);
        self.appears(&obj);
        self.live_bytes += obj.body().len() as u64;
        self.changed = self.changed.max(obj.revision());
        self.chains.insert(Chain::One(obj));
    }

    /// Everything that is alive, or broken, in another shard.
    pub fn take_over(&mut self, other: &Shard) {
        other.newest().for_each(|obj| self.load(obj.clone()));
        self.unreadable_keys = other.unreadable_keys.clone();
        self.changed = other.changed;
    }

    /// What is alive, in key order.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<Obj>> {
        self.chains.iter().filter_map(Chain::newest)
    }

    /// A value that is no object: what stood there before stays, as the last that could be read.
    pub fn mark_unreadable(&mut self, revision: Revision, key: Key, protobuf: bool) {
        self.changed = self.changed.max(revision);
        self.unreadable_keys.mark(key, revision, protobuf);
    }

    pub fn unreadable_keys(&self) -> &UnreadableKeys {
        &self.unreadable_keys
    }

    /// What a selection might have to show at a revision, and cannot.
    pub fn unreadable(
        &self,
        storage: &Storage,
        selection: &Selection,
        revision: Revision,
    ) -> Option<Unreadable> {
        // Nearly always, and asked by every watch at every event.
        if self.unreadable_keys.is_empty() {
            return None;
        }
        self.unreadable_keys.selected(storage, selection, &selection.scope.prefix(storage), revision)
    }

    /// A put. Returns what it superseded.
    pub fn put(&mut self, revision: Revision, obj: Arc<Obj>) -> Option<Arc<Obj>> {
        self.changed = revision;
        self.unreadable_keys.clear(obj.key());
        let (chain, prev) = match self.chains.take(obj.key_bytes()) {
            None => (Chain::One(obj.clone()), None),
            Some(mut chain) => {
                let prev = chain.newest().cloned();
                chain.push(revision, Some(obj.clone()));
                (chain, prev)
            }
        };
        self.chains.insert(chain);
        self.live_bytes += obj.body().len() as u64;
        if let Some(prev) = &prev {
            self.live_bytes -= prev.body().len() as u64;
            self.index_remove(prev);
        } else {
            self.appears(&obj);
        }
        self.index_add(&obj);
        self.log.push_back(Event { obj, past: prev.clone().map(|p| Past::new(p, false)) });
        prev
    }

    /// A deletion; nothing when the key is not there.
    pub fn delete(&mut self, storage: &Storage, revision: Revision, key: &str) -> Option<Arc<Obj>> {
        if self.unreadable_keys.clear(key) {
            self.changed = revision;
        }
        let prev = self.get(key)?.clone();
        let mut chain = self.chains.take(key.as_bytes())?;
        chain.push(revision, None);
        self.chains.insert(chain);
        self.changed = revision;
        self.disappears(&prev);
        self.live_bytes -= prev.body().len() as u64;
        self.index_remove(&prev);
        let obj = Arc::new(prev.at_revision(storage, revision));
        self.log.push_back(Event { obj, past: Some(Past::new(prev.clone(), true)) });
        Some(prev)
    }

    /// Drops the events up to `floor` and the versions only they needed.
    pub fn forget_upto(&mut self, floor: Revision) {
        self.floor = self.floor.max(floor);
        while self.log.front().is_some_and(|event| event.revision() <= floor)
            && let Some(event) = self.log.pop_front()
        {
            self.first += 1;
            let key = event.obj.key_bytes();
            if let Some(Chain::Many(_)) = self.chains.get(key)
                && let Some(mut chain) = self.chains.take(key)
                && chain.trim(floor)
            {
                self.chains.insert(chain);
            }
        }
        if self.log.len() * 4 < self.log.capacity() && self.log.capacity() > 1024 {
            self.log.shrink_to(self.log.len() * 2);
        }
    }

    /// The number of the first event after `revision`.
    pub fn number_after(&self, revision: Revision) -> u64 {
        self.first + self.log.partition_point(|e| e.revision() <= revision) as u64
    }

    /// The number of the oldest event there is, and of the next one there will be.
    pub fn first(&self) -> u64 {
        self.first
    }
    pub fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Events from number `from` to before `to`; `None` when some of them are forgotten.
    pub fn events(&self, from: u64, to: u64) -> Option<impl Iterator<Item = &Event>> {
        let (from, to) = (from.checked_sub(self.first)? as usize, to.checked_sub(self.first)? as usize);
        let to = to.min(self.log.len());
        Some(self.log.range(from.min(to)..to))
    }

    pub fn event(&self, number: u64) -> Option<&Event> {
        self.log.get(number.checked_sub(self.first)? as usize)
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

    /// What [`range`](Shard::range) and the selection would give, at most `limit` of it, by an index; `None` when there is none
    /// that helps.
    ///
    /// An index knows the newest state. At an older revision an object either did not change since, and is found by the index, or
    /// it did, and the log says so.
    pub fn find(
        &self,
        storage: &Storage,
        selection: &Selection,
        after: Option<&str>,
        revision: Revision,
        limit: usize,
        now: u32,
    ) -> Option<Found> {
        let wanted =
            selection.exact_fields().filter_map(|(at, value)| Some((self.indexes.of(at, now)?, value)));
        let (index, value) = wanted.min_by_key(|(index, value)| (!index.is_fixed(), index.len_of(value)))?;
        if !index.is_fixed() && index.len_of(value) > FEW {
            return None;
        }
        let prefix = selection.scope.prefix(storage);
        let start = start(&prefix, after);
        let in_scope = |obj: &&Arc<Obj>| obj.key_bytes().starts_with(prefix.as_bytes());
        let changes = (self.end() - self.number_after(revision)) as usize;
        let mut found: Vec<Arc<Obj>> = Vec::new();
        let mut more = false;
        let mut take = |obj: &Arc<Obj>| {
            if found.len() == limit {
                // As in a scan: what follows counts if it has the value of the catalogue's index, selected or not.
                more = selection.matches_index(storage, obj);
                return !more;
            }
            if selection.matches_selectors(obj) {
                found.push(obj.clone());
            }
            true
        };
        if changes == 0 {
            // Not one `filter`: the first that is out of scope ends the walk.
            for obj in index.candidates(value, start).take_while(in_scope) {
                if !take(obj) {
                    break;
                }
            }
        } else if changes <= FEW_CHANGES {
            let changed = self.log.range((self.log.len() - changes)..).map(|event| event.obj.key_bytes());
            let behind = |key: &&[u8]| match start {
                Bound::Excluded(after) => *key > after,
                _ => true,
            };
            let mut keys: Vec<&[u8]> =
                index.candidates(value, start).take_while(in_scope).map(|obj| obj.key_bytes()).collect();
            keys.extend(changed.filter(behind).filter(|key| key.starts_with(prefix.as_bytes())));
            keys.sort_unstable();
            keys.dedup();
            let states = keys.iter().filter_map(|key| self.chains.get(*key)?.at(revision));
            for obj in states {
                if !take(obj) {
                    break;
                }
            }
        } else {
            return None;
        }
        // Without an index of the catalogue, a page that is full has more behind it if anything is.
        if found.len() == limit && !index.is_fixed() {
            let last = found.last().map(|obj| obj.key());
            let mut behind = self.range(storage, &selection.scope, last, revision);
            more = behind.any(|obj| selection.matches_index(storage, obj));
        }
        Some(Found { items: found, more })
    }

    /// The field of the selection that the fewest of the first objects have as it is wanted; `None` when all are had by more
    /// than `most`: an index of these would not help.
    pub fn narrowest(&self, storage: &Storage, selection: &Selection, most: usize) -> Option<usize> {
        let matching = |(field, value): (usize, &str)| {
            let sample = self.range(storage, &selection.scope, None, self.changed).take(SAMPLE);
            (sample.filter(|obj| obj.field(field) == value).count(), field)
        };
        selection
            .exact_fields()
            .map(matching)
            .min()
            .filter(|(count, _)| *count <= most)
            .map(|(_, field)| field)
    }

    /// Makes an index of a field, one stretch a call; false when there is nothing left to do.
    pub fn build_index(&mut self, storage: &Storage, field: usize, now: u32) -> bool {
        if !self.indexes.begin(field, now) {
            return false;
        }
        let Some(upto) = self.indexes.unfinished(field) else { return false };
        let after = std::str::from_utf8(&upto).ok().filter(|after| !after.is_empty());
        let chains = self.chains_in(storage, &Scope::All, after);
        let mut next: Vec<Arc<Obj>> = Vec::with_capacity(BUILD_STRETCH);
        let mut upto: Option<Box<[u8]>> = None;
        for (visited, chain) in chains.enumerate() {
            next.extend(chain.newest().cloned());
            // Deleted ones count, too: their keys stay for a while.
            if visited + 1 == BUILD_STRETCH {
                upto = Some(chain.key().into());
                break;
            }
        }
        let goes_on = upto.is_some();
        self.indexes.extend(field, &next, upto);
        goes_on
    }

    #[cfg(test)]
    pub fn has_index(&self, field: usize) -> bool {
        self.indexes.of(field, 0).is_some()
    }

    /// Indexes made on demand.
    pub fn indexes_made(&self) -> usize {
        self.indexes.made()
    }

    pub fn drop_idle_indexes(&mut self, now: u32) {
        self.indexes.drop_idle(now);
    }

    fn chains_in<'a>(
        &'a self,
        storage: &Storage,
        scope: &Scope,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Chain> + use<'a> {
        let prefix = scope.prefix(storage);
        self.chains
            .range::<[u8], _>((start(&prefix, after), Bound::Unbounded))
            .take_while(move |chain| chain.key().starts_with(prefix.as_bytes()))
    }

    fn index_add(&mut self, obj: &Arc<Obj>) {
        self.indexes.each().for_each(|index| index.add(obj));
    }

    fn index_remove(&mut self, obj: &Arc<Obj>) {
        self.indexes.each().for_each(|index| index.remove(obj));
    }
}

/// Where a walk through a scope begins.
fn start<'a>(prefix: &'a str, after: Option<&'a str>) -> Bound<&'a [u8]> {
    match after {
        Some(after) if after >= prefix => Bound::Excluded(after.as_bytes()),
        _ => Bound::Included(prefix.as_bytes()),
    }
}
