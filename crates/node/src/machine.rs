//! The Node object: what a machine has, and how it says that it is well.

use std::net::IpAddr;

use object::quantity::Quantity;
use object::{Map, Value, time};

use crate::admit::Capacity;
use crate::container_runtime::{Health, Millis};
use crate::pod::Requests;

/// What a node says about itself, for the object that stands for it.
pub struct Machine {
    describe: Box<dyn Describe>,
}

/// Whoever knows a machine: a simulation, or the files of a kernel. Asked with each report, since real machines change.
pub trait Describe: Send + Sync {
    fn describe(&self, identity: &NodeIdentity<'_>) -> Description;
    /// Whether the node makes its own object, or waits for somebody to do it (`--register-node=false`).
    fn registers(&self) -> bool {
        true
    }
    /// Whether it may say something else though nobody touched its object: such a machine is asked again and again.
    fn changes(&self) -> bool {
        false
    }
}

/// What a machine is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    pub labels: Map,
    /// Of a node that is registered; later they are others' affair.
    pub taints: Vec<Value>,
    /// Empty: none.
    pub provider_id: String,
    /// The addresses of its pods, where the node is told them and not given them by the cluster; of a node that is registered.
    pub pod_cidrs: Vec<String>,
    /// Quantities by resource. What others advertise on the node stays.
    pub capacity: Map,
    pub allocatable: Map,
    pub addresses: Vec<Value>,
    pub node_info: Map,
    /// Where the node's own server listens; 0: it has none.
    pub port: u16,
    /// Further fields of the status: `images`, `runtimeHandlers`, `features`, `declaredFeatures`.
    pub more: Map,
    pub pressure: Pressure,
}

/// What the node is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pid: bool,
}

/// What simulated nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedMachine {
    /// Quantities, as users write them.
    pub cpu: String,
    pub memory: String,
    pub ephemeral_storage: String,
    pub pods: i64,
    /// `containerd://2.1.0`, `simulated://0.1.0`.
    pub runtime_version: String,
    pub os_image: String,
}

/// The version of Kubernetes whose kubelet this agent is like.
pub const KUBELET_VERSION: &str = "v1.36.4";
pub const OS: &str = "linux";
/// Says that volumes are attached by the controller manager, not by the node.
const MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// What only one of them has.
pub struct NodeIdentity<'a> {
    pub name: &'a str,
    pub ip: &'a str,
    /// Empty: none.
    pub zone: &'a str,
}

impl Machine {
    pub fn new(describe: impl Describe + 'static) -> Machine {
        Machine { describe: Box::new(describe) }
    }

    pub fn registers(&self) -> bool {
        self.describe.registers()
    }

    pub fn changes(&self) -> bool {
        self.describe.changes()
    }

    /// What pods can be given. `Err` names the quantity that is none.
    pub fn capacity(&self) -> Result<Capacity, String> {
        let description = self.describe.describe(&NodeIdentity { name: "", ip: "", zone: "" });
        let read = |name: &str| {
            let text = description.allocatable.get(name).and_then(Value::as_str).unwrap_or("0");
            Quantity::parse(text).map_err(|error| format!("{name} {text:?}: {error}"))
        };
        let amounts = Requests {
            cpu_milli: read("cpu")?.as_milli(),
            memory: read("memory")?.as_i64(),
            ephemeral_storage: read("ephemeral-storage")?.as_i64(),
        };
        Ok(Capacity { amounts, pods: read("pods")?.as_i64() })
    }

    /// A whole object, to be created.
    pub fn node(&self, identity: &NodeIdentity<'_>, health: &Health, now: Millis) -> Value {
        let mut description = self.describe.describe(identity);
        let mut node = Value::map();
        let metadata = node.map_at(&["metadata"]);
        metadata.set("name", identity.name);
        metadata.set("labels", std::mem::take(&mut description.labels));
        let mut annotations = Map::default();
        annotations.set(MANAGED_ATTACH, "true");
        metadata.set("annotations", annotations);
        if !description.taints.is_empty() {
            node.map_at(&["spec"]).set("taints", Value::List(std::mem::take(&mut description.taints)));
        }
        if !description.provider_id.is_empty() {
            node.map_at(&["spec"]).set("providerID", &*description.provider_id);
        }
        set_pod_cidrs(&mut node, &description.pod_cidrs);
        let status = description.status(&node, health, now);
        node.make_map().set("status", status);
        node
    }

