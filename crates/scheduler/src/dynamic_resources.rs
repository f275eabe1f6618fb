//! Claims, the devices there are and the classes they are asked for by, as they are and as they are about to become.
//!
//! ```text
//! informers ──> set_claim, slices, classes
//! a pod gets a node ──> reserve: the devices found for its claims are in flight
//!                          ├─ written ──> assume: the claim as the server answered, until the informer has seen it
//!                          ├─ refused ──> release
//!                          └─ no answer ──> doubt: held until the claim is seen to have changed, or it cannot any more
//! ```
//! A device is held by a claim's uid from the moment it is chosen, so that it is never given twice.

pub mod extended;
mod objects;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use devices::{Allocation, Classes, Selectors, Slices};

pub use objects::{EXTENDED_ANNOTATION, FINALIZER, ResourceClaim};

use crate::pod::{ClaimSource, Generated, Pod};

/// Namespace and name.
pub type ClaimKey = (Arc<str>, Arc<str>);

/// A write that had no answer reaches the claim within this time, if ever: the server gives up on a call after a minute.
const LONGEST_DOUBT: Duration = Duration::from_secs(120);

#[derive(Default)]
pub struct DynamicResources {
    /// By namespace and name: as seen, or newer, as the server answered.
    claims: HashMap<Arc<str>, HashMap<Arc<str>, Arc<ResourceClaim>>>,
    /// Claims made for a pod's extended resources, by the pod's uid.
    extended: HashMap<Arc<str>, BTreeSet<ClaimKey>>,
    /// Devices chosen for claims that do not say so yet, by the claim's uid.
    in_flight: HashMap<Arc<str>, InFlight>,
    doubts: BTreeSet<(Duration, Arc<str>)>,
    pub slices: Slices,
    pub classes: Classes,
    /// Who holds which devices, by the claim's uid.
    pub allocated: devices::Allocated,
    pub selectors: Selectors,
    /// Grows when a class comes, changes or goes.
    classes_version: u64,
    /// The wall clock, in Unix seconds.
    pub unix_now: i64,
    /// Elapsed time, to end searches that take too long; without it their steps alone are counted.
    pub clock: Option<Arc<dyn Fn() -> Duration + Send + Sync>>,
    share_ids: ShareIds,
}

/// What a claim was and what it is.
pub struct ClaimChange {
    pub old: Option<Arc<ResourceClaim>>,
    pub new: Option<Arc<ResourceClaim>>,
}

struct InFlight {
    allocation: Arc<Allocation>,
    doubt: Option<Doubt>,
}

/// The version a write was meant for that had no answer, and until when it may still come.
struct Doubt {
    revision: u64,
    until: Duration,
}

/// Random ids for shares of devices.
#[derive(Default)]
struct ShareIds(Cell<[u64; 2]>);

