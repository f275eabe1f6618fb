//! A new ReplicaSet: its name and labels say which template it is of.

use std::collections::BTreeMap;

use object::{Map, Value};

use super::spec::Deployment;
use crate::replicaset::TEMPLATE_HASH;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Characters a hash is written in: no vowels, no look-alikes.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template, to be part of names and labels. `collisions` makes another of the same template.
///
/// Differs from kube-controller-manager: there, a dump of Go structs is hashed; here it is the template's canonical JSON. The
/// form is the same (FNV-1a of 32 bits, written in safe characters), the values are not. A ReplicaSet is recognised by its template,
/// never by its hash, so those made by upstream go on being used.
pub(crate) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    feed(&codec::json::to_vec(template));
    if let Some(collisions) = collisions {
        feed(&collisions.to_le_bytes());
    }
    hash.to_string().bytes().map(|digit| SAFE[digit as usize % SAFE.len()] as char).collect()
}

/// The Deployment's name, shortened if need be, and the hash.
pub(crate) fn set_name(deployment: &str, hash: &str) -> String {
    let mut end = deployment.len().min(LONGEST_NAME - 1 - hash.len());
    while !deployment.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &deployment[..end])
}

/// The whole object, but for who owns it.
pub(crate) fn set_body(
    d: &Deployment,
    name: &str,
    hash: &str,
    replicas: i64,
    annotations: &BTreeMap<String, String>,
) -> Value {
    let mut template = d.template.clone();
    let labels = template.map_at(&["metadata", "labels"]);
    labels.set(TEMPLATE_HASH, hash.to_owned());
    let labels = labels.clone();
    let mut selector = d.selector_value.clone();
    selector.map_at(&["matchLabels"]).set(TEMPLATE_HASH, hash.to_owned());

    let mut set = Value::map();
    let metadata = set.map_at(&["metadata"]);
    metadata.set("name", name.to_owned());
    metadata.set("labels", Value::Map(labels));
    metadata.set("annotations", to_map(annotations));
    let spec = set.map_at(&["spec"]);
    spec.set("replicas", replicas);
    if d.min_ready_seconds != 0 {
        spec.set("minReadySeconds", d.min_ready_seconds);
    }
    spec.set("selector", selector);
    spec.set("template", template);
    set
}

pub(crate) fn to_map(strings: &BTreeMap<String, String>) -> Value {
    let mut map = Map::with_capacity(strings.len());
    for (name, value) in strings {
        map.set(name.clone(), value.clone());
    }
    Value::Map(map)
}
