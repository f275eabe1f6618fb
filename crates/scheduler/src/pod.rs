//! What the scheduler keeps of a Pod, and what equal pods share.
//!
//! ```text
//! Pod (name, uid, priority, node ...) ── Arc ──> Class (namespace, labels, spread, pod affinity) ── Arc ──> Spec
//!                                                 equal for the replicas of one template            what one node alone
//!                                                                                                   decides about
//! ```
//! Two pods of one [`Class`] are placed by the same evaluation; two of one [`Spec`] share what was found out about single
//! nodes even when their labels differ, as those of an indexed Job do.

mod claims;
mod ports;
mod requests;
mod terms;
mod volumes;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use object::Value;

pub use claims::{
    CLASS_PREFIX, ClaimSource, ContainerRequests, Generated, PodClaim, is_extended, may_be_devices,
};
pub use ports::{HostPort, conflict};
pub use terms::{Constraint, Inclusion, PodTerm, Unsatisfiable, parse_constraint};
pub use volumes::{PodVolume, disks_conflict};

use crate::features::Features;
use crate::node::{image_name, text_of};
use crate::node_selector::{Preferred, Required};
use crate::read::{Labels, label, labels, list, text};
use crate::taint::Toleration;

#[derive(Clone, Debug)]
pub struct Pod {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub priority: i32,
    pub scheduler_name: Arc<str>,
    /// Empty while the pod waits for a node.
    pub node_name: Arc<str>,
    pub nominated_node: Arc<str>,
    /// Whether others may be deleted to make room.
    pub preempts: bool,
    pub deleting: bool,
    /// Succeeded or failed: it holds nothing any more.
    pub finished: bool,
    pub gates: Vec<String>,
    /// Unix seconds; pods that did not start sort behind all that did.
    pub started: Option<i64>,
    pub generation: i64,
    /// The condition `PodScheduled`: status, reason and message.
    pub scheduled: Option<ScheduledCondition>,
    /// It is going because a scheduler chose it as a victim.
    pub preempted: bool,
    /// The claims it names, in its order.
    pub claims: Vec<PodClaim>,
    pub class: Arc<Class>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledCondition {
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// What pods of one template have in common.
#[derive(Debug)]
pub struct Class {
    /// Never given to two different classes.
    pub id: u64,
    pub namespace: Arc<str>,
    pub labels: Labels,
    /// `None` where the profile's default constraints apply.
    pub spread: Option<Vec<Constraint>>,
    pub affinity: Vec<Arc<PodTerm>>,
    pub anti_affinity: Vec<Arc<PodTerm>>,
    /// With its weight, below zero for anti-affinity.
    pub preferred: Vec<(i64, Arc<PodTerm>)>,
    /// All of these terms, as others meet them when the pod is placed.
    pub held: Vec<Arc<Held>>,
    /// Kind and name of the controller, where it is one with a selector of pods.
    pub owner: Option<(OwnerKind, Arc<str>)>,
    pub volumes: Vec<PodVolume>,
    pub spec: Arc<Spec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    ReplicaSet,
    StatefulSet,
    ReplicationController,
}

/// A term of placed pods about others. Pods of many classes hold the same one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Held {
    pub kind: HeldKind,
    pub term: Arc<PodTerm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeldKind {
    AntiAffinity,
    Affinity,
    Preferred(i64),
}

#[derive(Debug)]
pub struct Spec {
    pub id: u64,
    pub required: Required,
    pub preferred: Preferred,
    pub tolerations: Vec<Toleration>,
    /// Sorted by name, cpu in thousandths, nothing that is zero.
    pub requests: Vec<(Arc<str>, i64)>,
    /// Cpu and memory with a minimum for each container that names none.
    pub at_least: [i64; 2],
    pub ports: Vec<HostPort>,
    pub images: Vec<String>,
    pub containers: usize,
    /// What it needs of a node beyond what all can do.
    pub features: Features,
    /// Of each container, where devices may stand for something that is asked for.
    pub extended: Vec<ContainerRequests>,
}

impl Class {
    pub fn label(&self, key: &str) -> Option<&str> {
        label(&self.labels, key)
    }
    /// Whether its pods have this term about others.
    pub fn holds(&self, term: &Arc<Held>) -> bool {
        self.held.contains(term)
    }
}

impl Spec {
    pub fn request(&self, resource: &str) -> i64 {
        self.requests.iter().find(|(name, _)| name.as_ref() == resource).map_or(0, |(_, amount)| *amount)
    }
}

impl Pod {
    pub fn namespace(&self) -> &Arc<str> {
        &self.class.namespace
    }
    /// It names claims, or asks for resources that devices may stand for.
    pub fn asks_for_devices(&self) -> bool {
        !self.claims.is_empty() || !self.class.spec.extended.is_empty()
    }
    pub fn assigned(&self) -> bool {
        !self.node_name.is_empty()
    }
    /// For people: `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.class.namespace, self.name)
    }
}

/// The classes and specs in use. One for a scheduler, so that equal pods meet.
#[derive(Default)]
pub struct Templates {
    classes: HashMap<u128, Arc<Class>>,
    specs: HashMap<u128, Arc<Spec>>,
    next_id: u64,
    /// The number of classes at which the unused are let go.
    sweep_at: usize,
}

impl Templates {
    pub fn parse(&mut self, tree: &Value) -> Pod {
        let (metadata, spec, status) = (tree.get("metadata"), tree.get("spec"), tree.get("status"));
        let string = |v: Option<&Value>, name: &str| -> Arc<str> { text_of(v, name).into() };
        let number = |v: Option<&Value>, name: &str| v.and_then(|v| v.get(name)).and_then(Value::as_int);
        let condition = |kind: &str| list(status, "conditions").iter().find(|c| text(c, "type") == kind);
        let scheduled = condition("PodScheduled").map(|c| ScheduledCondition {
            status: text(c, "status").to_owned(),
            reason: text(c, "reason").to_owned(),
            message: text(c, "message").to_owned(),
        });
        let preempted = condition("DisruptionTarget")
            .is_some_and(|c| text(c, "status") == "True" && text(c, "reason") == "PreemptionByScheduler");
        Pod {
            name: string(metadata, "name"),
            uid: string(metadata, "uid"),
            priority: number(spec, "priority").unwrap_or(0) as i32,
            scheduler_name: match text_of(spec, "schedulerName") {
                "" => "default-scheduler".into(),
                name => name.into(),
            },
            node_name: string(spec, "nodeName"),
            nominated_node: string(status, "nominatedNodeName"),
            preempts: text_of(spec, "preemptionPolicy") != "Never",
            deleting: metadata.and_then(|m| m.get("deletionTimestamp")).is_some_and(|t| !t.is_null()),
            finished: matches!(text_of(status, "phase"), "Succeeded" | "Failed"),
            gates: list(spec, "schedulingGates").iter().map(|g| text(g, "name").to_owned()).collect(),
            started: object::time::parse(text_of(status, "startTime")).map(|(seconds, _)| seconds),
            generation: number(metadata, "generation").unwrap_or(0),
            scheduled,
            preempted,
            claims: PodClaim::parse_all(spec, status),
            class: self.class(metadata, spec, status),
        }
    }