    /// What an object that was there before lacks: a merge patch. Labels that people gave the node stay, and so do taints: only the labels
    /// every node must have are put right. Ranges of pods that the cluster gave it stay, too: they never change.
    pub fn missing(&self, identity: &NodeIdentity<'_>, node: &Value) -> Option<Value> {
        let Description { mut labels, pod_cidrs, .. } = self.describe.describe(identity);
        labels.retain(|name, value| {
            DEFAULT_LABELS.contains(&&**name) && node.at(&["metadata", "labels", name]) != Some(&*value)
        });
        let mut patch = Value::map();
        if !labels.is_empty() {
            patch.map_at(&["metadata"]).set("labels", labels);
        }
        if node.str_at(&["metadata", "annotations", MANAGED_ATTACH]) != Some("true") {
            patch.map_at(&["metadata", "annotations"]).set(MANAGED_ATTACH, "true");
        }
        if pod_cidrs_of(node).is_empty() {
            set_pod_cidrs(&mut patch, &pod_cidrs);
        }
        (patch.get("metadata").is_some() || patch.get("spec").is_some()).then_some(patch)
    }

    /// The ranges of the node's object, and those its pods have, if they are others.
    pub fn other_pod_cidrs(&self, identity: &NodeIdentity<'_>, node: &Value) -> Option<(String, String)> {
        let (said, used) = (pod_cidrs_of(node), self.describe.describe(identity).pod_cidrs);
        let differs = said.len() != used.len() || said.iter().zip(&used).any(|(a, b)| !same_cidr(a, b));
        (!used.is_empty() && !said.is_empty() && differs).then(|| (said.join(","), used.join(",")))
    }

    /// The status, made from the one that is there: times of conditions that did not change stay.
    pub fn status(&self, identity: &NodeIdentity<'_>, node: &Value, health: &Health, now: Millis) -> Value {
        self.describe.describe(identity).status(node, health, now)
    }
}

fn set_pod_cidrs(node: &mut Value, cidrs: &[String]) {
    let Some(first) = cidrs.first() else { return };
    let spec = node.map_at(&["spec"]);
    spec.set("podCIDR", &**first);
    spec.set("podCIDRs", Value::List(cidrs.iter().map(|cidr| (&**cidr).into()).collect()));
}

