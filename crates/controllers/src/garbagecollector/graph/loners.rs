//! Objects that have no part in the graph yet, found by uid. Small: most objects of a cluster are here.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use table::Obj;

use crate::garbagecollector::kinds::KindId;

/// Never iterated over: looked up by uid only.
#[derive(Default)]
pub struct Loners(HashSet<Loner>);

/// Two words: the uid is read from the object.
pub struct Loner {
    pub kind: KindId,
    pub obj: Arc<Obj>,
}

impl Loners {
    /// The newest state counts.
    pub fn put(&mut self, loner: Loner) {
        self.0.replace(loner);
    }

    pub fn take(&mut self, uid: &str) -> Option<Loner> {
        let taken = self.0.take(uid);
        // After a large namespace went, for example.
        if self.0.len() * 8 < self.0.capacity() && self.0.capacity() > 1024 {
            self.0.shrink_to(self.0.len() * 2);
        }
        taken
    }

    pub fn get(&self, uid: &str) -> Option<&Loner> {
        self.0.get(uid)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Borrow<str> for Loner {
    fn borrow(&self) -> &str {
        self.obj.uid()
    }
}
impl Hash for Loner {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.obj.uid().hash(hasher);
    }
}
impl PartialEq for Loner {
    fn eq(&self, other: &Loner) -> bool {
        self.obj.uid() == other.obj.uid()
    }
}
impl Eq for Loner {}
