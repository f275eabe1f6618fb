//! The pods of a set: its template, with the tolerations all of them have, labels that say of which revision they are, and the node
//! they are for.

use object::{Map, Obj, Value};
use runtime::owners;

use super::view::DaemonSet;
use crate::replicaset::pod_from_template;

/// Of pods and revisions.
pub const HASH: &str = "controller-revision-hash";
pub const TEMPLATE_GENERATION: &str = "pod-template-generation";

/// What a node may suffer from and still needs its daemons for.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Only for pods that need no network of the node's.
const NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The template with the tolerations its pods get.
pub fn tolerant(template: Option<&Value>) -> Value {
    let mut template = template.cloned().unwrap_or_else(Value::map);
    let on_host = template.at(&["spec", "hostNetwork"]).and_then(Value::as_bool) == Some(true);
    let there = template.at(&["spec", "tolerations"]).and_then(Value::as_list);
    let mut tolerations = there.unwrap_or_default().to_vec();
    for (key, effect) in TOLERATED.into_iter().chain(on_host.then_some(NETWORK)) {
        let mut wanted = Map::default();
        for (name, value) in [("key", key), ("operator", "Exists"), ("effect", effect)] {
            wanted.set(name, value);
        }
        let wanted = Value::Map(wanted);
        // The same for a limited time is the same.
        let same = |toleration: &Value| {
            ["key", "operator", "effect", "value"]
                .iter()
                .all(|name| toleration.str_at(&[name]).unwrap_or("") == wanted.str_at(&[name]).unwrap_or(""))
        };
        match tolerations.iter_mut().find(|toleration| same(toleration)) {
            Some(toleration) => *toleration = wanted,
            None => tolerations.push(wanted),
        }
    }
    template.map_at(&["spec"]).set("tolerations", tolerations);
    template
}

/// What all pods of one reconcile have in common.
pub fn pod(obj: &Obj, set: &DaemonSet, hash: &str) -> Value {
    let mut tree = runtime::tree(obj);
    let mut template = tolerant(tree.at(&["spec", "template"]));
    let labels = template.map_at(&["metadata", "labels"]);
    if let Some(generation) = set.template_generation {
        labels.set(TEMPLATE_GENERATION, generation.to_string());
    }
    if !hash.is_empty() {
        labels.set(HASH, hash.to_owned());
    }
    tree.map_at(&["spec"]).set("template", template);
    pod_from_template(obj, &tree, owners::controller_ref("apps/v1", "DaemonSet", obj))
}

/// The pod for a node: whatever nodes its affinity asked for, this is one of them.
pub fn pod_for(pod: &Value, node: &str) -> Value {
    let mut pod = pod.clone();
    let mut by_name = Value::map();
    let field = by_name.make_map();
    field.set("key", "metadata.name");
    field.set("operator", "In");
    field.set("values", vec![Value::from(node)]);
    let mut term = Value::map();
    term.make_map().set("matchFields", vec![by_name]);
    let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    pod.map_at(&path).set("nodeSelectorTerms", vec![term]);
    pod
}
