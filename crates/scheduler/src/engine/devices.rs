//! Claims and devices: what changes about them, and pods that have a node and whose claims are being written.
//!
//! ```text
//! next() ──> ScheduleResult::BindClaims ──> the loop writes ──> claims_written() ── ready, or all wait for ──> next() ──> Bind
//!            devices in flight                   │                                └─ failed, too late ──> ClaimsFailed
//!                                                └─ refused ──> claims_written(), with an error ──> ClaimsFailed
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use devices::{Allocation, DeviceClass, Slice};
use object::Value;

use super::volumes::forget;
use super::{Engine, ScheduleResult};
use crate::cluster::NodeIx;
use crate::dynamic_resources::{ClaimChange, ClaimKey, ResourceClaim};
use crate::evaluate::devices::{Devices, ExtendedDevices};
use crate::pod::Pod;
use crate::queue::Queued;
use crate::queue::hints::Event;

/// A claim that gets ready sooner than this before its end is given the whole time.
const POLL: Duration = Duration::from_secs(5);

/// What has to be written before a pod with claims is bound.
#[derive(Debug)]
pub struct ClaimBindings {
    /// In the pod's order, each with the devices chosen for it if it had none.
    pub claims: Vec<(Arc<ResourceClaim>, Option<Arc<Allocation>>)>,
    /// The claim to make for what devices stand for.
    pub extended: Option<ExtendedDevices>,
}

/// What came of writing them.
#[derive(Default)]
pub struct WrittenClaims {
    /// As the server answered.
    pub claims: Vec<Arc<ResourceClaim>>,
    pub extended: Option<Arc<ResourceClaim>>,
    /// A claim by uid, and the version of it that a write was for which had no answer.
    pub doubt: Option<(Arc<str>, u64)>,
    pub error: Option<String>,
}

/// Claims that a pod which is not bound has no use for.
#[derive(Debug, Default)]
pub struct Unreserved {
    pub claims: Vec<ClaimKeyAndUid>,
    /// Made for it, and to be deleted.
    pub extended: Option<ClaimKeyAndUid>,
}

#[derive(Clone, Debug)]
pub struct ClaimKeyAndUid {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

impl ClaimKeyAndUid {
    fn of(claim: &ResourceClaim) -> ClaimKeyAndUid {
        ClaimKeyAndUid {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
        }
    }
}

/// Pods that have a node, and claims.
#[derive(Default)]
pub struct ClaimWriters {
    by_pod: HashMap<Arc<str>, Writer>,
    by_claim: HashMap<ClaimKey, Vec<Arc<str>>>,
    deadlines: BTreeSet<(Duration, Arc<str>)>,
}

struct Writer {
    queued: Queued,
    node: Arc<str>,
    bindings: Arc<ClaimBindings>,
    stage: Stage,
    /// The pod is gone, or has a node without us.
    abandoned: bool,
    /// Why it is given up once what is on its way is written.
    cancelled: Option<String>,
}

enum Stage {
    Reserved,
    Writing,
    /// The claims as they were written, the one that was made last.
    Waiting {
        written: Vec<Arc<ResourceClaim>>,
        until: Duration,
        of_claim: bool,
    },
    Binding {
        written: Vec<Arc<ResourceClaim>>,
    },
    /// It was not bound; its claims are given back before it is taken off its node.
    Releasing,
}

impl ClaimWriters {
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    fn remove(&mut self, uid: &str) -> Option<Writer> {
        let writer = self.by_pod.remove(uid)?;
        if let Stage::Waiting { written, until, .. } = &writer.stage {
            self.deadlines.remove(&(*until, writer.queued.pod.uid.clone()));
            for claim in written {
                forget(&mut self.by_claim, &(claim.namespace.clone(), claim.name.clone()), uid);
            }
        }
        Some(writer)
    }
}

/// What happens next to a pod whose claims are written.
pub enum AfterClaims {
    /// It is bound next.
    Bound,
    /// Its devices have to get ready first.
    Waits,
    Failed,
    /// It is no concern of ours any more.
    Nothing,
}

impl Engine {
    pub fn set_resource_claim(&mut self, namespace: &str, name: &str, tree: Option<&Value>, now: Duration) {
        let new = tree.map(|tree| Arc::new(ResourceClaim::parse(tree)));
        let change = self.cluster.devices_mut().set_claim(namespace, name, new);
        let Some(ClaimChange { old, new }) = change else { return };
        match (&old, &new) {
            (_, Some(new)) => {
                // Another of the same name is a new one.
                let old = old.as_deref().filter(|old| old.uid == new.uid);
                self.queue.moved(&Event::ResourceClaim { old, new }, &self.cluster, now);
            }
            // Differs from kube-scheduler, which trusts that devices are taken from a claim before it goes, and leaves a pod waiting
            // whose claim of an earlier attempt has just been deleted.
            (Some(old), None) if old.allocation.is_some() || old.extended => {
                self.queue.moved(&Event::DevicesFreed, &self.cluster, now);
            }
            _ => {}
        }
        self.settle_resource_claim(&(namespace.into(), name.into()));
    }

