//! What a controller did and has not yet seen: while something is missing, its view is too old to count by.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Key;

/// An expectation nobody met by then was met by something that was missed.
const EXPIRE: Duration = Duration::from_secs(300);

/// Creations and deletions still to be seen, per owner.
pub struct Expectations {
    env: Env,
    /// Guards the counts; handlers lower them, workers set them.
    pending: Mutex<BTreeMap<Key, Pending>>,
}

struct Pending {
    creations: i64,
    /// By key, so that one deletion seen twice does not count twice.
    deletions: BTreeSet<Key>,
    since: Instant,
}

impl Expectations {
    pub fn new(env: &Env) -> Expectations {
        Expectations { env: env.clone(), pending: Mutex::default() }
    }

    /// May the owner's dependents be counted?
    pub fn satisfied(&self, owner: &Key) -> bool {
        let mut all = self.pending.lock();
        let Some(pending) = all.get(owner) else { return true };
        let met = pending.creations <= 0 && pending.deletions.is_empty();
        let expired = self.env.monotonic() - pending.since > EXPIRE;
        if met || expired {
            all.remove(owner);
        }
        met || expired
    }

    pub fn expect_creations(&self, owner: &Key, count: usize) {
        self.expect(owner).creations += count as i64;
    }

    pub fn expect_deletions(&self, owner: &Key, keys: impl IntoIterator<Item = Key>) {
        self.expect(owner).deletions.extend(keys);
    }

    /// A creation was seen, or will never come.
    pub fn creation_seen(&self, owner: &Key) {
        if let Some(pending) = self.pending.lock().get_mut(owner) {
            pending.creations -= 1;
        }
    }

    pub fn deletion_seen(&self, owner: &Key, key: &Key) {
        if let Some(pending) = self.pending.lock().get_mut(owner) {
            pending.deletions.remove(key);
        }
    }

    /// The owner is gone.
    pub fn forget(&self, owner: &Key) {
        self.pending.lock().remove(owner);
    }

    fn expect(&self, owner: &Key) -> parking_lot::MappedMutexGuard<'_, Pending> {
        let now = self.env.monotonic();
        let fresh = || Pending { creations: 0, deletions: BTreeSet::new(), since: now };
        let mut all = self.pending.lock();
        all.entry(owner.clone()).or_insert_with(fresh).since = now;
        parking_lot::MutexGuard::map(all, |all| all.entry(owner.clone()).or_insert_with(fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_held_until_all_creations_and_deletions_were_seen() {
        let expected = Expectations::new(&Env::simulated(1));
        let owner = key("rs");
        assert!(expected.satisfied(&owner), "nobody expects anything");
        expected.expect_creations(&owner, 2);
        expected.expect_deletions(&owner, [key("a"), key("b")]);
        assert!(!expected.satisfied(&owner));
        assert!(expected.satisfied(&key("other")));
        expected.creation_seen(&owner);
        expected.deletion_seen(&owner, &key("a"));
        expected.deletion_seen(&owner, &key("a"));
        expected.creation_seen(&owner);
        assert!(!expected.satisfied(&owner), "b is still there");
        expected.deletion_seen(&owner, &key("b"));
        assert!(expected.satisfied(&owner));
    }

    #[tokio::test(start_paused = true)]
    async fn creations_of_others_seen_meanwhile_do_not_hold_it() {
        let expected = Expectations::new(&Env::simulated(1));
        let owner = key("rs");
        expected.expect_creations(&owner, 1);
        expected.creation_seen(&owner);
        expected.creation_seen(&owner);
        assert!(expected.satisfied(&owner));
        expected.creation_seen(&owner);
        expected.expect_creations(&owner, 1);
        assert!(!expected.satisfied(&owner), "what nobody expected is not counted in advance");
    }

    #[tokio::test(start_paused = true)]
    async fn after_five_minutes_or_when_forgotten_nothing_is_expected() {
        let env = Env::simulated(1);
        let expected = Expectations::new(&env);
        let owner = key("rs");
        expected.expect_creations(&owner, 1);
        env.sleep(Duration::from_secs(300)).await;
        assert!(!expected.satisfied(&owner));
        env.sleep(Duration::from_secs(1)).await;
        assert!(expected.satisfied(&owner));
        expected.expect_deletions(&owner, [key("a")]);
        expected.forget(&owner);
        assert!(expected.satisfied(&owner));
    }
}
