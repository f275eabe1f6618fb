//! Indexes by a selectable field: the newest objects of one storage, by the field's value.
//!
//! The index the catalogue names for a storage is always there. Others are made when somebody asks for few of many objects by
//! a field, kept in step by every write from then on, and dropped when nobody asks any more: who never selects by a field pays
//! nothing for it.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use object::Obj;

use crate::shard::Chain;

/// Indexes a storage may have beside the catalogue's own. The one nobody asked for the longest makes room for a new one, but
/// not if it was asked for just now.
pub(crate) const MOST: usize = 4;
/// An index nobody asked for is dropped after this.
pub(crate) const IDLE_SECONDS: u32 = 600;
/// An index that was asked for within this is not given up for another.
const BUSY_SECONDS: u32 = 60;

/// The newest objects by the value of one field.
pub(crate) struct Index {
    field: usize,
    /// By a hash of the value, which the objects hold already: who reads compares the value itself.
    by_hash: HashMap<u64, Posting>,
    hasher: RandomState,
    /// How far it is made; `None` when it is complete. Objects behind this key are not in it yet.
    made_upto: Option<Box<[u8]>>,
    /// The catalogue wants it: it is never dropped.
    fixed: bool,
    /// When somebody asked last, in seconds of the table's clock.
    used: AtomicU32,
}

/// Objects of one value (or of several with one hash). Most values of a field like a uid have a single object.
enum Posting {
    One(Arc<Obj>),
    /// Each is a chain of one.
    Many(BTreeSet<Chain>),
}

impl Index {
    fn new(field: usize, fixed: bool, now: u32) -> Index {
        Index {
            field,
            by_hash: HashMap::new(),
            hasher: RandomState::new(),
            made_upto: (!fixed).then(Box::default),
            fixed,
            used: AtomicU32::new(now),
        }
    }

    fn hash(&self, value: &str) -> u64 {
        self.hasher.hash_one(value)
    }

    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.made_upto.as_ref().is_none_or(|upto| key <= &**upto)
    }

    pub fn add(&mut self, obj: &Arc<Obj>) {
        if !self.covers(obj.key_bytes()) {
            return;
        }
        let hash = self.hash(obj.field(self.field));
        match self.by_hash.entry(hash) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Posting::One(obj.clone()));
            }
            std::collections::hash_map::Entry::Occupied(mut place) => match place.get_mut() {
                Posting::One(only) if only.key_bytes() == obj.key_bytes() => *only = obj.clone(),
                Posting::One(only) => {
                    let both = [only.clone(), obj.clone()].map(Chain::One);
                    place.insert(Posting::Many(BTreeSet::from(both)));
                }
                Posting::Many(all) => {
                    all.replace(Chain::One(obj.clone()));
                }
            },
        }
    }

    pub fn remove(&mut self, obj: &Arc<Obj>) {
        let hash = self.hash(obj.field(self.field));
        let gone = match self.by_hash.get_mut(&hash) {
            None => false,
            Some(Posting::One(only)) => only.key_bytes() == obj.key_bytes(),
            Some(Posting::Many(all)) => {
                all.remove(obj.key_bytes());
                all.is_empty()
            }
        };
        if gone {
            self.by_hash.remove(&hash);
        }
    }

    /// How many objects are to be looked at for a value.
    pub fn len_of(&self, value: &str) -> usize {
        match self.by_hash.get(&self.hash(value)) {
            None => 0,
            Some(Posting::One(_)) => 1,
            Some(Posting::Many(all)) => all.len(),
        }
    }

    /// The newest objects that may have a value, in key order, from a key on.
    pub fn candidates<'a>(
        &'a self,
        value: &str,
        start: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<Obj>> + use<'a> {
        let posting = self.by_hash.get(&self.hash(value));
        let (one, many) = match posting {
            None => (None, None),
            Some(Posting::One(only)) => (Some(only), None),
            Some(Posting::Many(all)) => (None, Some(all.range::<[u8], _>((start, Bound::Unbounded)))),
        };
        let behind = move |obj: &&Arc<Obj>| match start {
            Bound::Included(key) => obj.key_bytes() >= key,
            Bound::Excluded(key) => obj.key_bytes() > key,
            Bound::Unbounded => true,
        };
        one.into_iter().filter(behind).chain(many.into_iter().flatten().filter_map(Chain::newest))
    }
}

/// The indexes of one storage.
pub(crate) struct Indexes {
    all: Vec<Index>,
}

impl Indexes {
    /// With the index of the catalogue, if the storage has one.
    pub fn new(fixed: Option<usize>) -> Indexes {
        Indexes { all: fixed.map(|field| Index::new(field, true, 0)).into_iter().collect() }
    }

    /// The complete index of a field.
    pub fn of(&self, field: usize, now: u32) -> Option<&Index> {
        let index = self.all.iter().find(|index| index.field == field && index.made_upto.is_none())?;
        index.used.store(now, Ordering::Relaxed);
        Some(index)
    }

    /// All of them, finished or not, to be kept in step. Usually there are none.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Index> {
        self.all.iter_mut()
    }

    /// Begins an index, or finds it begun. False when there is no room for it.
    pub fn begin(&mut self, field: usize, now: u32) -> bool {
        if self.all.iter().any(|index| index.field == field) {
            return true;
        }
        if self.made() >= MOST {
            let idle = |index: &Index| now.saturating_sub(index.used.load(Ordering::Relaxed));
            let candidates = self.all.iter().enumerate().filter(|(_, index)| !index.fixed);
            let oldest =
                candidates.max_by_key(|(_, index)| idle(index)).filter(|(_, i)| idle(i) > BUSY_SECONDS);
            let Some((at, _)) = oldest else { return false };
            self.all.remove(at);
        }
        self.all.push(Index::new(field, false, now));
        true
    }

    /// How far the index of a field is made; `None` when it is complete, or gone.
    pub fn unfinished(&self, field: usize) -> Option<Box<[u8]>> {
        self.all.iter().find(|index| index.field == field)?.made_upto.clone()
    }

    /// Adds the next objects in key order, which go up to a key, to an unfinished index; without a key there are no more.
    pub fn extend(&mut self, field: usize, next: &[Arc<Obj>], upto: Option<Box<[u8]>>) {
        let Some(index) = self.all.iter_mut().find(|i| i.field == field && i.made_upto.is_some()) else {
            return;
        };
        index.made_upto = upto;
        next.iter().for_each(|obj| index.add(obj));
    }

    /// How many there are beside the catalogue's own.
    pub fn made(&self) -> usize {
        self.all.iter().filter(|index| !index.fixed).count()
    }

    /// Drops what nobody asks for any more.
    pub fn drop_idle(&mut self, now: u32) {
        self.all.retain(|index| {
            index.fixed || now.saturating_sub(index.used.load(Ordering::Relaxed)) <= IDLE_SECONDS
        });
    }
}
