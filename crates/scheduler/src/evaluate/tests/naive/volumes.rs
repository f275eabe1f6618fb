//! Volumes as plain lists that are looked through each time, by upstream's steps; and all kinds of them made up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::Value;

use super::World;
use crate::node::Node;
use crate::pod::{Pod, PodVolume, disks_conflict};
use crate::read::label;
use crate::storage::{Attachment, Capacity, Claim, Conflicts, CsiNode, StorageClass, Volume, ZONE_LABELS};
use crate::testing::tree;
use crate::verdict::Verdict;

type Pick<'a> = &'a mut dyn FnMut(u64) -> u64;

/// Everything about volumes, by name.
#[derive(Default)]
pub struct Plain {
    pub claims: BTreeMap<(String, String), Claim>,
    pub volumes: BTreeMap<String, Volume>,
    pub classes: BTreeMap<String, StorageClass>,
    pub csi_nodes: BTreeMap<String, CsiNode>,
    pub tracked: BTreeSet<String>,
    pub capacities: BTreeMap<String, Capacity>,
    pub attachments: BTreeMap<String, Attachment>,
}

/// One object, or that there is none of the name.
pub struct Change {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub tree: Option<Value>,
}

impl Plain {
    pub fn apply(&mut self, change: &Change) {
        fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
            match value {
                Some(value) => drop(map.insert(key, value)),
                None => drop(map.remove(&key)),
            }
        }
        let (name, tree) = (change.name.clone(), change.tree.as_ref());
        match change.kind {
            "claim" => set(&mut self.claims, (change.namespace.clone(), name), tree.map(Claim::parse)),
            "volume" => set(&mut self.volumes, name, tree.map(Volume::parse)),
            "class" => set(&mut self.classes, name, tree.map(StorageClass::parse)),
            "csi node" => set(&mut self.csi_nodes, name, tree.map(CsiNode::parse)),
            "capacity" => set(&mut self.capacities, name, tree.map(Capacity::parse)),
            "attachment" => set(&mut self.attachments, name, tree.map(Attachment::parse)),
            _ => match tree.and_then(|t| t.at(&["spec", "storageCapacity"])).and_then(Value::as_bool) {
                Some(true) => drop(self.tracked.insert(name)),
                _ => drop(self.tracked.remove(&name)),
            },
        }
    }
}

impl World {
    fn claim_of(&self, pod: &Pod, volume: &PodVolume) -> Option<&Claim> {
        let name = volume.claim_name(&pod.name)?;
        self.storage.claims.get(&(pod.namespace().to_string(), name.to_string()))
    }

    /// No node can be one for it, whatever it is like.
    pub fn rejects(&self, pod: &Pod) -> bool {
        pod.class.volumes.iter().any(|volume| {
            if matches!(volume, PodVolume::Disk(_)) {
                return false;
            }
            let Some(claim) = self.claim_of(pod, volume) else { return true };
            let class = self.storage.classes.get(&*claim.class);
            let delayed = claim.volume.is_empty() && class.is_some_and(|class| class.waits);
            let ephemeral = matches!(volume, PodVolume::Ephemeral(_));
            claim.lost
                || claim.deleting
                || !(claim.is_bound() || delayed)
                || ephemeral && claim.controller.as_ref() != Some(&pod.uid)
                || !ephemeral && claim.is_bound() && !self.storage.volumes.contains_key(&*claim.volume)
        })
    }

    pub fn has_claims_for_one_pod(&self, pod: &Pod) -> bool {
        let mut claims = pod.class.volumes.iter().filter_map(|v| self.claim_of(pod, v));
        claims.any(Claim::is_for_one_pod)
    }

    fn driver_and_handle(&self, pod: &Pod, volume: &PodVolume) -> Option<(String, String)> {
        let claim = self.claim_of(pod, volume)?;
        if matches!(volume, PodVolume::Ephemeral(_)) && claim.controller.as_ref() != Some(&pod.uid) {
            return None;
        }
        if let Some(volume) = self.storage.volumes.get(&*claim.volume) {
            return volume.csi.as_ref().map(|(driver, handle)| (driver.to_string(), handle.to_string()));
        }
        let class = self.storage.classes.get(&*claim.class)?;
        Some((class.provisioner.to_string(), format!("new {}/{}", claim.namespace, claim.name)))
    }