    pub fn set_resource_slice(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let old = self.cluster.devices_mut().slices.set(name, tree.map(Slice::parse));
        if tree.is_some() {
            self.queue.moved(&Event::ResourceSlice { new: old.is_none() }, &self.cluster, now);
        }
    }

    pub fn set_device_class(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let known = self.cluster.devices_mut();
        let old = known.classes.set(name, tree.map(DeviceClass::parse));
        known.class_changed();
        let new = known.classes.get(name).cloned();
        if let Some(new) = &new {
            self.queue.moved(&Event::DeviceClass { old: old.as_deref(), new }, &self.cluster, now);
        }
    }

    /// Whether a pod like another one may fare otherwise: claims are each pod's own.
    pub(super) fn asks_for_claims(&self, pod: &Pod) -> bool {
        !pod.claims.is_empty()
            || !pod.class.spec.extended.is_empty()
                && pod.class.spec.requests.iter().any(|(name, _)| self.cluster.devices().has_class_for(name))
    }

    /// The devices that were found for a pod on its node are its own from here on.
    pub(super) fn reserve_devices(&mut self, queued: &Queued, node: &Arc<str>, ix: NodeIx, found: &Devices) {
        let chosen = found.on(ix);
        if found.claims().is_empty() && chosen.is_none() {
            return;
        }
        let of = |i: usize| {
            let chosen = chosen.as_ref()?.allocations.iter().find(|(at, _)| *at == i)?;
            Some(chosen.1.clone())
        };
        let claims: Vec<_> = found.claims().iter().enumerate().map(|(i, c)| (c.clone(), of(i))).collect();
        let extended = chosen.as_ref().and_then(|chosen| chosen.extended.clone());
        let known = self.cluster.devices_mut();
        for (claim, allocation) in &claims {
            if let Some(allocation) = allocation {
                known.reserve(&claim.uid, allocation);
            }
        }
        let uid = &queued.pod.uid;
        if let Some(extended) = &extended {
            known.reserve(&extended_key(uid), &extended.allocation);
        }
        let bindings = Arc::new(ClaimBindings { claims, extended });
        let (queued, node) = (queued.clone(), node.clone());
        let stage = Stage::Reserved;
        let writer = Writer { queued, node, bindings, stage, abandoned: false, cancelled: None };
        self.writers.by_pod.insert(uid.clone(), writer);
    }

    /// Nothing but its claims keeps the pod from being bound, if it has any.
    pub(super) fn bind_or_write(&mut self, queued: Queued, node: Arc<str>) -> ScheduleResult {
        match self.writers.by_pod.get_mut(&queued.pod.uid) {
            Some(writer) if matches!(writer.stage, Stage::Reserved) => {
                writer.stage = Stage::Writing;
                ScheduleResult::BindClaims { queued, node, claims: writer.bindings.clone() }
            }
            _ => ScheduleResult::Bind { queued, node },
        }
    }

    /// The writing ended, one way or the other.
    pub fn claims_written(&mut self, uid: &str, written: WrittenClaims, now: Duration) -> AfterClaims {
        let Some(writer) = self.writers.by_pod.get_mut(uid) else { return AfterClaims::Nothing };
        let (bindings, abandoned) = (writer.bindings.clone(), writer.abandoned);
        let cancelled = writer.cancelled.take();
        self.learn(uid, &bindings, &written, now);
        if abandoned {
            self.writers.remove(uid);
            return AfterClaims::Nothing;
        }
        // What it had already, and what was written now.
        let mut claims: Vec<Arc<ResourceClaim>> = Vec::new();
        for (claim, _) in &bindings.claims {
            let new = written.claims.iter().find(|new| new.uid == claim.uid);
            claims.push(new.unwrap_or(claim).clone());
        }
        claims.extend(written.extended.clone());
        if let Some(error) = written.error.or(cancelled) {
            self.end_claims(uid, claims, Err(error));
            return AfterClaims::Failed;
        }
        if !claims.iter().any(|claim| claim.has_binding_conditions()) {
            self.end_claims(uid, claims, Ok(()));
            return AfterClaims::Bound;
        }
        self.wait_for_devices(uid, claims, now);
        self.settle_writer(uid);
        AfterClaims::Waits
    }

