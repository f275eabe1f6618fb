//! The filters that look at a pod's volumes: who else uses them, how many a node can have, and whether they can be there.

use std::collections::HashSet;
use std::sync::Arc;

use crate::cluster::{Cluster, NodeIx};
use crate::config::Profile;
use crate::evaluate::local::Change;
use crate::plugin::Plugin;
use crate::pod::{Class, Pod, PodVolume, disks_conflict};
use crate::read::label;
use crate::storage::choose::PodClaims;
use crate::storage::{Claim, Storage, VolumeBindings, ZONE_LABELS, Zones};
use crate::verdict::Verdict;

/// What is the same for every node of one decision about a pod with volumes.
pub struct Volumes {
    /// `None` where neither a disk nor a claim can be in use by another pod.
    shared: Option<Shared>,
    /// Driver and handle of each volume that counts towards a node's limit.
    attachable: Vec<(Arc<str>, Arc<str>)>,
    claims: PodClaims,
    zones: Vec<Zones>,
}

struct Shared {
    /// Claims that only one pod may use.
    for_one_pod: Vec<Arc<str>>,
    /// How many of them another pod uses.
    in_use: i64,
}

/// Who turns a pod away before any node was looked at, and why: no node can be one for it.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub plugin: Plugin,
    pub message: String,
}

impl Volumes {
    /// `None` for a pod whose volumes can be anywhere.
    pub fn new(cluster: &Cluster, profile: &Profile, pod: &Pod) -> Result<Option<Volumes>, Rejection> {
        if pod.class.volumes.is_empty() {
            return Ok(None);
        }
        let storage = cluster.storage();
        let on = |plugin: Plugin| profile.filter.has(plugin);
        let reject = |plugin: Plugin| move |message: String| Rejection { plugin, message };
        let mut volumes =
            Volumes { shared: None, attachable: Vec::new(), claims: PodClaims::default(), zones: Vec::new() };
        if on(Plugin::VolumeRestrictions) {
            volumes.shared = shared(cluster, pod).map_err(reject(Plugin::VolumeRestrictions))?;
        }
        if on(Plugin::NodeVolumeLimits) {
            volumes.attachable = attachable(storage, &pod.class, &pod.name, &pod.uid).collect();
            volumes.attachable.sort_unstable();
            volumes.attachable.dedup();
        }
        if on(Plugin::VolumeBinding) {
            volumes.claims = claims(storage, pod).map_err(reject(Plugin::VolumeBinding))?;
        }
        if on(Plugin::VolumeZone) {
            volumes.zones = zones(storage, pod).map_err(reject(Plugin::VolumeZone))?;
        }
        Ok(Some(volumes))
    }

    /// What is found about a node, as it is or after the change.
    pub fn verdict(&self, cluster: &Cluster, pod: &Pod, ix: NodeIx, change: Option<&Change>) -> Verdict {
        let none = Change::default();
        let change = change.unwrap_or(&none);
        if let Some(shared) = &self.shared {
            let mut others = change.volume_pods(cluster, ix);
            if others.any(|(_, _, class)| disks_conflict(&pod.class.volumes, &class.volumes)) {
                return Verdict::DiskInUse;
            }
            if shared.in_use + shared.moved(cluster, &pod.class, change) > 0 {
                return Verdict::ClaimInUse;
            }
        }
        if self.too_many(cluster, ix, change) {
            return Verdict::TooManyVolumes;
        }
        let node = cluster.node(ix);
        if let Err(conflicts) = cluster.storage().choose(&self.claims, node) {
            return Verdict::NoVolumes(conflicts);
        }
        // A node that does not say where it is is in the only zone there is.
        let somewhere = || ZONE_LABELS.iter().any(|key| label(&node.labels, key).is_some());
        if !self.zones.is_empty() && somewhere() && !self.zones.iter().all(|zones| zones.have(&node.labels)) {
            return Verdict::OtherZone;
        }
        Verdict::Fits
    }

    /// What has to be written for the pod to come to a node that fits.
    pub fn bindings(&self, cluster: &Cluster, ix: NodeIx) -> VolumeBindings {
        cluster.storage().choose(&self.claims, cluster.node(ix)).unwrap_or_default()
    }

    /// Whether the node would have more volumes of a driver than it can.
    fn too_many(&self, cluster: &Cluster, ix: NodeIx, change: &Change) -> bool {
        let storage = cluster.storage();
        let Some(node) = storage.csi_node(cluster.node_name(ix)) else { return false };
        if !self.attachable.iter().any(|(driver, _)| node.limit(driver).is_some()) {
            return false;
        }
        let pods = change.volume_pods(cluster, ix);
        let used = pods.flat_map(|(name, uid, class)| attachable(storage, class, name, uid));
        let attached = storage.attached(cluster.node_name(ix)).map(|(d, h)| (d.clone(), h.clone()));
        // What pods use is there already, however many of them; so is what is attached and not used.
        let used: HashSet<(Arc<str>, Arc<str>)> = used.collect();
        let there: HashSet<&(Arc<str>, Arc<str>)> = used.iter().collect();
        let attached: HashSet<(Arc<str>, Arc<str>)> = attached.collect();
        self.attachable.iter().any(|(driver, _)| {
            let Some(limit) = node.limit(driver) else { return false };
            let of = |(other, _): &&(Arc<str>, Arc<str>)| other == driver;
            let new = self.attachable.iter().filter(of).filter(|volume| !there.contains(volume)).count();
            let unused = attached.iter().filter(of).filter(|volume| !there.contains(volume)).count();
            let now = used.iter().filter(of).count() + unused;
            new > 0 && (now + new) as i64 > limit
        })
    }
}

