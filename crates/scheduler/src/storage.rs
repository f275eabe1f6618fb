//! Claims, volumes and classes, as they are and as they are assumed to become.
//!
//! ```text
//! informers ──> set_claim, set_volume, ...
//! a pod gets a node ──> assume: this volume is that claim's, that claim is provisioned for this node
//!                          └─ holds until the object is seen in a newer version, or the pod gives up
//! ```

pub mod choose;
mod objects;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub use choose::{Conflicts, VolumeBindings};
pub use objects::{
    Attachment, BOUND_BY_CONTROLLER, Capacity, Claim, ClaimRef, CsiNode, SELECTED_NODE, StorageClass, Volume,
    ZONE_LABELS, Zones,
};

type Key = (Arc<str>, Arc<str>);

#[derive(Default)]
pub struct Storage {
    /// By namespace and name.
    claims: HashMap<Arc<str>, HashMap<Arc<str>, Arc<Claim>>>,
    volumes: HashMap<Arc<str>, Arc<Volume>>,
    classes: HashMap<Arc<str>, Arc<StorageClass>>,
    csi_nodes: HashMap<Arc<str>, CsiNode>,
    /// Drivers that say how much room they have.
    tracked: HashSet<Arc<str>>,
    /// By class, then by namespace and name.
    capacities: HashMap<Arc<str>, BTreeMap<Key, Capacity>>,
    capacity_class: HashMap<Key, Arc<str>>,
    attachments: HashMap<Arc<str>, Attachment>,
    /// Names of attachments by node.
    attached: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Claims that have a volume, by its name, and claims that have none, by class.
    claims_bound: HashMap<Arc<str>, BTreeSet<Key>>,
    claims_unbound: HashMap<Arc<str>, BTreeSet<Key>>,
    /// Volumes that any claim may have, by class, the smallest first.
    free: HashMap<Arc<str>, BTreeSet<(i64, Arc<str>)>>,
    /// Volumes that name a claim, by the claim.
    named: HashMap<Key, BTreeSet<Arc<str>>>,
    assumed_volumes: HashMap<Arc<str>, Assumed<ClaimRef>>,
    assumed_claims: HashMap<Key, Assumed<Arc<str>>>,
    /// Grows with every change.
    version: u64,
}

/// What an object is assumed to become, of the version it was decided on.
struct Assumed<T> {
    revision: u64,
    value: T,
    /// The uid of the pod it was assumed for.
    by: Arc<str>,
}

