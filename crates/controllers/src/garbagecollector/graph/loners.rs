//! Objects that have no part in the graph yet, found by uid. Small: most objects of a cluster are here.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use object::Obj;

use crate::garbagecollector::kinds::KindId;

/// A set for each kind, in the order of their numbers: an entry is one word, the uid is read from the object.
#[derive(Default)]
pub struct Loners(Vec<HashSet<Alone>>);

struct Alone(Arc<Obj>);

impl Loners {
    /// The newest state counts.
    pub fn put(&mut self, kind: KindId, obj: Arc<Obj>) {
        let kind = usize::from(kind);
        if kind >= self.0.len() {
            self.0.resize_with(kind + 1, HashSet::new);
        }
        self.0[kind].replace(Alone(obj));
    }

    // What an object is found by, its uid, never changes.
    #[allow(clippy::mutable_key_type)]
    pub fn take(&mut self, kind: KindId, uid: &str) -> Option<Arc<Obj>> {
        let set = self.0.get_mut(usize::from(kind))?;
        let taken = set.take(uid);
        // After a large namespace went, for example.
        if set.len() * 8 < set.capacity() && set.capacity() > 1024 {
            set.shrink_to(set.len() * 2);
        }
        taken.map(|alone| alone.0)
    }

    pub fn clear(&mut self, kind: KindId) {
        if let Some(set) = self.0.get_mut(usize::from(kind)) {
            *set = HashSet::new();
        }
    }

    pub fn find(&self, uid: &str) -> Option<(KindId, &Arc<Obj>)> {
        (0..).zip(&self.0).find_map(|(kind, set)| Some((kind, &set.get(uid)?.0)))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.iter().map(HashSet::len).sum()
    }
}

impl Borrow<str> for Alone {
    fn borrow(&self) -> &str {
        self.0.uid()
    }
}
impl Hash for Alone {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.uid().hash(hasher);
    }
}
impl PartialEq for Alone {
    fn eq(&self, other: &Alone) -> bool {
        self.0.uid() == other.0.uid()
    }
}
impl Eq for Alone {}