    /// What the answers of the server say about devices.
    fn learn(&mut self, uid: &str, bindings: &ClaimBindings, written: &WrittenClaims, now: Duration) {
        for claim in &written.claims {
            if let Some(old) = self.cluster.devices_mut().assume(claim.clone()) {
                let event = Event::ResourceClaim { old: Some(&old), new: claim };
                self.queue.moved(&event, &self.cluster, now);
                self.settle_resource_claim(&(claim.namespace.clone(), claim.name.clone()));
            }
        }
        let known = self.cluster.devices_mut();
        let mut freed = false;
        for (claim, _) in bindings.claims.iter().filter(|(_, allocation)| allocation.is_some()) {
            match &written.doubt {
                Some((doubted, revision)) if *doubted == claim.uid => known.doubt(doubted, *revision, now),
                _ => freed |= known.release(&claim.uid),
            }
        }
        if bindings.extended.is_some() {
            let key = extended_key(uid);
            match &written.extended {
                Some(claim) => {
                    // Without an answer its devices may be there for all we know.
                    let doubted = written.doubt.as_ref().is_some_and(|(uid, _)| *uid == claim.uid);
                    if claim.allocation.is_some() || doubted {
                        known.hold_until_seen(&key, claim, now);
                    } else {
                        freed |= known.release(&key);
                    }
                }
                None => freed |= known.release(&key),
            }
        }
        if freed {
            self.queue.moved(&Event::DevicesFreed, &self.cluster, now);
        }
    }

    fn wait_for_devices(&mut self, uid: &str, written: Vec<Arc<ResourceClaim>>, now: Duration) {
        let unix_now = self.cluster.devices().unix_now;
        let Some(writer) = self.writers.by_pod.get_mut(uid) else { return };
        let profile = self.config.profile(&writer.queued.pod.scheduler_name);
        let timeout = profile.map_or(Duration::ZERO, |p| self.config.profiles[p].device_binding_timeout);
        let mut until = now + timeout;
        // One that has been waited for before has less time left.
        let ends = written.iter().filter_map(|claim| claim.binding_deadline(timeout.as_secs() as i64));
        let left = ends
            .min()
            .map(|end| Duration::from_secs(end.saturating_sub(unix_now).max(-1).saturating_add(1) as u64));
        let of_claim = left.is_some_and(|left| now + left + POLL <= until);
        if let Some(left) = left.filter(|_| of_claim) {
            until = now + left;
        }
        let pod = writer.queued.pod.uid.clone();
        for claim in &written {
            let key = (claim.namespace.clone(), claim.name.clone());
            self.writers.by_claim.entry(key).or_default().push(pod.clone());
        }
        writer.stage = Stage::Waiting { written, until, of_claim };
        self.writers.deadlines.insert((until, pod));
    }

    fn settle_resource_claim(&mut self, key: &ClaimKey) {
        for uid in self.writers.by_claim.get(key).cloned().unwrap_or_default() {
            self.settle_writer(&uid);
        }
    }

    fn settle_writer(&mut self, uid: &str) {
        let Some(Writer { bindings, stage: Stage::Waiting { written, .. }, .. }) =
            self.writers.by_pod.get(uid)
        else {
            return;
        };
        let mut claims = Vec::with_capacity(written.len());
        for claim in written {
            let known = self.cluster.devices().claim(&claim.namespace, &claim.name);
            let claim = match known.filter(|known| known.uid == claim.uid) {
                Some(known) => known.clone(),
                // One that was just made may not have been seen.
                None if bindings.claims.iter().all(|(other, _)| other.uid != claim.uid) => claim.clone(),
                None => {
                    let error = format!("could not find ResourceClaim \"{}\"", claim.key());
                    return self.end_claims(uid, written.clone(), Err(error));
                }
            };
            match claim.is_ready() {
                Ok(true) => claims.push(claim),
                Ok(false) => return,
                Err(error) => return self.end_claims(uid, written.clone(), Err(error)),
            }
        }
        self.end_claims(uid, claims, Ok(()));
    }