impl Storage {
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<Claim>> {
        self.claims.get(namespace)?.get(name)
    }
    pub fn volume(&self, name: &str) -> Option<&Arc<Volume>> {
        self.volumes.get(name)
    }
    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }
    pub fn csi_node(&self, node: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(node)
    }

    /// The volumes attached to a node, by driver and handle.
    pub fn attached(&self, node: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.attached.get(node).into_iter().flatten().filter_map(|name| {
            let attachment = self.attachments.get(name).filter(|a| !a.attacher.is_empty())?;
            let (_, handle) = self.volumes.get(&attachment.volume)?.csi.as_ref()?;
            Some((&attachment.attacher, handle))
        })
    }

    /// The driver of a claim's volume and the volume's handle, which is made up while there is no volume.
    pub fn attachable(&self, claim: &Claim) -> Option<(Arc<str>, Arc<str>)> {
        if let Some(volume) = self.volumes.get(&claim.volume) {
            return volume.csi.clone();
        }
        let class = self.classes.get(&claim.class)?;
        Some((class.provisioner.clone(), format!("\0{}/{}", claim.namespace, claim.name).into()))
    }

    /// The claim a volume belongs to, or will.
    fn claim_of<'a>(&'a self, volume: &'a Volume) -> Option<&'a ClaimRef> {
        match self.assumed_volumes.get(&volume.name) {
            Some(assumed) => Some(&assumed.value),
            None => volume.claim.as_ref(),
        }
    }

    /// The node a claim's volume is provisioned for, or will be.
    pub fn selected_node<'a>(&'a self, claim: &'a Claim) -> Option<&'a Arc<str>> {
        match self.assumed_claims.get(&(claim.namespace.clone(), claim.name.clone())) {
            Some(assumed) => Some(&assumed.value),
            None => claim.selected_node.as_ref(),
        }
    }

    /// The answer is what was there before.
    pub fn set_claim(&mut self, namespace: &str, name: &str, new: Option<Arc<Claim>>) -> Option<Arc<Claim>> {
        self.version += 1;
        let key: Key = (namespace.into(), name.into());
        let seen = new.as_ref().map(|claim| claim.revision);
        if self.assumed_claims.get(&key).is_some_and(|assumed| Some(assumed.revision) != seen) {
            self.assumed_claims.remove(&key);
        }
        if let Some(new) = &new {
            let (index, by) = self.claims_like(new);
            index.entry(by).or_default().insert(key.clone());
        }
        let claims = self.claims.entry(key.0.clone()).or_default();
        let old = match &new {
            Some(claim) => claims.insert(key.1.clone(), claim.clone()),
            None => {
                let old = claims.remove(name);
                if claims.is_empty() {
                    self.claims.remove(namespace);
                }
                old
            }
        };
        let place = |claim: &Claim| (claim.is_bound(), claim.volume.clone(), claim.class.clone());
        if let Some(old) = old.as_deref().filter(|old| new.as_deref().map(place) != Some(place(old))) {
            let (index, by) = self.claims_like(old);
            if let Some(claims) = index.get_mut(&by) {
                claims.remove(&key);
                if claims.is_empty() {
                    index.remove(&by);
                }
            }
        }
        old
    }

    /// Where claims in the same state are found, and by what.
    fn claims_like(&mut self, claim: &Claim) -> (&mut HashMap<Arc<str>, BTreeSet<Key>>, Arc<str>) {
        match claim.is_bound() {
            true => (&mut self.claims_bound, claim.volume.clone()),
            false => (&mut self.claims_unbound, claim.class.clone()),
        }
    }

    /// The claims a volume may be of use to: its own, or, while it is free, all of its class that have none.
    pub fn claims_for<'a>(&'a self, volume: &'a Volume) -> impl Iterator<Item = Key> + 'a {
        let own = volume.claim.as_ref().map(|claim| (claim.namespace.clone(), claim.name.clone()));
        let others = if own.is_none() { self.claims_unbound.get(&volume.class) } else { None };
        let bound = self.claims_bound.get(&volume.name);
        own.into_iter().chain(bound.into_iter().chain(others).flatten().cloned())
    }

    pub fn set_volume(&mut self, name: &str, new: Option<Arc<Volume>>) -> Option<Arc<Volume>> {
        self.version += 1;
        let old = self.volumes.remove(name);
        if let Some(old) = &old {
            self.unindex(old);
        }
        let seen = new.as_ref().map(|volume| volume.revision);
        if self.assumed_volumes.get(name).is_some_and(|assumed| Some(assumed.revision) != seen) {
            self.assumed_volumes.remove(name);
        }
        if let Some(new) = new {
            self.index(&new);
            self.volumes.insert(new.name.clone(), new);
        }
        old
    }

    pub fn set_class(&mut self, name: &str, new: Option<StorageClass>) -> Option<Arc<StorageClass>> {
        self.version += 1;
        match new {
            Some(class) => self.classes.insert(name.into(), Arc::new(class)),
            None => self.classes.remove(name),
        }
    }

    pub fn set_csi_node(&mut self, name: &str, new: Option<CsiNode>) -> Option<CsiNode> {
        self.version += 1;
        match new {
            Some(node) => self.csi_nodes.insert(name.into(), node),
            None => self.csi_nodes.remove(name),
        }
    }

    /// Whether a driver says how much room it has; the answer is whether it did so before.
    pub fn set_tracked(&mut self, driver: &str, tracked: bool) -> bool {
        self.version += 1;
        if tracked { !self.tracked.insert(driver.into()) } else { self.tracked.remove(driver) }
    }

    pub fn set_capacity(&mut self, namespace: &str, name: &str, new: Option<Capacity>) -> Option<Capacity> {
        self.version += 1;
        let key: Key = (namespace.into(), name.into());
        let class = self.capacity_class.remove(&key);
        let mut old = None;
        if let Some(class) = class
            && let Some(capacities) = self.capacities.get_mut(&class)
        {
            old = capacities.remove(&key);
            if capacities.is_empty() {
                self.capacities.remove(&class);
            }
        }
        if let Some(new) = new {
            self.capacity_class.insert(key.clone(), new.class.clone());
            self.capacities.entry(new.class.clone()).or_default().insert(key, new);
        }
        old
    }

    pub fn set_attachment(&mut self, name: &str, new: Option<Attachment>) -> Option<Attachment> {
        self.version += 1;
        let old = self.attachments.remove(name);
        if let Some(old) = &old
            && let Some(names) = self.attached.get_mut(&old.node)
        {
            names.remove(name);
            if names.is_empty() {
                self.attached.remove(&old.node);
            }
        }
        if let Some(new) = new {
            let name: Arc<str> = name.into();
            self.attached.entry(new.node.clone()).or_default().insert(name.clone());
            self.attachments.insert(name, new);
        }
        old
    }

    /// What is to be written for a pod is taken for done.
    pub fn assume(&mut self, pod: &Arc<str>, node: &Arc<str>, bindings: &VolumeBindings) {
        self.version += 1;
        for (volume, claim) in &bindings.bind {
            let value = ClaimRef::of(claim);
            if self.claim_of(volume) == Some(&value) {
                continue;
            }
            self.unindex(volume);
            let assumed = Assumed { revision: volume.revision, value, by: pod.clone() };
            self.assumed_volumes.insert(volume.name.clone(), assumed);
            self.index(volume);
        }
        for claim in &bindings.provision {
            // What another pod has assumed stays when this one gives up.
            if self.selected_node(claim) == Some(node) {
                continue;
            }
            let assumed = Assumed { revision: claim.revision, value: node.clone(), by: pod.clone() };
            self.assumed_claims.insert((claim.namespace.clone(), claim.name.clone()), assumed);
        }
    }

    /// A pod gave up: what was assumed for it is not, but for the first so many that were written.
    pub fn revert(&mut self, pod: &str, bindings: &VolumeBindings, written: usize) {
        self.version += 1;
        for (volume, _) in bindings.bind.iter().skip(written) {
            if self.assumed_volumes.get(&volume.name).is_some_and(|assumed| *assumed.by == *pod) {
                // What is assumed is of the version that is known.
                let known = self.volumes.get(&volume.name).cloned().unwrap_or_else(|| volume.clone());
                self.unindex(&known);
                self.assumed_volumes.remove(&volume.name);
                if self.volumes.contains_key(&volume.name) {
                    self.index(&known);
                }
            }
        }
        for claim in bindings.provision.iter().skip(written.saturating_sub(bindings.bind.len())) {
            let key = (claim.namespace.clone(), claim.name.clone());
            if self.assumed_claims.get(&key).is_some_and(|assumed| *assumed.by == *pod) {
                self.assumed_claims.remove(&key);
            }
        }
    }

    fn index(&mut self, volume: &Volume) {
        match self.claim_of(volume).cloned() {
            Some(claim) => {
                let names = self.named.entry((claim.namespace, claim.name)).or_default();
                names.insert(volume.name.clone());
            }
            None if volume.available && !volume.deleting => {
                let free = self.free.entry(volume.class.clone()).or_default();
                free.insert((volume.capacity, volume.name.clone()));
            }
            None => {}
        }
    }

    fn unindex(&mut self, volume: &Volume) {
        match self.claim_of(volume).cloned() {
            Some(claim) => {
                let key = (claim.namespace, claim.name);
                if let Some(names) = self.named.get_mut(&key) {
                    names.remove(&volume.name);
                    if names.is_empty() {
                        self.named.remove(&key);
                    }
                }
            }
            None => {
                if let Some(free) = self.free.get_mut(&volume.class) {
                    free.remove(&(volume.capacity, volume.name.clone()));
                    if free.is_empty() {
                        self.free.remove(&volume.class);
                    }
                }
            }
        }
    }
}
