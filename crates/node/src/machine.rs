//! The Node object: what a machine has, and how it says that it is well.

use object::quantity::Quantity;
use object::{Map, Value, time};

use crate::admit::Capacity;
use crate::container_runtime::{Health, Millis};
use crate::pod::Requests;

/// What nodes of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
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
const KUBELET_VERSION: &str = "v1.36.4";
const OS: &str = "linux";

/// What only one of them has.
pub struct NodeIdentity<'a> {
    pub name: &'a str,
    pub ip: &'a str,
    /// Empty: none.
    pub zone: &'a str,
}

impl Machine {
    /// `Err` names the quantity that is none.
    pub fn capacity(&self) -> Result<Capacity, String> {
        let read = |name: &str, text: &str| {
            Quantity::parse(text).map_err(|error| format!("{name} {text:?}: {error}"))
        };
        let amounts = Requests {
            cpu_milli: read("cpu", &self.cpu)?.as_milli(),
            memory: read("memory", &self.memory)?.as_i64(),
            ephemeral_storage: read("ephemeral-storage", &self.ephemeral_storage)?.as_i64(),
        };
        Ok(Capacity { amounts, pods: self.pods })
    }

    /// A whole object, to be created.
    pub fn node(&self, identity: &NodeIdentity<'_>, health: &Health, now: Millis) -> Value {
        let mut node = Value::map();
        let metadata = node.map_at(&["metadata"]);
        metadata.set("name", identity.name);
        metadata.set("labels", labels(identity));
        let mut annotations = Map::default();
        annotations.set("volumes.kubernetes.io/controller-managed-attach-detach", "true");
        metadata.set("annotations", annotations);
        let status = self.status(identity, &node, health, now);
        node.make_map().set("status", status);
        node
    }

    /// The labels every node must have, where the object lacks them: a merge patch.
    pub fn missing_labels(&self, identity: &NodeIdentity<'_>, node: &Value) -> Option<Value> {
        let mut wanted = labels(identity);
        wanted.retain(|name, value| node.at(&["metadata", "labels", name]) != Some(&*value));
        if wanted.is_empty() {
            return None;
        }
        let mut patch = Value::map();
        patch.map_at(&["metadata"]).set("labels", wanted);
        Some(patch)
    }

    /// The status, made from the one that is there: times of conditions that did not change stay.
    pub fn status(&self, identity: &NodeIdentity<'_>, node: &Value, health: &Health, now: Millis) -> Value {
        let mut status = node.get("status").cloned().unwrap_or_else(Value::map);
        let old = status.get("conditions").and_then(Value::as_list).unwrap_or_default().to_vec();
        let map = status.make_map();
        // What others advertise on the node stays.
        let mut amounts = map.get("capacity").and_then(Value::as_map).cloned().unwrap_or_default();
        for (name, amount) in self.amounts().iter() {
            amounts.set(name.clone(), amount.clone());
        }
        map.set("capacity", amounts.clone());
        map.set("allocatable", amounts);
        map.set("conditions", conditions(&old, health, now));
        map.set("addresses", addresses(identity));
        let mut port = Map::default();
        port.set("Port", Value::Int(10250));
        let mut endpoints = Map::default();
        endpoints.set("kubeletEndpoint", port);
        map.set("daemonEndpoints", endpoints);
        map.set("nodeInfo", self.node_info(identity));
        map.set("declaredFeatures", Value::List(DECLARED_FEATURES.map(Value::from).to_vec()));
        status
    }

    fn amounts(&self) -> Map {
        let mut amounts = Map::with_capacity(4);
        amounts.set("cpu", &*self.cpu);
        amounts.set("ephemeral-storage", &*self.ephemeral_storage);
        amounts.set("memory", &*self.memory);
        amounts.set("pods", self.pods.to_string());
        amounts
    }

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

/// What a kubelet of this version declares; sorted. Without RestartAllContainersOnContainerExits: pods that need it would be
/// scheduled here, and their rules not followed.
const DECLARED_FEATURES: [&str; 3] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
];

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

fn labels(identity: &NodeIdentity<'_>) -> Map {
    let mut labels = Map::with_capacity(6);
    labels.set("beta.kubernetes.io/arch", architecture());
    labels.set("beta.kubernetes.io/os", OS);
    labels.set("kubernetes.io/arch", architecture());
    labels.set("kubernetes.io/hostname", identity.name);
    labels.set("kubernetes.io/os", OS);
    if !identity.zone.is_empty() {
        labels.set("topology.kubernetes.io/zone", identity.zone);
    }
    labels
}

/// In Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn addresses(identity: &NodeIdentity<'_>) -> Value {
    let address = |kind: &str, value: &str| {
        let mut address = Map::with_capacity(2);
        address.set("type", kind);
        address.set("address", value);
        Value::Map(address)
    };
    Value::List(vec![address("InternalIP", identity.ip), address("Hostname", identity.name)])
}

/// Kubelet's four, Ready last; those of others first, as they are.
fn conditions(old: &[Value], health: &Health, now: Millis) -> Value {
    let (ready, reason, message) = match health {
        Health::NotReady(why) => ("False", "KubeletNotReady", &**why),
        Health::Ready | Health::Unreachable => ("True", "KubeletReady", "kubelet is posting ready status"),
    };
    let words = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
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