fn pod_cidrs_of(node: &Value) -> Vec<&str> {
    let list = node.at(&["spec", "podCIDRs"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// Written in another way, perhaps.
fn same_cidr(a: &str, b: &str) -> bool {
    let parse = |cidr: &str| {
        let (address, size) = cidr.split_once('/')?;
        Some((address.parse::<IpAddr>().ok()?, size.parse::<u8>().ok()?))
    };
    a == b || parse(a).is_some_and(|a| Some(a) == parse(b))
}

/// The labels that are put right on an object that was there before; of `kubernetes.io`, the ones a node may give itself.
pub const DEFAULT_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

impl Description {
    fn status(self, node: &Value, health: &Health, now: Millis) -> Value {
        let mut status = node.get("status").cloned().unwrap_or_else(Value::map);
        let old = status.get("conditions").and_then(Value::as_list).unwrap_or_default().to_vec();
        let map = status.make_map();
        let before =
            |map: &Map, name: &str| map.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
        // Sizes of huge pages that the kernel does not have any more are ours, too.
        let supported = |amounts: &Map, name: &str| !name.starts_with("hugepages-") || amounts.contains(name);
        let mut capacity = before(map, "capacity");
        capacity.retain(|name, _| supported(&self.capacity, name));
        for (name, amount) in self.capacity.iter() {
            capacity.set(name.clone(), amount.clone());
        }
        // Others' resources can be used whole.
        let mut allocatable = capacity.clone();
        for (name, amount) in self.allocatable.iter() {
            allocatable.set(name.clone(), amount.clone());
        }
        map.set("capacity", capacity);
        map.set("allocatable", allocatable);
        map.set("conditions", conditions(&old, health, self.pressure, now));
        map.set("addresses", Value::List(self.addresses));
        let mut port = Map::default();
        port.set("Port", Value::Int(self.port.into()));
        let mut endpoints = Map::default();
        endpoints.set("kubeletEndpoint", port);
        map.set("daemonEndpoints", endpoints);
        map.set("nodeInfo", self.node_info);
        for (name, value) in self.more.iter() {
            map.set(name.clone(), value.clone());
        }
        status
    }
}

impl Describe for SimulatedMachine {
    fn describe(&self, identity: &NodeIdentity<'_>) -> Description {
        let mut amounts = Map::with_capacity(4);
        amounts.set("cpu", &*self.cpu);
        amounts.set("ephemeral-storage", &*self.ephemeral_storage);
        amounts.set("memory", &*self.memory);
        amounts.set("pods", self.pods.to_string());
        let mut labels = default_labels(identity.name);
        if !identity.zone.is_empty() {
            labels.set("topology.kubernetes.io/zone", identity.zone);
        }
        let mut more = Map::with_capacity(1);
        more.set("declaredFeatures", declared_features());
        Description {
            labels,
            capacity: amounts.clone(),
            allocatable: amounts,
            addresses: vec![address("InternalIP", identity.ip), address("Hostname", identity.name)],
            node_info: self.node_info(identity),
            port: 10250,
            more,
            ..Description::default()
        }
    }
}

impl SimulatedMachine {
    fn node_info(&self, identity: &NodeIdentity<'_>) -> Map {
        // Made of the name, so that they stay the same.
        let id = format!("{:032x}", crate::pod::short_uid(identity.name));
        let uuid = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
        let mut info = Map::with_capacity(10);
        for (name, value) in [
            ("machineID", &*id),
            ("systemUUID", &uuid),
            ("bootID", &uuid),
            ("kernelVersion", ""),
            ("osImage", &self.os_image),
            ("containerRuntimeVersion", &self.runtime_version),
            ("kubeletVersion", KUBELET_VERSION),
            ("kubeProxyVersion", ""),
            ("operatingSystem", OS),
            ("architecture", architecture()),
        ] {
            info.set(name, value);
        }
        info
    }
}

/// What a kubelet of this version declares; sorted.
const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

pub fn declared_features() -> Value {
    Value::List(DECLARED_FEATURES.map(Value::from).to_vec())
}

/// Differs from what is there in more than the time of the last sign of life?
pub fn status_differs(old: Option<&Value>, new: &Value) -> bool {
    let still = |status: &Value| {
        let mut status = status.clone();
        if let Some(Value::List(all)) = status.make_map().get_mut("conditions") {
            for condition in all {
                condition.make_map().remove("lastHeartbeatTime");
            }
        }
        status
    };
    !kinds::same(old.map(still).as_ref(), Some(&still(new)))
}

/// The labels every node has.
pub fn default_labels(hostname: &str) -> Map {
    let mut labels = Map::with_capacity(6);
    labels.set("beta.kubernetes.io/arch", architecture());
    labels.set("beta.kubernetes.io/os", OS);
    labels.set("kubernetes.io/arch", architecture());
    labels.set("kubernetes.io/hostname", hostname);
    labels.set("kubernetes.io/os", OS);
    labels
}

/// In Go's words.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// An entry of `status.addresses`.
pub fn address(kind: &str, value: &str) -> Value {
    let mut address = Map::with_capacity(2);
    address.set("type", kind);
    address.set("address", value);
    Value::Map(address)
}

/// Kubelet's four, Ready last; those of others first, as they are.
fn conditions(old: &[Value], health: &Health, pressure: Pressure, now: Millis) -> Value {
    let (ready, reason, message) = match health {
        Health::NotReady(why) => ("False", "KubeletNotReady", &**why),
        Health::Ready | Health::Unreachable => ("True", "KubeletReady", "kubelet is posting ready status"),
    };
    let memory = match pressure.memory {
        true => ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        false => ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    };
    let disk = match pressure.disk {
        true => ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        false => ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    };
    let pid = match pressure.pid {
        true => ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        false => ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    };
    let words = [
        ("MemoryPressure", memory.0, memory.1, memory.2),
        ("DiskPressure", disk.0, disk.1, disk.2),
        ("PIDPressure", pid.0, pid.1, pid.2),
        ("Ready", ready, reason, message),
    ];
    let is_ours = |c: &&Value| words.iter().any(|(kind, ..)| c.str_at(&["type"]) == Some(kind));
    let mut all: Vec<Value> = old.iter().filter(|c| !is_ours(c)).cloned().collect();
    let now = time::format_seconds(now / 1000);
    for (kind, said, reason, message) in words {
        let there = old.iter().find(|c| c.str_at(&["type"]) == Some(kind));
        let since = there.filter(|c| c.str_at(&["status"]) == Some(said));
        let since = since.and_then(|c| c.str_at(&["lastTransitionTime"])).unwrap_or(&now);
        let mut condition = Map::with_capacity(6);
        condition.set("type", kind);
        condition.set("status", said);
        condition.set("lastHeartbeatTime", &*now);
        condition.set("lastTransitionTime", since);
        condition.set("reason", reason);
        condition.set("message", message);
        all.push(Value::Map(condition));
    }
    Value::List(all)
}