    fn class(
        &mut self,
        metadata: Option<&Value>,
        spec: Option<&Value>,
        status: Option<&Value>,
    ) -> Arc<Class> {
        let requests = requests::requests(spec, status, false);
        let at_least = requests::requests(spec, status, true);
        let of = |list: &[(String, i64)], name: &str| {
            list.iter().find(|(n, _)| n == name).map_or(0, |(_, amount)| *amount)
        };
        let at_least = [of(&at_least, "cpu"), of(&at_least, "memory")];

        let mut sign = Signature::new();
        sign.add(&requests);
        sign.add(&at_least);
        for member in ["nodeSelector", "tolerations"] {
            sign.tree(spec.and_then(|s| s.get(member)));
        }
        sign.tree(spec.and_then(|s| s.at(&["affinity", "nodeAffinity"])));
        for kind in ["initContainers", "containers"] {
            for container in list(spec, kind) {
                sign.add(text(container, "image"));
                sign.add(&(kind, text(container, "restartPolicy")));
                sign.tree(container.get("ports"));
            }
        }
        for volume in list(spec, "volumes") {
            sign.tree(volume.get("image"));
        }
        let features = Features::needed(spec);
        sign.add(&features);
        let extended = ContainerRequests::parse_all(spec, &requests);
        sign.add(&extended);
        let spec_key = sign.key();

        let pairs = labels(metadata.and_then(|m| m.get("labels")));
        let namespace = text_of(metadata, "namespace");
        let owner = owner(metadata);
        sign.add(&spec_key);
        sign.add(namespace);
        sign.add(&pairs);
        sign.add(&owner);
        let volumes = PodVolume::parse_all(spec);
        sign.add(&volumes);
        sign.tree(spec.and_then(|s| s.get("topologySpreadConstraints")));
        for member in ["podAffinity", "podAntiAffinity"] {
            sign.tree(spec.and_then(|s| s.at(&["affinity", member])));
        }
        let class_key = sign.key();
        if let Some(class) = self.classes.get(&class_key) {
            return class.clone();
        }

        let shared_spec = match self.specs.get(&spec_key) {
            Some(spec) => spec.clone(),
            None => {
                self.next_id += 1;
                let made = Arc::new(make_spec(self.next_id, spec, &requests, at_least, features, extended));
                self.specs.insert(spec_key, made.clone());
                made
            }
        };
        self.next_id += 1;
        let constraints = list(spec, "topologySpreadConstraints");
        let affinity = spec.and_then(|s| s.get("affinity"));
        let terms = |member: &str| terms::required(affinity.and_then(|a| a.get(member)), namespace);
        let mut preferred = terms::preferred(affinity.and_then(|a| a.get("podAffinity")), namespace, 1);
        preferred.extend(terms::preferred(affinity.and_then(|a| a.get("podAntiAffinity")), namespace, -1));
        let (affinity, anti_affinity) = (terms("podAffinity"), terms("podAntiAffinity"));
        let held = held(&affinity, &anti_affinity, &preferred);
        let class = Arc::new(Class {
            id: self.next_id,
            namespace: namespace.into(),
            spread: (!constraints.is_empty()).then(|| constraints.iter().map(parse_constraint).collect()),
            affinity,
            anti_affinity,
            preferred,
            held,
            labels: pairs,
            owner,
            volumes,
            spec: shared_spec,
        });
        self.classes.insert(class_key, class.clone());
        self.sweep();
        class
    }

