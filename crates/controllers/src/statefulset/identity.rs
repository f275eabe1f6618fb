//! Who a pod of a StatefulSet is: its name, its ordinal, its labels and its volumes.

use object::{Map, Obj, Value};
use runtime::owners;

use super::set::StatefulSet;
use crate::pods::Pod;
use crate::replicaset::pod_from_template;

/// The label with the name of the revision a pod was made from.
pub(crate) const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The set a pod's name belongs to, and the ordinal; `None` for a number no ordinal can be.
pub(crate) fn parent_and_ordinal(pod: &str) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (parent, digits.parse::<i32>().ok().map(i64::from)))
}

pub(crate) fn ordinal(pod: &str) -> Option<i64> {
    parent_and_ordinal(pod)?.1
}

pub(crate) fn is_member(set: &Obj, pod: &Obj) -> bool {
    parent_and_ordinal(pod.name()).is_some_and(|(parent, _)| parent == set.name())
}

pub(crate) fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

pub(crate) fn claim_name(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The template and the set a claim may be named after: both may have dashes in their names.
pub(crate) fn sets_of_claim(claim: &str) -> impl Iterator<Item = (&str, &str)> {
    let named = parent_and_ordinal(claim).map_or("", |(named, _)| named);
    named.match_indices('-').map(move |(at, _)| (&named[..at], &named[at + 1..]))
}

/// Its own name, in the label too.
pub(crate) fn identity_matches(set: &Obj, pod: &Obj) -> bool {
    ordinal(pod.name()).is_some_and(|ordinal| pod.name() == pod_name(set.name(), ordinal))
        && pod.label(POD_NAME) == Some(pod.name())
}

/// Every claim of the set is one of its volumes.
pub(crate) fn storage_matches(obj: &Obj, set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod.obj.name()) else { return false };
    set.claim_templates.iter().all(|template| {
        let volume = pod.view.claims.iter().find(|(volume, _)| **volume == **template);
        volume.is_some_and(|(_, claim)| **claim == *claim_name(template, obj.name(), ordinal))
    })
}

/// A new pod; `tree` is the set as it is at the revision.
pub(crate) fn new_pod(set: &Obj, tree: &Value, ordinal: i64, revision: &str) -> Value {
    let controller = owners::controller_ref("apps/v1", "StatefulSet", set);
    let mut pod = pod_from_template(set, tree, controller);
    set_identity(set.name(), ordinal, &mut pod);
    pod.map_at(&["metadata", "labels"]).set(REVISION, revision.to_owned());
    set_storage(set.name(), tree, ordinal, &mut pod);
    let spec = pod.map_at(&["spec"]);
    spec.set("hostname", pod_name(set.name(), ordinal));
    match tree.str_at(&["spec", "serviceName"]) {
        Some(service) if !service.is_empty() => spec.set("subdomain", service.to_owned()),
        _ => {
            spec.remove("subdomain");
        }
    }
    pod
}

pub(crate) fn set_identity(set: &str, ordinal: i64, pod: &mut Value) {
    let name = pod_name(set, ordinal);
    let labels = pod.map_at(&["metadata", "labels"]);
    labels.set(POD_NAME, name.clone());
    labels.set(POD_INDEX, ordinal.to_string());
    pod.map_at(&["metadata"]).set("name", name);
}

/// The claims first, then the template's volumes of other names.
pub(crate) fn set_storage(set: &str, tree: &Value, ordinal: i64, pod: &mut Value) {
    let claims = claims(set, tree, ordinal);
    if claims.is_empty() {
        return;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| {
            let mut volume = Value::map();
            volume.make_map().set("name", claim.template.clone());
            volume.map_at(&["persistentVolumeClaim"]).set("claimName", claim.name.clone());
            volume
        })
        .collect();
    let spec = pod.map_at(&["spec"]);
    let others = spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
    let is_claim =
        |volume: &Value| claims.iter().any(|claim| volume.str_at(&["name"]) == Some(&claim.template));
    volumes.extend(others.iter().filter(|volume| !is_claim(volume)).cloned());
    spec.set("volumes", Value::List(volumes));
}

/// A claim of one pod.
pub(crate) struct Claim {
    pub template: String,
    pub name: String,
    pub body: Value,
}

/// The claims of a pod, in the order of their templates; of templates with one name the last counts.
pub(crate) fn claims(set: &str, tree: &Value, ordinal: i64) -> Vec<Claim> {
    let templates = tree.at(&["spec", "volumeClaimTemplates"]).and_then(Value::as_list).unwrap_or_default();
    let selected = tree.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_map);
    let mut claims: Vec<Claim> = Vec::new();
    for template in templates {
        let of = template.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
        let name = claim_name(&of, set, ordinal);
        let mut body = template.clone();
        let metadata = body.map_at(&["metadata"]);
        metadata.set("name", name.clone());
        let mut labels = metadata.get("labels").and_then(Value::as_map).cloned().unwrap_or_else(Map::default);
        for (label, value) in selected.into_iter().flat_map(Map::iter) {
            labels.set(label.clone(), value.clone());
        }
        if !labels.is_empty() {
            metadata.set("labels", Value::Map(labels));
        }
        let claim = Claim { template: of, name, body };
        match claims.iter_mut().find(|there| there.template == claim.template) {
            Some(there) => *there = claim,
            None => claims.push(claim),
        }
    }
    claims
}