    fn end_claims(&mut self, uid: &str, claims: Vec<Arc<ResourceClaim>>, result: Result<(), String>) {
        let Some(mut writer) = self.writers.remove(uid) else { return };
        let (queued, node) = (writer.queued.clone(), writer.node.clone());
        match result {
            Ok(()) => {
                writer.stage = Stage::Binding { written: claims };
                self.writers.by_pod.insert(queued.pod.uid.clone(), writer);
                self.bindings.ended.push_back(ScheduleResult::Bind { queued, node });
            }
            Err(why) => {
                let unreserved = unreserved(&writer, &claims);
                writer.stage = Stage::Releasing;
                self.writers.by_pod.insert(queued.pod.uid.clone(), writer);
                let message = format!("running PreBind plugin \"DynamicResources\": {why}");
                let failed = ScheduleResult::ClaimsFailed { queued, node, message, unreserved };
                self.bindings.ended.push_back(failed);
            }
        }
    }

    /// Takes a pod off its node whose claims are being written, or whose devices are waited for. `false`: neither is.
    pub(super) fn cancel_claims(&mut self, uid: &str, why: String) -> bool {
        let Some(writer) = self.writers.by_pod.get_mut(uid).filter(|writer| !writer.abandoned) else {
            return false;
        };
        match &writer.stage {
            // Where volumes come first, they are what is cancelled.
            Stage::Reserved | Stage::Binding { .. } => return false,
            Stage::Writing => writer.cancelled = Some(why),
            Stage::Waiting { written, .. } => {
                let written = written.clone();
                self.end_claims(uid, written, Err(why));
            }
            // It leaves already.
            Stage::Releasing => {}
        }
        true
    }

    /// The claims of a pod that was to be bound and was refused.
    pub fn take_claims(&mut self, uid: &str) -> Option<Unreserved> {
        let writer = self.writers.by_pod.get_mut(uid)?;
        let Stage::Binding { written } = &writer.stage else { return None };
        let found = unreserved(writer, written);
        writer.stage = Stage::Releasing;
        Some(found)
    }

    /// The pod is gone, has a node without us, or its volumes were not bound.
    pub(super) fn forget_devices(&mut self, uid: &str, now: Duration) {
        let Some(writer) = self.writers.by_pod.get_mut(uid) else { return };
        match writer.stage {
            // Whatever is being written may be there any moment: its devices stay its own until that is known.
            Stage::Writing => writer.abandoned = true,
            Stage::Reserved => {
                let bindings = writer.bindings.clone();
                self.writers.remove(uid);
                self.learn(uid, &bindings, &WrittenClaims::default(), now);
            }
            Stage::Waiting { .. } | Stage::Binding { .. } | Stage::Releasing => {
                self.writers.remove(uid);
            }
        }
    }

    /// Gives up on those who waited too long, and on writes that cannot come any more.
    pub(super) fn expire_devices(&mut self, now: Duration) {
        while let Some((_, uid)) = self.writers.deadlines.first().filter(|(until, _)| *until <= now).cloned()
        {
            let Some(Writer { stage: Stage::Waiting { written, of_claim, .. }, .. }) =
                self.writers.by_pod.get(&uid)
            else {
                self.writers.deadlines.pop_first();
                continue;
            };
            let late = |claim: &&Arc<ResourceClaim>| {
                let known = self.cluster.devices().claim(&claim.namespace, &claim.name);
                known.unwrap_or(claim).is_ready() == Ok(false)
            };
            let late = written.iter().find(late).filter(|_| *of_claim);
            let error = match late {
                Some(claim) => format!("device binding timeout: claim={}", claim.name),
                None => "device binding timeout: context deadline exceeded".to_owned(),
            };
            let written = written.clone();
            self.end_claims(&uid, written, Err(error));
        }
        if self.cluster.devices_mut().expire(now) {
            self.queue.moved(&Event::DevicesFreed, &self.cluster, now);
        }
    }
}

/// Holds the devices of a claim that is not made yet.
fn extended_key(pod_uid: &str) -> Arc<str> {
    format!("{pod_uid}/extended-resources").into()
}

fn unreserved(writer: &Writer, claims: &[Arc<ResourceClaim>]) -> Unreserved {
    let uid = &writer.queued.pod.uid;
    let own = |claim: &&Arc<ResourceClaim>| writer.bindings.claims.iter().all(|(c, _)| c.uid != claim.uid);
    let reserved = |claim: &&Arc<ResourceClaim>| claim.allocation.is_some() && claim.is_reserved_for(uid);
    Unreserved {
        claims: claims
            .iter()
            .filter(|claim| !own(claim) && reserved(claim))
            .map(|claim| ClaimKeyAndUid::of(claim))
            .collect(),
        extended: claims.iter().find(own).map(|claim| ClaimKeyAndUid::of(claim)),
    }
}

#[cfg(test)]
mod tests;