    pub fn volumes_verdict(&self, pod: &Pod, node: &Node) -> Verdict {
        let ours = &pod.class.volumes;
        if self.on(node).any(|other| disks_conflict(ours, &other.class.volumes)) {
            return Verdict::DiskInUse;
        }
        let once = ours.iter().filter(|v| matches!(v, PodVolume::Claim(_)));
        let mut once = once.filter(|v| self.claim_of(pod, v).is_some_and(Claim::is_for_one_pod));
        if once.any(|claim| {
            let used = |p: &&Pod| p.namespace() == pod.namespace() && p.class.volumes.contains(claim);
            self.pods.values().any(|p| used(&p) && !p.node_name.is_empty())
        }) {
            return Verdict::ClaimInUse;
        }
        let new: BTreeSet<_> = ours.iter().filter_map(|v| self.driver_and_handle(pod, v)).collect();
        let mut there: BTreeSet<(String, String)> = BTreeSet::new();
        for other in self.on(node) {
            there.extend(other.class.volumes.iter().filter_map(|v| self.driver_and_handle(other, v)));
        }
        let new: BTreeSet<_> = new.difference(&there).cloned().collect();
        for attachment in self.storage.attachments.values().filter(|a| a.node == node.name) {
            if let Some((_, handle)) =
                self.storage.volumes.get(&*attachment.volume).and_then(|v| v.csi.clone())
            {
                there.insert((attachment.attacher.to_string(), handle.to_string()));
            }
        }
        for (driver, _) in &new {
            let limit = self.storage.csi_nodes.get(&*node.name).and_then(|n| n.limit(driver));
            let count = |set: &BTreeSet<(String, String)>| set.iter().filter(|(d, _)| d == driver).count();
            if limit.is_some_and(|limit| (count(&there) + count(&new)) as i64 > limit) {
                return Verdict::TooManyVolumes;
            }
        }
        match self.bindable(pod, node) {
            Ok(()) => {}
            Err(conflicts) => return Verdict::NoVolumes(conflicts),
        }
        let somewhere = ZONE_LABELS.iter().any(|key| label(&node.labels, key).is_some());
        let named = ours.iter().filter(|v| matches!(v, PodVolume::Claim(_)));
        let volumes = named.filter_map(|v| self.storage.volumes.get(&*self.claim_of(pod, v)?.volume));
        let mut zones = volumes.flat_map(Volume::zones);
        if somewhere && zones.any(|zones| !zones.have(&node.labels)) {
            return Verdict::OtherZone;
        }
        Verdict::Fits
    }

    fn bindable(&self, pod: &Pod, node: &Node) -> Result<(), Conflicts> {
        let claims: Vec<&Claim> = pod.class.volumes.iter().filter_map(|v| self.claim_of(pod, v)).collect();
        let mut conflicts = Vec::new();
        for claim in claims.iter().filter(|claim| claim.is_bound()) {
            match self.storage.volumes.get(&*claim.volume) {
                None => conflicts.push(Conflicts::GONE),
                Some(volume) if !volume.reaches(&node.labels) => conflicts.push(Conflicts::NODE),
                Some(_) => continue,
            }
            break;
        }
        let waiting: Vec<&Claim> = claims.into_iter().filter(|claim| !claim.is_bound()).collect();
        let elsewhere = |claim: &&Claim| claim.selected_node.as_ref().is_some_and(|n| *n != node.name);
        if waiting.iter().any(elsewhere) {
            conflicts.push(Conflicts::BIND);
        } else {
            conflicts.extend(self.unsatisfied(&waiting, node));
        }
        match Conflicts::all(conflicts) {
            none if none.is_empty() => Ok(()),
            conflicts => Err(conflicts),
        }
    }

