//! Read your own writes: a reconcile must not decide on a view that lacks what the same owner's last reconcile wrote.
//!
//! Expectations count what is to come; this compares revisions, and so covers updates and patches too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::Gvr;
use env::Env;
use object::{Obj, Revision};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Failure, Informer, Key};

/// So long a reconcile waits for its view; then the key is put back.
const PATIENCE: Duration = Duration::from_secs(1);
/// A write not seen by then is not in the view's selection: it no longer holds anything up.
const EXPIRE: Duration = Duration::from_secs(300);

/// The revisions an owner's reconciles wrote, until its informers have come as far.
pub struct OwnWrites {
    env: Env,
    informers: Vec<Arc<Informer>>,
    /// Guards the revisions; an owner is here only while something it wrote is unseen.
    written: Mutex<BTreeMap<Key, Vec<Written>>>,
}

struct Written {
    /// Of the informers, the one that is to show it.
    view: usize,
    revision: Revision,
    at: Instant,
}

impl OwnWrites {
    /// `informers` are the views the controller decides on; writes to other resources are not remembered.
    pub fn new(env: &Env, informers: &[&Arc<Informer>]) -> OwnWrites {
        let informers = informers.iter().map(|informer| (*informer).clone()).collect();
        OwnWrites { env: env.clone(), informers, written: Mutex::default() }
    }

    /// An owner's reconcile wrote this; the answer of a create, update or patch.
    pub fn note(&self, owner: &Key, resource: &Gvr, answer: &Obj) {
        let (revision, at) = (answer.revision(), self.env.monotonic());
        let Some(view) = self.informers.iter().position(|view| view.scope().resource == *resource) else {
            return;
        };
        if self.informers[view].revision() >= revision {
            return;
        }
        let mut all = self.written.lock();
        let written = all.entry(owner.clone()).or_default();
        match written.iter_mut().find(|w| w.view == view) {
            Some(same) if same.revision < revision => (same.revision, same.at) = (revision, at),
            Some(_) => {}
            None => written.push(Written { view, revision, at }),
        }
    }

    /// The first view that lacks something the owner wrote, and up to where.
    pub fn behind(&self, owner: &Key) -> Option<(&Arc<Informer>, Revision)> {
        let now = self.env.monotonic();
        let mut all = self.written.lock();
        let written = all.get_mut(owner)?;
        written.retain(|w| now - w.at < EXPIRE && self.informers[w.view].revision() < w.revision);
        let first = written.first().map(|w| (&self.informers[w.view], w.revision));
        if first.is_none() {
            all.remove(owner);
        }
        first
    }

    /// Waits for the views, a moment; a failure then puts the key back. The first line of a reconcile.
    pub async fn seen(&self, owner: &Key) -> Result<(), Failure> {
        let until = self.env.monotonic() + PATIENCE;
        while let Some((view, revision)) = self.behind(owner) {
            let left = until.saturating_duration_since(self.env.monotonic());
            if left.is_zero() {
                let (plural, has) = (&view.scope().resource.plural, view.revision());
                return Err(Failure::Other(format!(
                    "the view of {plural} is at {has}, this owner wrote {revision}: put back"
                )));
            }
            tokio::select! {
                biased;
                () = view.reached(revision) => {}
                () = self.env.sleep(left) => {}
            }
        }
        Ok(())
    }

    /// The owner is gone.
    pub fn forget(&self, owner: &Key) {
        self.written.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use client::Event;
    use client::resources::{CONFIG_MAPS, PODS};

    use super::*;
    use crate::testing::{Say, Scripted, map, state};
    use crate::{QueueKind, Scope, Stopper};

    async fn view(env: &Env, upto: u64) -> (Arc<Informer>, Stopper) {
        let (stopper, stop) = Stopper::new();
        let pulls = vec![state(vec![], 5), Ok((vec![Event::Added(map("a", upto))], true))];
        let client = Scripted::new(vec![Say::Watch(Ok(pulls))]);
        let informer = Informer::new(env.clone(), client, Scope::all(&CONFIG_MAPS), QueueKind::Real);
        informer.start(stop);
        (informer, stopper)
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_waits_until_its_cache_has_the_owners_writes() {
        let env = Env::simulated(1);
        let (informer, _stopper) = view(&env, 9).await;
        let writes = OwnWrites::new(&env, &[&informer]);
        let (owner, other) = (Key::new("default", "o"), Key::new("default", "p"));
        writes.note(&owner, &CONFIG_MAPS, &map("a", 8));
        writes.note(&owner, &CONFIG_MAPS, &map("a", 9));
        writes.note(&owner, &PODS, &map("not looked at", 50));
        let behind = writes.behind(&owner).map(|(view, revision)| (view.scope().resource.clone(), revision));
        assert_eq!(behind, Some((CONFIG_MAPS.clone(), Revision(9))));
        assert!(writes.behind(&other).is_none());
        writes.seen(&owner).await.unwrap();
        assert!(informer.revision() >= Revision(9));
        assert!(writes.behind(&owner).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stale_cache_requeues_the_key_for_at_most_five_minutes() {
        let env = Env::simulated(1);
        let (informer, _stopper) = view(&env, 6).await;
        let writes = OwnWrites::new(&env, &[&informer]);
        let owner = Key::new("default", "o");
        writes.note(&owner, &CONFIG_MAPS, &map("a", 9));
        let why = writes.seen(&owner).await.err().unwrap().to_string();
        assert_eq!(why, "the view of configmaps is at 6, this owner wrote 9: put back");
        env.sleep(Duration::from_secs(300)).await;
        writes.seen(&owner).await.unwrap();
    }
}
