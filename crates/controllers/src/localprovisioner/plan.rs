//! The volume for a claim, or why there is none.

use kinds::persistentvolume::view::{PROVISIONED_BY, ReclaimPolicy, VolumePhase, VolumeView};
use kinds::persistentvolumeclaim::view::{ClaimView, SELECTED_NODE};
use object::{Map, Value};

pub const PROVISIONER: &str = "setpoint.dev/local";
/// Where nodes keep the data.
const DIRECTORY: &str = "/var/lib/setpoint/volumes";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// A directory is one node's.
const MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

#[derive(Clone, Debug, PartialEq)]
pub enum ForClaim {
    Nothing,
    Create(Value),
    Refuse(NotProvisioned),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotProvisioned {
    pub why: String,
    /// On another node it may go well.
    pub try_elsewhere: bool,
}

/// The class that a cluster with nodes begins with: the default.
pub fn storage_class() -> Value {
    let mut class = Value::map();
    let root = class.make_map();
    root.set("apiVersion", "storage.k8s.io/v1");
    root.set("kind", "StorageClass");
    root.set("provisioner", PROVISIONER);
    root.set("reclaimPolicy", "Delete");
    root.set("volumeBindingMode", "WaitForFirstConsumer");
    class.map_at(&["metadata"]).set("name", "local");
    class.map_at(&["metadata", "annotations"]).set("storageclass.kubernetes.io/is-default-class", "true");
    class
}

/// A claim that wants a volume of this provisioner and has none.
pub fn awaits(claim: &ClaimView) -> bool {
    claim.volume.is_empty() && claim.provisioner.as_deref() == Some(PROVISIONER)
}

/// A volume of this provisioner that nobody wants any more.
pub fn is_released(volume: &VolumeView) -> bool {
    volume.phase == VolumePhase::Released
        && volume.policy == ReclaimPolicy::Delete
        && volume.provisioned_by.as_deref() == Some(PROVISIONER)
}

/// One claim has one volume, however often it is made.
pub fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// The claim without the node that was chosen.
pub fn without_node(mut claim: Value) -> Value {
    claim.map_at(&["metadata", "annotations"]).remove(SELECTED_NODE);
    claim
}

/// `node` is the one the scheduler selected, if it is there.
pub fn provision(claim: &Value, view: &ClaimView, class: Option<&Value>, node: Option<&Value>) -> ForClaim {
    let refuse =
        |why: &str, try_elsewhere| ForClaim::Refuse(NotProvisioned { why: why.to_owned(), try_elsewhere });
    let Some(class) = class.filter(|class| class.str_at(&["provisioner"]) == Some(PROVISIONER)) else {
        return ForClaim::Nothing;
    };
    if view.block {
        return refuse("only volumeMode Filesystem is supported", false);
    }
    let modes = claim.at(&["spec", "accessModes"]).and_then(Value::as_list).unwrap_or_default();
    if !modes.iter().all(|mode| mode.as_str().is_some_and(|mode| MODES.contains(&mode))) {
        return refuse("only the access modes ReadWriteOnce and ReadWriteOncePod are supported", false);
    }
    if claim.at(&["spec", "dataSource"]).or(claim.at(&["spec", "dataSourceRef"])).is_some() {
        return refuse("data sources are not supported", false);
    }
    let Some(selected) = view.selected_node.as_deref() else {
        // Without the delay nobody chooses.
        let delayed = class.str_at(&["volumeBindingMode"]) == Some("WaitForFirstConsumer");
        let why = "no node was selected; the class needs volumeBindingMode WaitForFirstConsumer";
        return if delayed { ForClaim::Nothing } else { refuse(why, false) };
    };
    let Some(node) = node else {
        return refuse(&format!("failed to get target node: node \"{selected}\" not found"), true);
    };
    let labels = node.at(&["metadata", "labels"]);
    let hostname = labels.and_then(|labels| labels.str_at(&[HOSTNAME])).unwrap_or(selected);
    ForClaim::Create(volume(claim, view, class, hostname))
}

fn volume(claim: &Value, view: &ClaimView, class: &Value, hostname: &str) -> Value {
    let of_claim = |name: &str| claim.at(&["metadata"]).and_then(|m| m.str_at(&[name])).unwrap_or_default();
    let name = volume_name(of_claim("uid"));
    let mut volume = Value::map();
    volume.map_at(&["metadata"]).set("name", &*name);
    volume.map_at(&["metadata", "annotations"]).set(PROVISIONED_BY, PROVISIONER);
    let mut reference = Map::default();
    reference.set("kind", "PersistentVolumeClaim");
    reference.set("apiVersion", "v1");
    for field in ["namespace", "name", "uid", "resourceVersion"] {
        reference.set(field, of_claim(field));
    }
    let mut host_path = Map::default();
    host_path.set("path", format!("{DIRECTORY}/{name}"));
    host_path.set("type", "DirectoryOrCreate");
    let spec = volume.map_at(&["spec"]);
    spec.set("claimRef", reference);
    spec.set("hostPath", host_path);
    spec.set("storageClassName", view.class_name());
    spec.set("volumeMode", "Filesystem");
    let policy = class.str_at(&["reclaimPolicy"]).unwrap_or("Delete");
    spec.set("persistentVolumeReclaimPolicy", policy);
    if let Some(modes) = claim.at(&["spec", "accessModes"]) {
        spec.set("accessModes", modes.clone());
    }
    if let Some(options) = class.get("mountOptions") {
        spec.set("mountOptions", options.clone());
    }
    if let Some(size) = claim.at(&["spec", "resources", "requests", "storage"]) {
        volume.map_at(&["spec", "capacity"]).set("storage", size.clone());
    }
    let mut requirement = Map::default();
    requirement.set("key", HOSTNAME);
    requirement.set("operator", "In");
    requirement.set("values", vec![Value::from(hostname)]);
    let mut term = Map::default();
    term.set("matchExpressions", vec![Value::Map(requirement)]);
    let terms = vec![Value::Map(term)];
    volume.map_at(&["spec", "nodeAffinity", "required"]).set("nodeSelectorTerms", terms);
    volume
}