    fn unsatisfied(&self, waiting: &[&Claim], node: &Node) -> Option<Conflicts> {
        let (mut provision, mut find): (Vec<&Claim>, Vec<&Claim>) =
            waiting.iter().partition(|claim| claim.selected_node.is_some());
        find.sort_by_key(|claim| claim.request);
        let mut chosen: BTreeSet<Arc<str>> = BTreeSet::new();
        for claim in find {
            match self.best_volume(claim, node, &chosen) {
                Some(volume) => drop(chosen.insert(volume.name.clone())),
                None => provision.push(claim),
            }
        }
        provision.into_iter().find_map(|claim| {
            let class = &self.storage.classes[&*claim.class];
            if !class.provisions() || !class.reaches(&node.labels) {
                return Some(Conflicts::BIND);
            }
            let mut capacities = self.storage.capacities.values();
            let fits =
                |c: &Capacity| c.class == claim.class && c.has_room(claim.request.unwrap_or(0), &node.labels);
            let full = self.storage.tracked.contains(&*class.provisioner) && !capacities.any(fits);
            full.then_some(Conflicts::SPACE)
        })
    }

    fn best_volume(&self, claim: &Claim, node: &Node, chosen: &BTreeSet<Arc<str>>) -> Option<&Volume> {
        let mut smallest: Option<&Volume> = None;
        for volume in self.storage.volumes.values().filter(|v| v.class == claim.class) {
            let meant = volume.claim.as_ref().map(|wanted| wanted.means(claim));
            if chosen.contains(&volume.name)
                || meant == Some(false)
                || volume.capacity < claim.request.unwrap_or(0)
                || volume.block != claim.block
                || volume.attributes_class != claim.attributes_class
                || volume.deleting
            {
                continue;
            }
            let reaches = volume.reaches(&node.labels);
            if meant == Some(true) {
                return reaches.then_some(volume);
            }
            let selected =
                claim.selector.as_ref().is_none_or(|s| s.matches(&|key| label(&volume.labels, key)));
            let modes = claim.modes.iter().all(|mode| volume.modes.contains(mode));
            if volume.available
                && selected
                && modes
                && reaches
                && smallest.is_none_or(|s| volume.capacity < s.capacity)
            {
                smallest = Some(volume);
            }
        }
        smallest
    }
}

