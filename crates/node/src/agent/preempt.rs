//! Room for a critical pod that is new: others end for it, and it begins when nothing of them runs any more.

use object::Value;
use runtime::Key;

use super::{Agent, Inner};
use crate::admit::preemption::{Candidate, PreemptionRank, choose};
use crate::admit::{self, Rejection, Taken};
use crate::pod::{Pod, Requests};
use crate::worker::{PodWorker, Waiting};

pub enum Room {
    /// There is enough, or it is not for this pod to ask.
    Enough,
    /// When others are gone; these of them have to be told.
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
        let waiting = inner.pods.get_mut(key).and_then(|worker| worker.waiting.take());
        if !is_new || pod.started.is_some() || pod.deletion.is_some() || pod.is_over() {
            return Room::Enough;
        }
        let rank = PreemptionRank::of(pod);
        if let Some(waiting) = waiting.filter(|waiting| inner.any_counted(&waiting.ends)) {
            inner.pods.entry(key.clone()).and_modify(|worker| worker.waiting = Some(waiting));
            return Room::Later(Vec::new());
        }
        let reserved = inner.reserved(key);
        if !rank.critical && reserved.is_none() {
            return Room::Enough;
        }
        // What the machine itself says against it no other pod can mend.
        let refused = inner.runtime.refuses(pod).map_or(Ok(()), Err);
        if refused.and_then(|()| self.admit.as_ref().map_or(Ok(()), |admit| admit(pod))).is_err() {
            return Room::Enough;
        }
        let choosy = inner.heartbeat.evicts || admit::is_choosy(pod);
        let node = if choosy { node() } else { None };
        let requests = Requests::of(pod);
        let missing = |taken: &Taken| admit::missing(pod, requests, &self.capacity, taken, node.as_ref());
        let Inner { pods, taken, longest_back_off, .. } = inner;
        let Reserved { now, later, ends } = reserved.unwrap_or_else(|| Reserved::nothing(taken));
        let victims = match missing(&later) {
            Ok(short) if short.is_empty() && missing(&now).is_ok_and(|short| short.is_empty()) => {
                return Room::Enough;
            }
            Ok(short) if short.is_empty() => Vec::new(),
            Ok(_) if !rank.critical => {
                let refused = admit::admit(pod, requests, &self.capacity, &later, node.as_ref());
                return refused.err().map_or(Room::Enough, Room::Never);
            }
            Ok(short) => {
                let others = pods.iter().filter(|(other, worker)| {
                    *other != key && worker.is_counted() && !ends.contains(&worker.uid)
                });
                let candidates: Vec<Candidate<'_, Key>> = others
                    .map(|(key, worker)| Candidate {
                        key: key.clone(),
                        rank: worker.rank,
                        requests: worker.requests,
                        scalars: taken.scalars_of(worker.uid),
                    })
                    .collect();
                match choose(&rank, &candidates, &short) {
                    Ok(victims) => victims,
                    Err(why) => return Room::Never(why),
                }
            }
            Err(why) => return Room::Never(why),
        };
        let mut ends = ends;
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
                ends.push(worker.uid);
            }
        }
        let takes = rank.critical.then(|| Taken::of(pod, requests));
        let waiting = Some(Box::new(Waiting { ends, takes }));
        let worker = || PodWorker::new(pod).with_longest_back_off(*longest_back_off);
        pods.entry(key.clone()).or_insert_with(worker).waiting = waiting;
        Room::Later(victims)
    }
}

/// What is taken, with the room that is kept for critical pods that wait for it.
struct Reserved {
    now: Taken,
    /// When nothing of `ends` runs any more.
    later: Taken,
    ends: Vec<u128>,
}

impl Reserved {
    fn nothing(taken: &Taken) -> Reserved {
        Reserved { now: taken.clone(), later: taken.clone(), ends: Vec::new() }
    }
}

impl Inner {
    fn any_counted(&self, uids: &[u128]) -> bool {
        self.pods.values().any(|worker| worker.is_counted() && uids.contains(&worker.uid))
    }

    /// `None`: no critical pod waits, but perhaps this one. Kubelet admits one pod after the other and waits for those that end, so
    /// that nobody comes before a critical pod into the room that is made for it.
    fn reserved(&self, key: &Key) -> Option<Reserved> {
        let others = || self.pods.iter().filter(|(other, _)| *other != key).map(|(_, worker)| worker);
        let kept = || others().filter_map(|worker| worker.waiting.as_ref()?.takes.as_ref());
        kept().next()?;
        let mut reserved = Reserved::nothing(&self.taken);
        for takes in kept() {
            reserved.now.merge(takes);
            reserved.later.merge(takes);
        }
        let awaited = |uid: &u128| {
            others().any(|worker| worker.waiting.as_ref().is_some_and(|waiting| waiting.ends.contains(uid)))
        };
        for victim in others().filter(|worker| worker.is_counted() && awaited(&worker.uid)) {
            reserved.later.remove(victim.uid, victim.requests);
            reserved.ends.push(victim.uid);
        }
        Some(reserved)
    }

    /// The same, where it matters that something is reserved.
    pub(super) fn taken_with_reserved(&self, key: &Key) -> Option<Taken> {
        self.reserved(key).map(|reserved| reserved.now)
    }
}
