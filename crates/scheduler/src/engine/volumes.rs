//! Volumes: what changes about them, and pods that have a node and wait for their volumes to be bound.
//!
//! ```text
//! next() ──> ScheduleResult::BindVolumes ──> the loop writes ──> volumes_written() ── waits ── all bound ──> next() ──> Bind
//!                                                  │                                    └─ undone, too late, preempted ──> VolumesFailed
//!                                                  └─ refused ──> volumes_refused()
//! ```
//! Waiting is being told: each change of a claim, a volume or a node is looked at for the pods it concerns.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use object::Value;

use super::{Engine, ScheduleResult};
use crate::queue::Queued;
use crate::queue::hints::Event;
use crate::storage::{Attachment, Capacity, Claim, ClaimRef, CsiNode, StorageClass, Volume, VolumeBindings};

/// Namespace and name.
type ClaimKey = (Arc<str>, Arc<str>);

/// Pods that have a node, and whose volumes are being bound.
#[derive(Default)]
pub struct Bindings {
    by_pod: HashMap<Arc<str>, Binding>,
    by_claim: HashMap<ClaimKey, Vec<Arc<str>>>,
    by_volume: HashMap<Arc<str>, Vec<Arc<str>>>,
    deadlines: BTreeSet<(Duration, Arc<str>)>,
    /// What came of those that wait no more.
    pub ended: VecDeque<ScheduleResult>,
}

struct Binding {
    queued: Queued,
    node: Arc<str>,
    volumes: Arc<VolumeBindings>,
    written: Option<Written>,
    /// Why it is given up once what is on its way is written.
    cancelled: Option<String>,
}

/// What was written, and until when its effect is waited for.
struct Written {
    /// The revisions of volumes and then of claims, in their order.
    revisions: Vec<u64>,
    until: Duration,
}

enum Progress {
    Waits,
    Bound,
    Failed(String),
}

impl Bindings {
    pub fn insert(&mut self, queued: Queued, node: Arc<str>, volumes: Arc<VolumeBindings>) {
        let uid = queued.pod.uid.clone();
        for claim in volumes.claims() {
            let key = (claim.namespace.clone(), claim.name.clone());
            self.by_claim.entry(key).or_default().push(uid.clone());
        }
        for (volume, _) in &volumes.bind {
            self.by_volume.entry(volume.name.clone()).or_default().push(uid.clone());
        }
        self.by_pod.insert(uid, Binding { queued, node, volumes, written: None, cancelled: None });
    }

    fn remove(&mut self, uid: &str) -> Option<Binding> {
        let binding = self.by_pod.remove(uid)?;
        for claim in binding.volumes.claims() {
            forget(&mut self.by_claim, &(claim.namespace.clone(), claim.name.clone()), uid);
        }
        for (volume, _) in &binding.volumes.bind {
            forget(&mut self.by_volume, &volume.name, uid);
        }
        if let Some(written) = &binding.written {
            self.deadlines.remove(&(written.until, binding.queued.pod.uid.clone()));
        }
        Some(binding)
    }

    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }
}

pub(super) fn forget<K: std::hash::Hash + Eq>(index: &mut HashMap<K, Vec<Arc<str>>>, key: &K, uid: &str) {
    if let Some(uids) = index.get_mut(key) {
        uids.retain(|other| **other != *uid);
        if uids.is_empty() {
            index.remove(key);
        }
    }
}

impl Engine {
    pub fn set_claim(&mut self, namespace: &str, name: &str, tree: Option<&Value>, now: Duration) {
        let new = tree.map(|tree| Arc::new(Claim::parse(tree)));
        let old = self.cluster.storage_mut().set_claim(namespace, name, new.clone());
        if let Some(new) = &new {
            self.queue.moved(&Event::Claim { old: old.as_deref(), new }, &self.cluster, now);
        }
        self.settle_claim((namespace.into(), name.into()));
    }

    pub fn set_volume(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let new = tree.map(|tree| Arc::new(Volume::parse(tree)));
        let old = self.cluster.storage_mut().set_volume(name, new.clone());
        if let Some(new) = &new {
            self.queue.moved(&Event::Volume { old: old.as_deref(), new }, &self.cluster, now);
        }
        for uid in self.bindings.by_volume.get(name).cloned().unwrap_or_default() {
            self.settle(&uid);
        }
        // One that was provisioned is known by the claim it names.
        if let Some(ClaimRef { namespace, name, .. }) = new.and_then(|new| new.claim.clone()) {
            self.settle_claim((namespace, name));
        }
    }