impl Shared {
    /// How many more claims are in use after a change, or fewer.
    fn moved(&self, cluster: &Cluster, class: &Class, change: &Change) -> i64 {
        let uses = |other: &Class| -> i64 {
            if other.namespace != class.namespace {
                return 0;
            }
            let shared = |v: &&PodVolume| matches!(v, PodVolume::Claim(c) if self.for_one_pod.contains(c));
            other.volumes.iter().filter(shared).count() as i64
        };
        let removed: i64 = change.removed.iter().map(|ix| uses(&cluster.placed(*ix).class)).sum();
        change.added.iter().map(|pod| uses(&pod.class)).sum::<i64>() - removed
    }
}

fn not_found(claim: &str) -> String {
    format!("persistentvolumeclaim \"{claim}\" not found")
}

fn shared(cluster: &Cluster, pod: &Pod) -> Result<Option<Shared>, String> {
    let namespace = pod.namespace();
    let mut for_one_pod = Vec::new();
    for volume in &pod.class.volumes {
        let PodVolume::Claim(name) = volume else { continue };
        let claim = cluster.storage().claim(namespace, name).ok_or_else(|| not_found(name))?;
        if claim.is_for_one_pod() && !for_one_pod.contains(name) {
            for_one_pod.push(name.clone());
        }
    }
    let in_use = for_one_pod.iter().filter(|name| cluster.is_claim_used(namespace, name)).count() as i64;
    let disks = pod.class.volumes.iter().any(|volume| matches!(volume, PodVolume::Disk(_)));
    Ok((disks || in_use > 0).then_some(Shared { for_one_pod, in_use }))
}

/// The pod's claims, if all that are bound without regard to pods are.
fn claims(storage: &Storage, pod: &Pod) -> Result<PodClaims, String> {
    let mut claims = PodClaims::default();
    let mut unbound = false;
    for volume in &pod.class.volumes {
        let Some(name) = volume.claim_name(&pod.name) else { continue };
        let ephemeral = matches!(volume, PodVolume::Ephemeral(_));
        let claim = storage.claim(pod.namespace(), &name).ok_or_else(|| match ephemeral {
            true => {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                )
            }
            false => not_found(&name),
        })?;
        if claim.lost {
            let volume = &claim.volume;
            return Err(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            ));
        }
        if claim.deleting {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if ephemeral && !belongs_to(claim, &pod.uid) {
            let (namespace, pod) = (pod.namespace(), &pod.name);
            return Err(format!(
                "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
            ));
        }
        if claim.is_bound() {
            claims.bound.push(claim.clone());
        } else if claim.volume.is_empty() && storage.class(&claim.class).is_some_and(|class| class.waits) {
            claims.waiting.push(claim.clone());
        } else {
            unbound = true;
        }
    }
    if unbound { Err("pod has unbound immediate PersistentVolumeClaims".to_owned()) } else { Ok(claims) }
}

/// An ephemeral volume's claim goes with the pod it was made for; another of that name is none of it.
fn belongs_to(claim: &Claim, pod_uid: &str) -> bool {
    claim.controller.as_deref() == Some(pod_uid)
}

fn zones(storage: &Storage, pod: &Pod) -> Result<Vec<Zones>, String> {
    let mut zones = Vec::new();
    for volume in &pod.class.volumes {
        let PodVolume::Claim(name) = volume else { continue };
        let claim = storage.claim(pod.namespace(), name).ok_or_else(|| not_found(name))?;
        if !claim.volume.is_empty() {
            let volume = storage.volume(&claim.volume);
            let volume = volume.ok_or_else(|| format!("persistentvolume \"{}\" not found", claim.volume))?;
            zones.extend(volume.zones());
            continue;
        }
        if claim.class.is_empty() {
            return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
        }
        match storage.class(&claim.class) {
            None => return Err(format!("storageclass.storage.k8s.io \"{}\" not found", claim.class)),
            Some(class) if class.waits => {}
            Some(_) => return Err("PersistentVolume had no name".to_owned()),
        }
    }
    Ok(zones)
}

/// The volumes of a pod that count towards a limit. Those whose claim is not there yet, or is another's, do not.
fn attachable<'a>(
    storage: &'a Storage,
    class: &'a Class,
    pod: &'a str,
    uid: &'a str,
) -> impl Iterator<Item = (Arc<str>, Arc<str>)> + 'a {
    class.volumes.iter().filter_map(move |volume| {
        let claim = storage.claim(&class.namespace, &volume.claim_name(pod)?)?;
        let ephemeral = matches!(volume, PodVolume::Ephemeral(_));
        (!ephemeral || belongs_to(claim, uid)).then(|| storage.attachable(claim)).flatten()
    })
}
