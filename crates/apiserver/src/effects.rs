//! Writes that are answered once this server has done what follows from them.
//!
//! ```text
//! create, update, patch ── commit ── a controller of this process acts on it ── Bell ── the answer, as it was committed
//! ```
//! Clients may rely on what they were told: who has created a definition looks for what it defines at once.
//! Differs from kube-apiserver, which answers first; its clients look again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::{Catalog, Storage, StorageId};
use futures_util::future::BoxFuture;
use object::Obj;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::api::Api;
use crate::loopback::GroupResource;

/// An answer waits no longer: the write is done, whatever becomes of the rest.
const LIMIT: Duration = Duration::from_millis(100);
/// So many answers wait at a time. Who writes more at once installs something large, and should get on with it: what follows is done in
/// batches then.
const AT_ONCE: usize = 16;

/// What follows from the writes of one resource, inside this server.
pub(crate) trait Effect: Send + Sync {
    /// Returns when all of it is in place, for this state of the object or a later one.
    fn in_place<'a>(&'a self, api: &'a Api, obj: &'a Obj) -> BoxFuture<'a, ()>;
}

pub(crate) struct Effects {
    /// By resource; of most there are none.
    all: Vec<(StorageId, Box<dyn Effect>)>,
    places: Semaphore,
}

impl Effects {
    pub fn new(catalog: &Catalog, all: Vec<(GroupResource, Box<dyn Effect>)>) -> Effects {
        let id = |(group, plural): GroupResource| catalog.find_storage(group, plural).map(|s| s.id);
        let all = all.into_iter().filter_map(|(resource, effect)| Some((id(resource)?, effect))).collect();
        Effects { all, places: Semaphore::new(AT_ONCE) }
    }

    pub fn of(&self, storage: &Storage) -> Option<&dyn Effect> {
        self.all.iter().find(|(id, _)| *id == storage.id).map(|(_, effect)| &**effect)
    }
}

impl Api {
    /// Waits for what follows from a write, well within the deadline of the request. Nobody acts while the controllers do not run.
    pub(crate) async fn effect(&self, effect: &dyn Effect, obj: &Obj, deadline: Instant) {
        if !self.controllers_started.load(Ordering::Acquire) || self.shutdown.has_begun() {
            return;
        }
        let Ok(_place) = self.effects.places.try_acquire() else { return };
        let env = self.registry.env();
        let left = deadline.saturating_duration_since(env.monotonic());
        // What takes longer is answered all the same.
        let _ = env.timeout(LIMIT.min(left / 2), effect.in_place(self, obj)).await;
    }
}

/// Rung when something has happened to a name, for those who wait for that.
#[derive(Default)]
pub(crate) struct Bell {
    /// Guards who waits now; held for a look-up. A name is here as long as somebody waits for it.
    waiting: Mutex<BTreeMap<String, Waiters>>,
}

/// Of one name.
#[derive(Default)]
struct Waiters {
    count: usize,
    notify: Arc<Notify>,
}

/// One of them, until dropped.
struct Waiting<'b> {
    bell: &'b Bell,
    name: &'b str,
    notify: Arc<Notify>,
}

impl Bell {
    pub fn ring(&self, name: &str) {
        if let Some(waiters) = self.waiting.lock().get(name) {
            waiters.notify.notify_waiters();
        }
    }

    /// Looks whether it is so now, and whenever the bell is rung for the name.
    pub async fn until(&self, name: &str, so: impl Fn() -> bool) {
        let waiting = self.enter(name);
        loop {
            // Before the look: what is rung between the two is heard.
            let rung = waiting.notify.notified();
            if so() {
                return;
            }
            rung.await;
        }
    }

    fn enter<'b>(&'b self, name: &'b str) -> Waiting<'b> {
        let mut waiting = self.waiting.lock();
        let waiters = waiting.entry(name.to_owned()).or_default();
        waiters.count += 1;
        Waiting { bell: self, name, notify: waiters.notify.clone() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.bell.waiting.lock();
        let Some(waiters) = waiting.get_mut(self.name) else { return };
        waiters.count -= 1;
        if waiters.count == 0 {
            waiting.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use env::Env;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bell_wakes_those_who_wait_for_its_name_and_forgets_them() {
        let env = Env::simulated(1);
        let (bell, so) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        let wait = || {
            let (bell, so) = (bell.clone(), so.clone());
            env.spawn("wait", async move { bell.until("a", || so.load(Ordering::Relaxed)).await })
        };
        let (first, second) = (wait(), wait());
        let short = Duration::from_millis(1);
        env.sleep(short).await;
        bell.ring("a");
        env.sleep(short).await;
        so.store(true, Ordering::Relaxed);
        bell.ring("b");
        env.sleep(short).await;
        assert!(!first.is_finished() && !second.is_finished(), "it was not so, or not for them");
        bell.ring("a");
        first.await.unwrap();
        second.await.unwrap();
        assert!(bell.waiting.lock().is_empty());
        // Who comes later waits for nothing.
        bell.until("a", || so.load(Ordering::Relaxed)).await;
        assert!(env.timeout(short, bell.until("a", || false)).await.is_err());
        assert!(bell.waiting.lock().is_empty());
    }

    #[test]
    fn who_leaves_last_clears_up_though_another_is_not_quite_gone() {
        let bell = Bell::default();
        let (first, last) = (bell.enter("a"), bell.enter("a"));
        // On another thread the first may still hold this when the last leaves.
        let held = first.notify.clone();
        drop(first);
        assert_eq!(bell.waiting.lock()["a"].count, 1);
        drop(last);
        assert!(bell.waiting.lock().is_empty());
        drop(held);
    }
}