    pub fn set_storage_class(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let new = tree.map(StorageClass::parse);
        let old = self.cluster.storage_mut().set_class(name, new.clone());
        if let Some(new) = &new {
            self.queue.moved(&Event::StorageClass { old: old.as_deref(), new }, &self.cluster, now);
        }
    }

    pub fn set_csi_node(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let new = tree.map(CsiNode::parse);
        let old = self.cluster.storage_mut().set_csi_node(name, new.clone());
        if let Some(new) = &new {
            self.queue.moved(&Event::CsiNode { old: old.as_ref(), new }, &self.cluster, now);
        }
    }

    pub fn set_csi_driver(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let tracked = tree.and_then(|tree| tree.at(&["spec", "storageCapacity"])).and_then(Value::as_bool);
        let tracked = tracked.unwrap_or(false);
        if self.cluster.storage_mut().set_tracked(name, tracked) && !tracked {
            self.queue.moved(&Event::CapacityIgnored, &self.cluster, now);
        }
    }

    pub fn set_storage_capacity(&mut self, namespace: &str, name: &str, tree: Option<&Value>, now: Duration) {
        let new = tree.map(Capacity::parse);
        let limit = new.as_ref().map(|new| new.limit);
        let old = self.cluster.storage_mut().set_capacity(namespace, name, new);
        let event = match (old, limit) {
            (None, Some(_)) => Event::CapacityAdded,
            (Some(old), Some(limit)) if limit > old.limit => Event::CapacityGrown,
            _ => return,
        };
        self.queue.moved(&event, &self.cluster, now);
    }

    pub fn set_attachment(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let old = self.cluster.storage_mut().set_attachment(name, tree.map(Attachment::parse));
        if old.is_some() && tree.is_none() {
            self.queue.moved(&Event::Detached, &self.cluster, now);
        }
    }

    /// What was to be written for a pod's volumes is: the revisions of volumes and then of claims.
    pub fn volumes_written(&mut self, uid: &str, revisions: Vec<u64>, now: Duration) {
        let Some(binding) = self.bindings.by_pod.get_mut(uid) else { return };
        let profile = self.config.profile(&binding.queued.pod.scheduler_name);
        let timeout = profile.map_or(Duration::ZERO, |profile| self.config.profiles[profile].bind_timeout);
        let until = now + timeout;
        binding.written = Some(Written { revisions, until });
        let cancelled = binding.cancelled.take();
        self.bindings.deadlines.insert((until, binding.queued.pod.uid.clone()));
        match cancelled {
            Some(why) => self.end(uid, Err(why)),
            None => self.settle(uid),
        }
    }

    /// Takes a pod that waits for its volumes or its claims off its node to make room for another. `false`: it waits for neither.
    pub fn cancel_binding(&mut self, uid: &str) -> bool {
        let why = "preempted by DefaultPreemption".to_owned();
        match self.bindings.by_pod.get_mut(uid) {
            None => return self.cancel_claims(uid, why),
            Some(binding) if binding.written.is_none() => binding.cancelled = Some(why),
            Some(_) => self.end(uid, Err(why)),
        }
        true
    }

    /// It was refused, after so many writes.
    pub fn volumes_refused(&mut self, uid: &str, written: usize, now: Duration) {
        let Some(Binding { volumes, .. }) = self.bindings.remove(uid) else { return };
        self.cluster.storage_mut().revert(uid, &volumes, written);
        // Others may have them.
        for (volume, _) in volumes.bind.iter().skip(written) {
            self.queue.moved(&Event::Volume { old: Some(volume), new: volume }, &self.cluster, now);
        }
        for claim in &volumes.provision {
            self.queue.moved(&Event::Claim { old: Some(claim), new: claim }, &self.cluster, now);
        }
    }

    /// The pod is gone, or has a node without us.
    pub(super) fn forget_volumes(&mut self, uid: &str, now: Duration) {
        if let Some(binding) = self.bindings.by_pod.get(uid) {
            let written = binding.written.as_ref().map_or(0, |written| written.revisions.len());
            self.volumes_refused(uid, written, now);
        }
    }

    /// A node has other labels, or is gone: those who wait to go there look again.
    pub(super) fn settle_node(&mut self, node: &str) {
        let there = |(uid, binding): (&Arc<str>, &Binding)| (*binding.node == *node).then(|| uid.clone());
        let mut uids: Vec<Arc<str>> = self.bindings.by_pod.iter().filter_map(there).collect();
        uids.sort_unstable();
        uids.iter().for_each(|uid| self.settle(uid));
    }

