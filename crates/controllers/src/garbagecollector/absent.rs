//! Owners the server said do not exist: dependents that share one need not ask again.

use std::collections::BTreeMap;

use super::identity::Identity;

/// More are forgotten, the longest unused first.
const KEPT: usize = 500;

#[derive(Default)]
pub struct AbsentOwners {
    used: BTreeMap<Identity, u64>,
    by_use: BTreeMap<u64, Identity>,
    next: u64,
}

impl AbsentOwners {
    pub fn add(&mut self, owner: Identity) {
        self.touch(&owner);
        self.used.insert(owner.clone(), self.next);
        self.by_use.insert(self.next, owner);
        self.next += 1;
        if self.used.len() > KEPT
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
    }

    pub fn has(&mut self, owner: &Identity) -> bool {
        if !self.touch(owner) {
            return false;
        }
        self.used.insert(owner.clone(), self.next);
        self.by_use.insert(self.next, owner.clone());
        self.next += 1;
        true
    }

    /// Takes its place among the used away; tells whether it had one.
    fn touch(&mut self, owner: &Identity) -> bool {
        self.used.get(owner).is_some_and(|at| self.by_use.remove(at).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(n: usize) -> Identity {
        let n = n.to_string();
        Identity {
            kind: "K".into(),
            api_version: "v1".into(),
            namespace: String::new(),
            name: n.clone(),
            uid: n,
        }
    }

    #[test]
    fn the_least_recently_used_are_forgotten() {
        let mut absent = AbsentOwners::default();
        for n in 0..KEPT {
            absent.add(owner(n));
        }
        assert!(absent.has(&owner(0)), "used now");
        absent.add(owner(KEPT));
        absent.add(owner(KEPT));
        assert!(absent.has(&owner(0)));
        assert!(!absent.has(&owner(1)));
        assert!(absent.has(&owner(2)));
        assert_eq!((absent.used.len(), absent.by_use.len()), (KEPT, KEPT));
    }
}
