//! Which ResourceClaims a pod needs, and what is to become of one.

use object::{Map, Value};

pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// On a claim that was made for a pod: which of the pod's entries it is for.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// On a claim that the scheduler made for extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";
/// Room for five random characters in a name of 63.
const MAX_BASE: usize = 57;

/// What is known of the claim an entry of a pod stands for.
#[derive(Debug, PartialEq)]
pub enum Named<'a> {
    /// By name; whether it must have been made for the pod.
    Claim {
        name: &'a str,
        owned: bool,
    },
    NotNeeded,
    NotYet,
}

pub fn entries(pod: &Value) -> &[Value] {
    pod.at(&["spec", "resourceClaims"]).and_then(Value::as_list).unwrap_or_default()
}

pub fn entry_name(entry: &Value) -> &str {
    entry.str_at(&["name"]).unwrap_or_default()
}

/// The template an entry's claim is made from.
pub fn template_of(entry: &Value) -> Option<&str> {
    entry.str_at(&["resourceClaimTemplateName"])
}

pub fn named<'a>(pod: &'a Value, entry: &'a Value) -> Named<'a> {
    if let Some(name) = entry.str_at(&["resourceClaimName"]) {
        return Named::Claim { name, owned: false };
    }
    let statuses = pod.at(&["status", "resourceClaimStatuses"]).and_then(Value::as_list).unwrap_or_default();
    match statuses.iter().find(|status| entry_name(status) == entry_name(entry)) {
        None => Named::NotYet,
        Some(status) => match status.str_at(&["resourceClaimName"]) {
            Some(name) => Named::Claim { name, owned: true },
            None => Named::NotNeeded,
        },
    }
}

/// The names of all claims a pod is known to use, also the one the scheduler made for its extended resources.
pub fn claims_of(pod: &Value) -> Vec<String> {
    let name = |entry: &Value| match named(pod, entry) {
        Named::Claim { name, .. } => Some(name.to_owned()),
        _ => None,
    };
    let extended = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    let mut names: Vec<String> = entries(pod).iter().filter_map(name).collect();
    names.extend(extended.map(str::to_owned));
    names
}

/// It will never run, or never again.
pub fn is_done(pod: &Value) -> bool {
    let over = matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
    let deleting = pod.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null());
    over || deleting && !is_bound(pod)
}

pub fn is_bound(pod: &Value) -> bool {
    pod.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty())
}

/// Made for this entry, by what it says itself; that the pod is its controller is known already.
pub fn is_for_entry(claim: &Value, entry: &str) -> bool {
    claim.at(&["metadata", "annotations"]).and_then(|a| a.get(ENTRY)).and_then(Value::as_str) == Some(entry)
}

/// The claim of an entry, made from a template.
pub fn from_template(pod: &Value, entry: &str, template: &Value) -> Value {
    let member = |path: &[&str]| pod.str_at(path).unwrap_or_default();
    let name = member(&["metadata", "name"]);
    let mut claim = Value::map();
    let mut owner = Map::default();
    owner.set("apiVersion", "v1");
    owner.set("kind", "Pod");
    owner.set("name", name.to_owned());
    owner.set("uid", member(&["metadata", "uid"]).to_owned());
    owner.set("controller", true);
    let given = |part: &str| template.at(&["spec", "metadata", part]).cloned();
    let metadata = claim.map_at(&["metadata"]);
    metadata.set("generateName", base_name(name, entry));
    metadata.set("namespace", member(&["metadata", "namespace"]).to_owned());
    metadata.set("ownerReferences", vec![Value::Map(owner)]);
    if let Some(labels) = given("labels") {
        metadata.set("labels", labels);
    }
    let mut annotations = given("annotations").unwrap_or_else(Value::map);
    annotations.make_map().set(ENTRY, entry.to_owned());
    metadata.set("annotations", annotations);
    let spec = template.at(&["spec", "spec"]).cloned().unwrap_or_else(Value::map);
    claim.make_map().set("spec", spec);
    claim
}

/// `<pod>-<entry>-`, of both as much as there is room for.
fn base_name(pod: &str, entry: &str) -> String {
    let whole = format!("{pod}-{entry}-");
    if whole.len() <= MAX_BASE {
        return whole;
    }
    // Names are ASCII.
    let part = |name: &str| name.get(..name.len() * MAX_BASE / whole.len()).unwrap_or(name).to_owned();
    format!("{}-{}", part(pod), part(entry))
}