    /// Lets go of what only this map still holds, each time the map has doubled.
    fn sweep(&mut self) {
        if self.classes.len() < self.sweep_at.max(1024) {
            return;
        }
        self.classes.retain(|_, class| Arc::strong_count(class) > 1);
        self.specs.retain(|_, spec| Arc::strong_count(spec) > 1);
        self.sweep_at = self.classes.len() * 2;
    }
}

fn held(
    affinity: &[Arc<PodTerm>],
    anti_affinity: &[Arc<PodTerm>],
    preferred: &[(i64, Arc<PodTerm>)],
) -> Vec<Arc<Held>> {
    let one = |kind: HeldKind, term: &Arc<PodTerm>| Arc::new(Held { kind, term: term.clone() });
    let affinity = affinity.iter().map(|t| one(HeldKind::Affinity, t));
    let anti_affinity = anti_affinity.iter().map(|t| one(HeldKind::AntiAffinity, t));
    let preferred = preferred.iter().map(|(weight, t)| one(HeldKind::Preferred(*weight), t));
    affinity.chain(anti_affinity).chain(preferred).collect()
}

fn make_spec(
    id: u64,
    spec: Option<&Value>,
    requests: &[(String, i64)],
    at_least: [i64; 2],
    features: Features,
    extended: Vec<ContainerRequests>,
) -> Spec {
    let containers = list(spec, "initContainers").iter().chain(list(spec, "containers"));
    let mounted = list(spec, "volumes").iter().filter_map(|v| v.str_at(&["image", "reference"]));
    let images = containers.clone().map(|c| text(c, "image")).chain(mounted).map(image_name).collect();
    Spec {
        id,
        required: Required::parse(spec),
        preferred: Preferred::parse(spec.and_then(|s| s.at(&["affinity", "nodeAffinity"]))),
        tolerations: Toleration::parse_all(spec),
        requests: requests.iter().filter(|(_, a)| *a != 0).map(|(n, a)| (n.as_str().into(), *a)).collect(),
        at_least,
        ports: ports::host_ports(spec),
        images,
        containers: containers.count(),
        features,
        extended,
    }
}

fn owner(metadata: Option<&Value>) -> Option<(OwnerKind, Arc<str>)> {
    let owners = list(metadata, "ownerReferences");
    let controller = owners.iter().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true))?;
    let kind = match (text(controller, "apiVersion"), text(controller, "kind")) {
        ("apps/v1", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => OwnerKind::StatefulSet,
        ("v1", "ReplicationController") => OwnerKind::ReplicationController,
        _ => return None,
    };
    Some((kind, text(controller, "name").into()))
}

/// 128 bits of what pods must have equal to share a class.
struct Signature(DefaultHasher, DefaultHasher);

impl Signature {
    fn new() -> Signature {
        let mut second = DefaultHasher::new();
        second.write_u8(1);
        Signature(DefaultHasher::new(), second)
    }
    fn add(&mut self, part: &(impl Hash + ?Sized)) {
        part.hash(&mut self.0);
        part.hash(&mut self.1);
    }
    fn tree(&mut self, value: Option<&Value>) {
        match value {
            None | Some(Value::Null) => self.add(&0u8),
            Some(Value::Bool(b)) => self.add(&(1u8, b)),
            Some(Value::Int(i)) => self.add(&(2u8, i)),
            Some(Value::Float(f)) => self.add(&(3u8, f.to_bits())),
            Some(Value::Str(s)) => self.add(&(4u8, s)),
            Some(Value::Raw(text)) => self.add(&(7u8, text)),
            Some(Value::List(l)) => {
                self.add(&(5u8, l.len()));
                object::deep(|| l.iter().for_each(|v| self.tree(Some(v))));
            }
            Some(Value::Map(m)) => {
                self.add(&(6u8, m.len()));
                for (name, value) in m.iter() {
                    self.add(name.as_str());
                    object::deep(|| self.tree(Some(value)));
                }
            }
        }
    }
    fn key(&self) -> u128 {
        (u128::from(self.0.finish()) << 64) | u128::from(self.1.finish())
    }
}

#[cfg(test)]
mod tests;
