//! Volumes by what claims look for: the smallest that fits is found without looking at the others.
//!
//! ```text
//! class, attributes class, volume mode, access modes ──> free volumes, the smallest first
//! claim (namespace/name) ──────────────────────────────> volumes reserved for it
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kinds::persistentvolume::view::{VolumePhase, VolumeView};
use kinds::persistentvolumeclaim::view::{AccessModes, ClaimView};
use object::Obj;
use object::quantity::Quantity;

use crate::volumes::volume_view;

/// A claim that looks for a volume.
pub struct Wanted<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub view: &'a ClaimView,
    /// It waits for its first consumer: only a volume that is reserved for it will do.
    pub delayed: bool,
}

#[derive(Default)]
pub struct VolumeIndex {
    /// Looked up by name only.
    known: HashMap<Box<str>, Known>,
    free: BTreeMap<Slot, BTreeSet<(Quantity, Box<str>)>>,
    /// By claim.
    reserved: BTreeMap<String, BTreeSet<Box<str>>>,
    /// Volumes that are just being bound: nobody else is to have them.
    taken: BTreeSet<Box<str>>,
}

struct Known {
    obj: Arc<Obj>,
    /// Where it is among the free ones.
    slot: Option<(Slot, Quantity)>,
    claim: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    class: Box<str>,
    attributes_class: Box<str>,
    block: bool,
    modes: AccessModes,
}

impl VolumeIndex {
    pub fn get(&self, name: &str) -> Option<&Arc<Obj>> {
        self.known.get(name).map(|known| &known.obj)
    }

    /// A version of a volume; an older one than is known changes nothing. `true`: a claim may have it now.
    pub fn put(&mut self, obj: &Arc<Obj>) -> bool {
        let name = obj.name();
        let mut was_free = false;
        if let Some(known) = self.known.get(name) {
            if known.obj.uid() == obj.uid() && known.obj.revision() > obj.revision() {
                return false;
            }
            was_free = known.slot.is_some();
        }
        self.take_out(name);
        let view = volume_view(obj);
        let claim = view.claim.as_ref().map(|claim| claim.key());
        if let Some(claim) = &claim {
            self.reserved.entry(claim.clone()).or_default().insert(name.into());
        }
        let is_free = is_free(obj, &view) && !self.taken.contains(name);
        let slot = is_free.then(|| (Slot::of(&view, view.modes), view.capacity));
        if let Some((slot, capacity)) = &slot {
            self.free.entry(slot.clone()).or_default().insert((*capacity, name.into()));
        }
        self.known.insert(name.into(), Known { obj: obj.clone(), slot, claim });
        is_free && !was_free
    }

    /// The volume is gone.
    pub fn remove(&mut self, obj: &Obj) {
        let is_gone = |known: &Arc<Obj>| known.uid() == obj.uid() || known.revision() <= obj.revision();
        if self.known.get(obj.name()).is_some_and(|known| is_gone(&known.obj)) {
            self.take_out(obj.name());
        }
    }

    fn take_out(&mut self, name: &str) {
        let Some(known) = self.known.remove(name) else { return };
        if let Some((slot, capacity)) = known.slot
            && let Some(volumes) = self.free.get_mut(&slot)
        {
            volumes.remove(&(capacity, name.into()));
            if volumes.is_empty() {
                self.free.remove(&slot);
            }
        }
        if let Some(claim) = known.claim
            && let Some(volumes) = self.reserved.get_mut(&claim)
        {
            volumes.remove(name);
            if volumes.is_empty() {
                self.reserved.remove(&claim);
            }
        }
    }

    /// Names of the volumes whose `claimRef` says this claim.
    pub fn reserved_for(&self, claim: &str) -> Vec<Box<str>> {
        self.reserved.get(claim).into_iter().flatten().cloned().collect()
    }

    /// The volume a claim is to have: with as few access modes as possible, then one that is reserved for it, then the smallest; of
    /// equal ones the first by name.
    pub fn find(&self, wanted: &Wanted<'_>) -> Result<Option<Arc<Obj>>, String> {
        let view = wanted.view;
        let selector = view.selector.as_ref().map(|selector| selector.as_ref()).transpose();
        let selector = selector.map_err(|why| {
            let claim = format!("{}/{}", wanted.namespace, wanted.name);
            format!("error creating internal label selector for claim: {claim}: {why}")
        })?;
        let selects = |obj: &Obj| selector.is_none_or(|selector| selector.matches(&|name| obj.label(name)));
        let reserved = self.reserved_that_fit(wanted);
        for modes in view.modes.supersets() {
            if let Some((_, obj)) = reserved.iter().find(|(has, _)| *has == modes) {
                return Ok(Some(obj.clone()));
            }
            if wanted.delayed {
                continue;
            }
            let slot = Slot {
                class: view.class_name().into(),
                attributes_class: view.attributes_class.clone(),
                block: view.block,
                modes,
            };
            let Some(volumes) = self.free.get(&slot) else { continue };
            let large_enough = volumes.range((view.requested, Box::from(""))..);
            let mut objects = large_enough.filter_map(|(_, name)| self.get(name));
            if let Some(obj) = objects.find(|obj| selects(obj)) {
                return Ok(Some(obj.clone()));
            }
        }
        Ok(None)
    }

    /// Class and labels of a volume that is reserved for a claim do not matter.
    fn reserved_that_fit(&self, wanted: &Wanted<'_>) -> Vec<(AccessModes, Arc<Obj>)> {
        let mut fitting = Vec::new();
        let names = self.reserved.get(&format!("{}/{}", wanted.namespace, wanted.name));
        for obj in names.into_iter().flatten().filter_map(|name| self.get(name)) {
            let volume = volume_view(obj);
            let is_for = volume
                .claim
                .as_ref()
                .is_some_and(|claim| claim.is_for(wanted.namespace, wanted.name, wanted.uid));
            let fits = volume.capacity >= wanted.view.requested
                && volume.block == wanted.view.block
                && volume.attributes_class == wanted.view.attributes_class
                && !obj.deleting();
            if is_for && fits {
                fitting.push((volume.modes, obj.clone()));
            }
        }
        fitting
    }

    /// Nobody else is given the volume until it is given back.
    pub fn take(&mut self, name: &str) {
        self.taken.insert(name.into());
        self.refresh(name);
    }

    /// `true`: a claim may have it now.
    pub fn give_back(&mut self, name: &str) -> bool {
        self.taken.remove(name);
        self.refresh(name)
    }

    fn refresh(&mut self, name: &str) -> bool {
        let obj = self.get(name).cloned();
        obj.is_some_and(|obj| self.put(&obj))
    }
}

impl Slot {
    fn of(view: &VolumeView, modes: AccessModes) -> Slot {
        Slot {
            class: view.class.clone(),
            attributes_class: view.attributes_class.clone(),
            block: view.block,
            modes,
        }
    }
}

/// Anybody's who asks for one like it.
pub fn is_free(obj: &Obj, view: &VolumeView) -> bool {
    view.claim.is_none() && view.phase == VolumePhase::Available && !obj.deleting()
}