/// The status a pod is to have of these entries and the names of their claims, and of those it has.
// Differs from kube-controller-manager, which applies the new ones alone and so takes back the others it applied before.
pub fn statuses(pod: &Value, new: &[(String, String)]) -> Value {
    let mut all = Vec::new();
    for entry in entries(pod) {
        let name = entry_name(entry);
        let made = new.iter().find(|(entry, _)| entry == name).map(|(_, claim)| claim.clone());
        let known = || match named(pod, entry) {
            Named::Claim { name, owned: true } => Some(name.to_owned()),
            _ => None,
        };
        let Some(claim) = made.or_else(known) else { continue };
        let mut status = Map::default();
        status.set("name", name.to_owned());
        status.set("resourceClaimName", claim);
        all.push(Value::Map(status));
    }
    let mut config = Value::map();
    config.map_at(&["status"]).set("resourceClaimStatuses", Value::List(all));
    config
}

pub fn reservations(claim: &Value) -> &[Value] {
    claim.at(&["status", "reservedFor"]).and_then(Value::as_list).unwrap_or_default()
}

pub fn is_allocated(claim: &Value) -> bool {
    claim.at(&["status", "allocation"]).is_some_and(|allocation| !allocation.is_null())
}

/// Of a claim: does it ask for devices whoever uses them?
pub fn wants_admin_access(claim: &Value) -> bool {
    let requests = claim.at(&["spec", "devices", "requests"]).and_then(Value::as_list).unwrap_or_default();
    requests.iter().any(|r| r.at(&["exactly", "adminAccess"]).and_then(Value::as_bool) == Some(true))
}

/// Who made a claim, in the words of metrics.
pub fn source(claim: &Value) -> &'static str {
    let annotation = |name: &str| claim.str_at(&["metadata", "annotations", name]).unwrap_or_default();
    match (annotation(EXTENDED), annotation(ENTRY)) {
        ("true", _) => "extended_resource",
        (_, "") => "",
        _ => "resource_claim_template",
    }
}

/// A pod that was bound without the scheduler's help uses a claim that is allocated: the claim reserved for it, if it is not.
pub fn reserved_for(claim: &Value, pod: &Value) -> Option<Value> {
    let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
    let there = reservations(claim).iter().any(|r| r.str_at(&["uid"]) == Some(uid));
    if there || !is_allocated(claim) {
        return None;
    }
    let mut consumer = Map::default();
    consumer.set("resource", "pods");
    consumer.set("name", pod.str_at(&["metadata", "name"]).unwrap_or_default().to_owned());
    consumer.set("uid", uid.to_owned());
    let mut all = reservations(claim).to_vec();
    all.push(Value::Map(consumer));
    let mut claim = claim.clone();
    claim.map_at(&["status"]).set("reservedFor", Value::List(all));
    Some(claim)
}

/// Name and uid of the pod a reservation is for; `None` for what we cannot look after.
pub fn reserving_pod(reservation: &Value) -> Option<(&str, &str)> {
    let of = |name: &str| reservation.str_at(&[name]).unwrap_or_default();
    (of("apiGroup").is_empty() && of("resource") == "pods").then(|| (of("name"), of("uid")))
}

/// What a claim is to become, given the reservations that are still good.
#[derive(Debug, PartialEq)]
pub enum Cleanup {
    Nothing,
    /// Write this status, then let the finalizer go if nothing is allocated any more.
    Release(Value),
    /// Nobody uses it and it is being deleted: only the finalizer is left.
    LetGo(Value),
}

pub fn cleanup(claim: &Value, good: Vec<Value>) -> Cleanup {
    let unused = good.is_empty();
    let finalizer = has_finalizer(claim);
    let deleting = claim.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null());
    let mut new = claim.clone();
    if good.len() < reservations(claim).len() {
        let status = new.map_at(&["status"]);
        match unused {
            true => drop(status.remove("reservedFor")),
            false => status.set("reservedFor", Value::List(good)),
        }
        // What nobody uses any more can be had by the next, wherever that is.
        if unused && finalizer {
            status.remove("allocation");
        }
        return Cleanup::Release(new);
    }
    if !(finalizer && deleting && unused) {
        return Cleanup::Nothing;
    }
    if is_allocated(claim) {
        new.map_at(&["status"]).remove("allocation");
        return Cleanup::Release(new);
    }
    Cleanup::LetGo(without_finalizer(claim))
}

pub fn has_finalizer(claim: &Value) -> bool {
    finalizers(claim).iter().any(|f| f.as_str() == Some(FINALIZER))
}

fn finalizers(claim: &Value) -> &[Value] {
    claim.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default()
}

pub fn without_finalizer(claim: &Value) -> Value {
    let mut new = claim.clone();
    let rest = finalizers(claim).iter().filter(|f| f.as_str() != Some(FINALIZER)).cloned().collect();
    new.map_at(&["metadata"]).set("finalizers", Value::List(rest));
    new
}
