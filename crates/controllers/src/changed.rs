//! Which of an owner's many parts changed since it was last looked at: a reconcile looks at those again, not at all of them.
//!
//! ```text
//! handlers: this part of that owner changed ──> names ──> reconcile: takes them, reads each from the cache
//!           everything may have              ──> none kept ──> reads all
//! ```
//! Nothing is decided by what handlers saw: they only say where to look.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use runtime::Key;

/// With more than so many, all are looked at.
const MOST: usize = 1000;

#[derive(Default)]
pub(crate) struct Changed {
    /// Guards the names, by owner: of one that is not there, everything may have changed. Taken for a few instructions.
    owners: Mutex<BTreeMap<Key, BTreeSet<String>>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    All,
    Only(BTreeSet<String>),
}

impl Changed {
    pub fn note(&self, owner: &Key, part: &str) {
        let mut owners = self.owners.lock();
        let Some(parts) = owners.get_mut(owner) else { return };
        if !parts.contains(part) {
            parts.insert(part.to_owned());
        }
        if parts.len() > MOST {
            owners.remove(owner);
        }
    }

    /// Everything may have changed, or the owner is gone.
    pub fn forget(&self, owner: &Key) {
        self.owners.lock().remove(owner);
    }

    /// To be called before the caches are read: what changes afterwards is for the next time.
    pub fn take(&self, owner: &Key) -> Parts {
        match self.owners.lock().insert(owner.clone(), BTreeSet::new()) {
            Some(parts) => Parts::Only(parts),
            None => Parts::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_since_is_named_and_too_much_is_everything() {
        let (changed, owner) = (Changed::default(), Key::new("ns", "web"));
        changed.note(&owner, "a");
        assert_eq!(changed.take(&owner), Parts::All, "nobody looked before");
        changed.note(&owner, "b");
        changed.note(&owner, "c");
        changed.note(&Key::new("ns", "other"), "d");
        assert_eq!(changed.take(&owner), Parts::Only(["b", "c"].map(str::to_owned).into()));
        assert_eq!(changed.take(&owner), Parts::Only(BTreeSet::new()));
        (0..=MOST).for_each(|at| changed.note(&owner, &at.to_string()));
        assert_eq!(changed.take(&owner), Parts::All);
        changed.forget(&owner);
        assert_eq!(changed.take(&owner), Parts::All);
    }
}
