//! What the scheduler keeps of claims, volumes, classes and of what CSI drivers say.

use std::sync::Arc;

use object::Value;
use object::quantity::{Format, Quantity};
use object::selector::LabelSelector;

use crate::node_selector::Terms;
use crate::read::{Labels, int, label, labels, list, pairs, strings, text};

pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Labels that say where a volume is, and where a node is.
pub const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

#[derive(Clone, Debug)]
pub struct Claim {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub revision: u64,
    /// Empty without one.
    pub class: Arc<str>,
    pub volume: Arc<str>,
    pub bind_completed: bool,
    /// Its volume is gone for good.
    pub lost: bool,
    pub deleting: bool,
    pub selected_node: Option<Arc<str>>,
    /// It has annotations, whichever.
    pub annotated: bool,
    /// Bytes; `None` when it does not say.
    pub request: Option<i64>,
    pub modes: Vec<String>,
    pub block: bool,
    pub attributes_class: String,
    pub selector: Option<LabelSelector>,
    /// The uid of its controller.
    pub controller: Option<Arc<str>>,
}

impl Claim {
    pub fn parse(tree: &Value) -> Claim {
        let (spec, status) = (tree.get("spec"), tree.get("status"));
        let annotation = |name: &str| tree.at(&["metadata", "annotations"]).and_then(|a| a.get(name));
        let of = |v: Option<&Value>, name: &str| v.map_or("", |v| text(v, name)).to_owned();
        let class = annotation(OLD_CLASS).and_then(Value::as_str).map(str::to_owned);
        let selector = spec.and_then(|s| s.get("selector")).filter(|v| !v.is_null());
        let owners = list(tree.get("metadata"), "ownerReferences");
        let controller = owners.iter().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
        Claim {
            namespace: tree.str_at(&["metadata", "namespace"]).unwrap_or("").into(),
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").into(),
            uid: tree.str_at(&["metadata", "uid"]).unwrap_or("").into(),
            revision: revision(tree),
            class: class.unwrap_or_else(|| of(spec, "storageClassName")).into(),
            volume: of(spec, "volumeName").into(),
            bind_completed: annotation(BIND_COMPLETED).is_some(),
            lost: of(status, "phase") == "Lost",
            deleting: is_deleting(tree),
            selected_node: annotation(SELECTED_NODE).and_then(Value::as_str).map(Arc::from),
            annotated: !pairs(tree.at(&["metadata", "annotations"])).is_empty(),
            request: spec.and_then(|s| s.at(&["resources", "requests", "storage"])).and_then(bytes),
            modes: spec.map(|s| strings(s, "accessModes")).unwrap_or_default(),
            block: of(spec, "volumeMode") == "Block",
            attributes_class: of(spec, "volumeAttributesClassName"),
            selector: selector.map(read_selector),
            controller: controller.map(|o| text(o, "uid").into()),
        }
    }

    pub fn is_bound(&self) -> bool {
        !self.volume.is_empty() && self.bind_completed
    }

    /// Only one pod at a time may use it.
    pub fn is_for_one_pod(&self) -> bool {
        self.modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}

#[derive(Clone, Debug)]
pub struct Volume {
    pub name: Arc<str>,
    pub revision: u64,
    pub class: Arc<str>,
    pub capacity: i64,
    pub modes: Vec<String>,
    pub block: bool,
    pub attributes_class: String,
    pub labels: Labels,
    pub deleting: bool,
    pub available: bool,
    pub claim: Option<ClaimRef>,
    /// Marked as bound by a controller, so that one may unbind it.
    pub bound_by_controller: bool,
    pub affinity: Option<Terms>,
    /// Driver and handle.
    pub csi: Option<(Arc<str>, Arc<str>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Empty where any claim of the name is meant.
    pub uid: Arc<str>,
}

impl ClaimRef {
    pub fn of(claim: &Claim) -> ClaimRef {
        ClaimRef { namespace: claim.namespace.clone(), name: claim.name.clone(), uid: claim.uid.clone() }
    }

    pub fn means(&self, claim: &Claim) -> bool {
        self.name == claim.name
            && self.namespace == claim.namespace
            && (self.uid.is_empty() || self.uid == claim.uid)
    }
}

impl Volume {
    pub fn parse(tree: &Value) -> Volume {
        let spec = tree.get("spec");
        let annotation = |name: &str| tree.at(&["metadata", "annotations"]).and_then(|a| a.get(name));
        let of = |v: Option<&Value>, name: &str| v.map_or("", |v| text(v, name)).to_owned();
        let class = annotation(OLD_CLASS).and_then(Value::as_str).map(str::to_owned);
        let member = |name: &str| spec.and_then(|s| s.get(name)).filter(|v| !v.is_null());
        let affinity = spec.and_then(|s| s.at(&["nodeAffinity", "required"])).filter(|v| !v.is_null());
        Volume {
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").into(),
            revision: revision(tree),
            class: class.unwrap_or_else(|| of(spec, "storageClassName")).into(),
            capacity: spec.and_then(|s| s.at(&["capacity", "storage"])).and_then(bytes).unwrap_or(0),
            modes: spec.map(|s| strings(s, "accessModes")).unwrap_or_default(),
            block: of(spec, "volumeMode") == "Block",
            attributes_class: of(spec, "volumeAttributesClassName"),
            labels: labels(tree.at(&["metadata", "labels"])),
            deleting: is_deleting(tree),
            available: tree.str_at(&["status", "phase"]) == Some("Available"),
            claim: member("claimRef").map(|claim| ClaimRef {
                namespace: text(claim, "namespace").into(),
                name: text(claim, "name").into(),
                uid: text(claim, "uid").into(),
            }),
            bound_by_controller: annotation(BOUND_BY_CONTROLLER).is_some(),
            affinity: affinity.map(Terms::parse),
            csi: member("csi").map(|csi| (text(csi, "driver").into(), text(csi, "volumeHandle").into())),
        }
    }