/// Volumes for a pod, or none.
pub fn with_volumes(mut pod: Value, pick: Pick) -> Value {
    let mut volumes = Vec::new();
    for n in 0..pick(3) {
        volumes.push(match pick(6) {
            0 => format!(r#"{{"name":"e{}","ephemeral":{{}}}}"#, pick(2)),
            1 => {
                let read_only = pick(2) == 0;
                let source = format!(r#"{{"pdName":"d{}","readOnly":{read_only}}}"#, pick(2));
                format!(r#"{{"name":"v{n}","gcePersistentDisk":{source}}}"#)
            }
            _ => format!(r#"{{"name":"v{n}","persistentVolumeClaim":{{"claimName":"c{}"}}}}"#, pick(6)),
        });
    }
    let list = tree(&format!(r#"{{"it":[{}]}}"#, volumes.join(","))).get("it").expect("written").clone();
    pod.map_at(&["spec"]).set("volumes", list);
    if pick(12) == 0 {
        pod.map_at(&["spec"]).set("hostNetwork", true);
        pod.map_at(&["spec"]).set("hostUsers", false);
    }
    pod
}

/// Something about volumes comes, changes or goes.
pub fn a_change(nodes: u64, revision: u64, pick: Pick) -> Change {
    let gone = pick(6) == 0;
    let change = |kind, name: String, json: String| Change {
        kind,
        namespace: String::new(),
        name,
        tree: (!gone).then(|| tree(&json)),
    };
    let class = format!("k{}", pick(3));
    let version = format!(r#""resourceVersion":"{revision}""#);
    match pick(10) {
        0..=2 => {
            let (namespace, ephemeral) = (format!("ns{}", pick(2)), pick(4) == 0);
            let owner = format!("p{}", 1000 + pick(10));
            let name = if ephemeral { format!("{owner}-e{}", pick(2)) } else { format!("c{}", pick(6)) };
            let owned = format!(r#","ownerReferences":[{{"controller":true,"uid":"{owner}"}}]"#);
            let owned = if ephemeral { &*owned } else { "" };
            let done = pick(3) > 0;
            let volume = if done { format!(r#","volumeName":"v{}""#, pick(9)) } else { String::new() };
            let annotation = match (done, pick(6)) {
                (true, _) => r#""pv.kubernetes.io/bind-completed":"yes""#.to_owned(),
                (false, 0) => format!(r#""volume.kubernetes.io/selected-node":"n{}""#, pick(nodes)),
                (false, _) => String::new(),
            };
            let mode = ["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"][pick(3) as usize];
            let class = if done { class } else { format!("k{}", pick(2)) };
            let json = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{namespace}-{name}",{version},
                "annotations":{{{annotation}}}{owned}}},"spec":{{"storageClassName":"{class}","accessModes":["{mode}"],
                "resources":{{"requests":{{"storage":"{}Gi"}}}}{volume}}}}}"#,
                1 + pick(3)
            );
            Change { namespace, ..change("claim", name, json) }
        }
        3..=5 => {
            let name = format!("v{}", pick(8));
            let (key, value) = match pick(3) {
                0 => ("disk", "ssd".to_owned()),
                1 => ("topology.kubernetes.io/zone", format!("z{}", pick(3))),
                _ => ("kubernetes.io/hostname", format!("n{}", pick(nodes))),
            };
            let affinity = format!(
                r#","nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[
                {{"key":"{key}","operator":"In","values":["{value}"]}}]}}]}}}}"#
            );
            let affinity = if pick(3) > 0 { &*affinity } else { "" };
            let claimed = format!(r#","claimRef":{{"namespace":"ns{}","name":"c{}"}}"#, pick(2), pick(6));
            let claimed = if pick(4) == 0 { &*claimed } else { "" };
            let csi = format!(r#","csi":{{"driver":"d","volumeHandle":"{name}"}}"#);
            let csi = if pick(2) == 0 { &*csi } else { "" };
            let zone = format!(r#""topology.kubernetes.io/zone":"z{}__z{}""#, pick(3), pick(3));
            let zone = if pick(4) == 0 { &*zone } else { "" };
            let phase = ["Available", "Available", "Released"][pick(3) as usize];
            let json = format!(
                r#"{{"metadata":{{"name":"{name}",{version},"labels":{{{zone}}}}},"spec":{{"storageClassName":"{class}",
                "accessModes":["ReadWriteOnce","ReadWriteOncePod"],"capacity":{{"storage":"{}Gi"}}{affinity}{claimed}{csi}}},
                "status":{{"phase":"{phase}"}}}}"#,
                1 + pick(4)
            );
            change("volume", name, json)
        }
        6 => {
            let waits = if class == "k2" { "Immediate" } else { "WaitForFirstConsumer" };
            let provisioner = if class == "k0" { "kubernetes.io/no-provisioner" } else { "d" };
            let topologies = format!(
                r#","allowedTopologies":[{{"matchLabelExpressions":[{{"key":"topology.kubernetes.io/zone","values":["z{}"]}}]}}]"#,
                pick(3)
            );
            let topologies = if pick(3) == 0 { &*topologies } else { "" };
            let json =
                format!(r#"{{"provisioner":"{provisioner}","volumeBindingMode":"{waits}"{topologies}}}"#);
            Change { tree: Some(tree(&json)), ..change("class", class, json) }
        }
        7 => {
            let json = format!(
                r#"{{"spec":{{"drivers":[{{"name":"d","allocatable":{{"count":{}}}}}]}}}}"#,
                1 + pick(3)
            );
            change("csi node", format!("n{}", pick(nodes)), json)
        }
        8 => match pick(3) {
            0 => {
                let json = format!(r#"{{"spec":{{"storageCapacity":{}}}}}"#, pick(2) == 0);
                change("driver", "d".to_owned(), json)
            }
            _ => {
                let json = format!(
                    r#"{{"storageClassName":"{class}","capacity":"{}Gi","nodeTopology":{{"matchLabels":{{"disk":"ssd"}}}}}}"#,
                    1 + pick(3)
                );
                change("capacity", format!("s{}", pick(3)), json)
            }
        },
        _ => {
            let json = format!(
                r#"{{"spec":{{"attacher":"d","nodeName":"n{}","source":{{"persistentVolumeName":"v{}"}}}}}}"#,
                pick(nodes),
                pick(8)
            );
            change("attachment", format!("a{}", pick(4)), json)
        }
    }
}