impl DynamicResources {
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(namespace)?.get(name)
    }

    /// A claim made for the pod's extended resources.
    pub fn extended_claim(&self, pod: &Pod) -> Option<&Arc<ResourceClaim>> {
        let (namespace, name) = self.extended.get(&pod.uid)?.first()?;
        self.claim(namespace, name)
    }

    pub fn classes_version(&self) -> u64 {
        self.classes_version
    }

    pub fn class_changed(&mut self) {
        self.classes_version += 1;
    }

    /// Whether there is a class whose devices stand for the resource.
    pub fn has_class_for(&self, resource: &str) -> bool {
        self.classes.for_extended_resource(resource).is_some()
    }

    /// The pod's claims in its order, if all of them are there and the pod's own to use; otherwise why not.
    pub fn pod_claims(&self, pod: &Pod) -> Result<Vec<Arc<ResourceClaim>>, String> {
        let mut claims = Vec::with_capacity(pod.claims.len());
        let namespace = pod.namespace();
        for entry in &pod.claims {
            let (name, made) = match &entry.source {
                ClaimSource::Claim(name) => (name, false),
                ClaimSource::Template(Generated::Claim(name)) => (name, true),
                ClaimSource::Template(Generated::None) => continue,
                ClaimSource::Template(Generated::NotYet) => {
                    return Err(format!("pod \"{}\": ResourceClaim not created yet", pod.key()));
                }
                ClaimSource::Unknown => {
                    let (pod, name) = (pod.key(), &entry.name);
                    let words = "none of the supported fields are set";
                    return Err(format!("pod \"{pod}\", spec.resourceClaim \"{name}\": {words}"));
                }
            };
            let Some(claim) = self.claim(namespace, name) else {
                return Err(format!("could not find ResourceClaim \"{namespace}/{name}\""));
            };
            if claim.deleting {
                return Err(format!("resourceclaim \"{name}\" is being deleted"));
            }
            if made && claim.controller.as_ref() != Some(&pod.uid) {
                let (claim, pod) = (claim.key(), pod.key());
                return Err(format!(
                    "ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)"
                ));
            }
            claims.push(claim.clone());
        }
        Ok(claims)
    }

    /// A claim as it was seen. What the server answered meanwhile may be newer: then it stays. The answer is the change, if it is one.
    pub fn set_claim(
        &mut self,
        namespace: &str,
        name: &str,
        new: Option<Arc<ResourceClaim>>,
    ) -> Option<ClaimChange> {
        let old = self.claim(namespace, name).cloned();
        if let (Some(old), Some(new)) = (&old, &new)
            && old.uid == new.uid
            && old.revision >= new.revision
        {
            return None;
        }
        self.put(namespace, name, old.as_ref(), new.clone());
        if let Some(old) = &old
            && new.as_ref().is_none_or(|new| new.uid != old.uid)
        {
            // It is gone, and with it all that could still be written to it.
            self.remove_in_flight(&old.uid);
            self.allocated.set(&old.uid, None);
        }
        if let Some(new) = &new {
            self.hold(new);
        }
        Some(ClaimChange { old, new })
    }

    /// A claim as the server answered a write. The answer is what was known before, if this is newer.
    pub fn assume(&mut self, claim: Arc<ResourceClaim>) -> Option<Arc<ResourceClaim>> {
        let known = self.claim(&claim.namespace, &claim.name)?.clone();
        if known.uid != claim.uid || known.revision >= claim.revision {
            return None;
        }
        self.put(&claim.namespace, &claim.name, Some(&known), Some(claim.clone()));
        self.hold(&claim);
        Some(known)
    }

    /// Its devices are held by what it says, and until it does by what is in flight.
    fn hold(&mut self, claim: &ResourceClaim) {
        if let Some(allocation) = &claim.allocation {
            self.remove_in_flight(&claim.uid);
            self.allocated.set(&claim.uid, Some(&allocation.devices));
            return;
        }
        let in_flight = self.in_flight.get(&claim.uid);
        let settled = |f: &InFlight| f.doubt.as_ref().is_some_and(|doubt| claim.revision > doubt.revision);
        // The write that had no answer was for an older version: it cannot come any more.
        if in_flight.is_none_or(settled) {
            self.remove_in_flight(&claim.uid);
            self.allocated.set(&claim.uid, None);
        }
    }

    fn put(
        &mut self,
        namespace: &str,
        name: &str,
        old: Option<&Arc<ResourceClaim>>,
        new: Option<Arc<ResourceClaim>>,
    ) {
        let key: ClaimKey = (namespace.into(), name.into());
        let made_for = |claim: &ResourceClaim| claim.controller.clone().filter(|_| claim.extended);
        if let Some(pod) = old.and_then(|old| made_for(old))
            && let Some(claims) = self.extended.get_mut(&pod)
        {
            claims.remove(&key);
            if claims.is_empty() {
                self.extended.remove(&pod);
            }
        }
        let Some(new) = new else {
            if let Some(claims) = self.claims.get_mut(namespace) {
                claims.remove(name);
                if claims.is_empty() {
                    self.claims.remove(namespace);
                }
            }
            return;
        };
        if let Some(pod) = made_for(&new) {
            self.extended.entry(pod).or_default().insert(key.clone());
        }
        self.claims.entry(key.0).or_default().insert(key.1, new);
    }

    pub fn is_in_flight(&self, uid: &str) -> bool {
        self.in_flight.contains_key(uid)
    }

    /// Devices were chosen for a claim: nobody else gets them.
    pub fn reserve(&mut self, uid: &Arc<str>, allocation: &Arc<Allocation>) {
        self.allocated.set(uid, Some(allocation));
        self.in_flight.insert(uid.clone(), InFlight { allocation: allocation.clone(), doubt: None });
    }

    /// Nothing was written: whoever wants may have them. The answer is whether something became free.
    pub fn release(&mut self, uid: &str) -> bool {
        self.remove_in_flight(uid) && self.allocated.set(uid, None)
    }

    /// It is not known what became of a write for this version of the claim.
    pub fn doubt(&mut self, uid: &str, revision: u64, now: Duration) {
        let Some((uid, in_flight)) = self.in_flight.get_key_value(uid).map(|(uid, f)| (uid.clone(), f))
        else {
            return;
        };
        let allocation = in_flight.allocation.clone();
        self.remove_in_flight(&uid);
        let until = now + LONGEST_DOUBT;
        self.doubts.insert((until, uid.clone()));
        self.in_flight.insert(uid, InFlight { allocation, doubt: Some(Doubt { revision, until }) });
    }

    /// As [`DynamicResources::doubt`], for a claim that was made meanwhile and may not have been seen yet.
    pub fn hold_until_seen(&mut self, from: &str, claim: &ResourceClaim, now: Duration) {
        let Some(in_flight) = self.in_flight.get(from) else { return };
        let allocation = in_flight.allocation.clone();
        self.release(from);
        if self.claim(&claim.namespace, &claim.name).is_some_and(|known| known.allocation.is_some()) {
            return;
        }
        self.reserve(&claim.uid, &allocation);
        // Its own version may be seen without the devices; only what comes after tells that it has none.
        self.doubt(&claim.uid, claim.revision, now);
    }

    pub fn next_deadline(&self) -> Option<Duration> {
        self.doubts.first().map(|(until, _)| *until)
    }

    /// Lets go of what no write can come for any more; the answer is whether there was something.
    pub fn expire(&mut self, now: Duration) -> bool {
        let mut freed = false;
        while let Some((_, uid)) = self.doubts.first().filter(|(until, _)| *until <= now).cloned() {
            freed |= self.release(&uid);
        }
        freed
    }

    fn remove_in_flight(&mut self, uid: &str) -> bool {
        let Some((uid, in_flight)) = self.in_flight.remove_entry(uid) else { return false };
        if let Some(doubt) = in_flight.doubt {
            self.doubts.remove(&(doubt.until, uid));
        }
        true
    }

    /// What share ids are made of from here on.
    pub fn seed_share_ids(&mut self, seed: [u64; 2]) {
        self.share_ids = ShareIds(Cell::new(seed));
    }

    pub fn share_id(&self) -> String {
        self.share_ids.next()
    }
}

impl ShareIds {
    /// A UUID of version 4.
    fn next(&self) -> String {
        let [a, b] = self.0.get();
        let state = [a.wrapping_add(0x9e37_79b9_7f4a_7c15), b.wrapping_add(0xbf58_476d_1ce4_e5b9)];
        self.0.set(state);
        let [high, low] = state.map(mixed);
        // Each half depends on both words of the seed.
        let (high, low) = (high ^ low.rotate_left(32), low ^ mixed(high));
        let (version, variant) = (high & 0xfff | 0x4000, low >> 48 & 0x3fff | 0x8000);
        let (first, second) = (high >> 32, high >> 16 & 0xffff);
        format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{:012x}", low & 0xffff_ffff_ffff)
    }
}

/// The finalizer of SplitMix64.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