    /// Whether a node with these labels can use it.
    pub fn reaches(&self, labels: &Labels) -> bool {
        self.affinity.as_ref().is_none_or(|terms| terms.matches_labels(labels))
    }

    /// The zones and regions it is in, as its labels say.
    pub fn zones(&self) -> Vec<Zones> {
        let zones = |key: &'static str| {
            let values = label(&self.labels, key)?.split("__").map(str::trim);
            let values: Vec<String> = values.map(str::to_owned).collect();
            // A label that cannot be read is as good as none.
            (!values.iter().any(String::is_empty)).then_some(Zones { key, values })
        };
        ZONE_LABELS.into_iter().filter_map(zones).collect()
    }
}

/// Where a volume is, by one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones {
    pub key: &'static str,
    values: Vec<String>,
}

impl Zones {
    /// Whether a node is in one of them. Nodes that say where they are by the new label may use volumes with the old.
    pub fn have(&self, node: &Labels) -> bool {
        let new = match self.key {
            "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
            key => key,
        };
        let value = label(node, self.key).or_else(|| label(node, new));
        value.is_some_and(|value| self.values.iter().any(|zone| zone == value))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    pub provisioner: Arc<str>,
    /// Claims are bound when the first pod that uses them has a node.
    pub waits: bool,
    /// Terms of labels and the values they may have; one term must hold if there are any.
    pub topologies: Vec<Vec<(String, Vec<String>)>>,
}

impl StorageClass {
    pub fn parse(tree: &Value) -> StorageClass {
        let expression = |e: &Value| (text(e, "key").to_owned(), strings(e, "values"));
        let term = |t: &Value| list(Some(t), "matchLabelExpressions").iter().map(expression).collect();
        StorageClass {
            provisioner: text(tree, "provisioner").into(),
            waits: text(tree, "volumeBindingMode") == "WaitForFirstConsumer",
            topologies: list(Some(tree), "allowedTopologies").iter().map(term).collect(),
        }
    }

    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != NO_PROVISIONER
    }

    /// Whether it provisions volumes for a node with these labels. A term without expressions holds for none.
    pub fn reaches(&self, node: &Labels) -> bool {
        let has = |(key, values): &(String, Vec<String>)| {
            label(node, key).is_some_and(|value| values.iter().any(|v| v == value))
        };
        self.topologies.is_empty()
            || self.topologies.iter().any(|term| !term.is_empty() && term.iter().all(has))
    }
}

/// How many volumes of each driver a node can have at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    pub limits: Vec<(Arc<str>, Option<i64>)>,
}

impl CsiNode {
    pub fn parse(tree: &Value) -> CsiNode {
        let limit = |driver: &Value| driver.get("allocatable").and_then(|a| int(a, "count"));
        let drivers = list(tree.get("spec"), "drivers").iter();
        CsiNode { limits: drivers.map(|driver| (text(driver, "name").into(), limit(driver))).collect() }
    }

    pub fn limit(&self, driver: &str) -> Option<i64> {
        self.limits.iter().find(|(name, _)| **name == *driver).and_then(|(_, limit)| *limit)
    }
}

/// How much room a driver has for volumes of a class, and for which nodes.
#[derive(Clone, Debug)]
pub struct Capacity {
    pub class: Arc<str>,
    /// The largest volume there can be, if that is known.
    pub limit: Option<i64>,
    /// Nobody, without it.
    pub nodes: Option<LabelSelector>,
}

impl Capacity {
    pub fn parse(tree: &Value) -> Capacity {
        let amount = |name: &str| tree.get(name).and_then(bytes);
        Capacity {
            class: text(tree, "storageClassName").into(),
            limit: amount("maximumVolumeSize").or_else(|| amount("capacity")),
            nodes: tree.get("nodeTopology").filter(|v| !v.is_null()).map(read_selector),
        }
    }

    pub fn has_room(&self, size: i64, node: &Labels) -> bool {
        self.limit.is_some_and(|limit| limit >= size)
            && self.nodes.as_ref().is_some_and(|nodes| nodes.matches(&|key| label(node, key)))
    }
}

/// A volume that is attached to a node, whether or not a pod there uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub node: Arc<str>,
    pub attacher: Arc<str>,
    /// Empty for volumes that are not PersistentVolumes.
    pub volume: Arc<str>,
}

impl Attachment {
    pub fn parse(tree: &Value) -> Attachment {
        let string = |path: &[&str]| tree.str_at(path).unwrap_or("").into();
        Attachment {
            node: string(&["spec", "nodeName"]),
            attacher: string(&["spec", "attacher"]),
            volume: string(&["spec", "source", "persistentVolumeName"]),
        }
    }
}

fn read_selector(value: &Value) -> LabelSelector {
    LabelSelector::from_label_selector(value).unwrap_or_else(|_| LabelSelector::nothing())
}

fn bytes(amount: &Value) -> Option<i64> {
    match amount {
        Value::Str(text) => Quantity::parse(text).ok().map(|q| q.as_i64()),
        Value::Int(number) => Some(Quantity::from_i64(*number, Format::BinarySi).as_i64()),
        _ => None,
    }
}

fn revision(tree: &Value) -> u64 {
    tree.str_at(&["metadata", "resourceVersion"]).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn is_deleting(tree: &Value) -> bool {
    tree.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
}
