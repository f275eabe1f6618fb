//! Room for a critical pod that is new: others end for it, and it begins when nothing of them runs any more.

use object::Value;
use runtime::Key;

use super::{Agent, Inner};
use crate::admit::preemption::{Candidate, Standing, choose};
use crate::admit::{self, Rejection};
use crate::pod::{Pod, Requests};
use crate::worker::PodWorker;

pub enum Room {
    /// There is enough, or it is not for this pod to ask.
    Enough,
    /// When these are gone; they have to be told.
    Later(Vec<Key>),
    Never(Rejection),
}

impl Agent {
    pub(super) fn make_room(
        &self,
        inner: &mut Inner,
        key: &Key,
        pod: &Pod<'_>,
        node: &(dyn Fn() -> Option<Value> + Send + Sync),
    ) -> Room {
        let is_new = inner.pods.get(key).is_none_or(PodWorker::is_new);
        let standing = Standing::of(pod);
        if !is_new || !standing.critical || pod.started.is_some() || pod.deletion.is_some() || pod.is_over() {
            return Room::Enough;
        }
        let awaited = inner.pods.get(key).map(|worker| worker.waits_for.clone()).unwrap_or_default();
        if inner.pods.values().any(|worker| worker.is_counted() && awaited.contains(&worker.uid)) {
            return Room::Later(Vec::new());
        }
        if let Some(worker) = inner.pods.get_mut(key) {
            worker.waits_for.clear();
        }
        // What the machine itself says against it no other pod can mend.
        let refused = inner.runtime.refuses(pod).map_or(Ok(()), Err);
        if refused.and_then(|()| self.admit.as_ref().map_or(Ok(()), |admit| admit(pod))).is_err() {
            return Room::Enough;
        }
        let choosy = inner.heartbeat.evicts || admit::is_choosy(pod);
        let node = if choosy { node() } else { None };
        let missing = admit::missing(pod, Requests::of(pod), &self.capacity, &inner.taken, node.as_ref());
        let missing = match missing {
            Ok(missing) if missing.is_empty() => return Room::Enough,
            Ok(missing) => missing,
            Err(why) => return Room::Never(why),
        };
        let Inner { pods, taken, .. } = inner;
        let others = pods.iter().filter(|(other, worker)| *other != key && worker.is_counted());
        let candidates: Vec<Candidate<'_, Key>> = others
            .map(|(key, worker)| Candidate {
                key: key.clone(),
                standing: worker.standing,
                requests: worker.requests,
                scalars: taken.scalars_of(worker.uid),
            })
            .collect();
        let victims = match choose(&standing, &candidates, &missing) {
            Ok(victims) => victims,
            Err(why) => return Room::Never(why),
        };
        let mut waits_for = Vec::with_capacity(victims.len());
        for victim in &victims {
            if let Some(worker) = pods.get_mut(victim) {
                if worker.preempt() {
                    tracing::info!(
                        node = &*self.name,
                        pod = victim.as_str(),
                        critical = key.as_str(),
                        "preempting pod"
                    );
                }
                waits_for.push(worker.uid);
            }
        }
        pods.entry(key.clone()).or_insert_with(|| PodWorker::new(pod)).waits_for = waits_for;
        Room::Later(victims)
    }
}