    /// Gives up on those who waited too long.
    pub(super) fn expire_bindings(&mut self, now: Duration) {
        while let Some((until, uid)) = self.bindings.deadlines.first().cloned() {
            if until > now {
                return;
            }
            self.end(&uid, Err("binding volumes: context deadline exceeded".to_owned()));
        }
    }

    fn settle_claim(&mut self, key: ClaimKey) {
        for uid in self.bindings.by_claim.get(&key).cloned().unwrap_or_default() {
            self.settle(&uid);
        }
    }

    fn settle(&mut self, uid: &str) {
        let Some(binding) = self.bindings.by_pod.get(uid) else { return };
        match self.progress(binding) {
            Progress::Waits => {}
            Progress::Bound => self.end(uid, Ok(())),
            Progress::Failed(why) => self.end(uid, Err(format!("binding volumes: {why}"))),
        }
    }

    fn end(&mut self, uid: &str, result: Result<(), String>) {
        let Some(Binding { queued, node, .. }) = self.bindings.remove(uid) else { return };
        let ended = match result {
            Ok(()) => self.bind_or_write(queued, node),
            Err(why) => {
                let message = format!("running PreBind plugin \"VolumeBinding\": {why}");
                ScheduleResult::VolumesFailed { queued, node, message }
            }
        };
        self.bindings.ended.push_back(ended);
    }

    /// Whether all that was written has had its effect, by what is seen of the objects.
    fn progress(&self, binding: &Binding) -> Progress {
        let Some(written) = &binding.written else { return Progress::Waits };
        let (storage, name) = (self.cluster.storage(), &binding.node);
        let Some(ix) = self.cluster.node_ix(name) else {
            return Progress::Failed(format!("failed to get node \"{name}\": node \"{name}\" not found"));
        };
        let labels = &self.cluster.node(ix).labels;
        let unreachable = |volume: &Volume| {
            let (volume, why) = (&volume.name, "no matching NodeSelectorTerms");
            Progress::Failed(format!("pv \"{volume}\" node affinity doesn't match node \"{name}\": {why}"))
        };
        let claim_gone = |claim: &Claim, doing: &str| {
            let (namespace, name) = (&claim.namespace, &claim.name);
            let found = format!("persistentvolumeclaims \"{namespace}/{name}\" not found");
            Progress::Failed(format!("failed to check {doing}: {found}"))
        };
        let mut revisions = written.revisions.iter();
        let mut seen = |revision: u64| revisions.next().is_none_or(|written| revision >= *written);
        for (volume, claim) in &binding.volumes.bind {
            let Some(volume) = storage.volume(&volume.name) else {
                let found = format!("persistentvolumes \"{}\" not found", volume.name);
                return Progress::Failed(format!("failed to check binding: {found}"));
            };
            let Some(claim) = storage.claim(&claim.namespace, &claim.name) else {
                return claim_gone(claim, "binding");
            };
            if !seen(volume.revision) {
                return Progress::Waits;
            }
            if !volume.reaches(labels) {
                return unreachable(volume);
            }
            if volume.claim.as_ref().is_none_or(|claim| claim.uid.is_empty()) {
                return Progress::Failed(format!("ClaimRef got reset for pv \"{}\"", volume.name));
            }
            if !claim.is_bound() {
                return Progress::Waits;
            }
        }
        for claim in &binding.volumes.provision {
            let Some(claim) = storage.claim(&claim.namespace, &claim.name) else {
                return claim_gone(claim, "provisioning pvc");
            };
            if !seen(claim.revision) {
                return Progress::Waits;
            }
            if !claim.annotated {
                return Progress::Failed(format!("selectedNode annotation reset for PVC \"{}\"", claim.name));
            }
            // Who cannot provision a volume for the node takes the choice of it back.
            if claim.selected_node.as_ref() != Some(name) {
                return Progress::Failed(format!("provisioning failed for PVC \"{}\"", claim.name));
            }
            if !claim.volume.is_empty() {
                let Some(volume) = storage.volume(&claim.volume) else { return Progress::Waits };
                if !volume.reaches(labels) {
                    return unreachable(volume);
                }
            }
            if !claim.is_bound() {
                return Progress::Waits;
            }
        }
        Progress::Bound
    }
}
