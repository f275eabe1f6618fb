//! PodResizeValidator and NodeDeclaredFeatureValidator: a pod on a node only changes in ways its node can follow.

use object::{Cause, Value, quote};

use crate::amounts::{Amounts, of_pod};
use crate::tree::{items, text};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

/// A resized pod still fits on its node.
pub struct PodResizeValidator;

/// Changes that need a feature of the node wait for nodes that have it.
pub struct NodeDeclaredFeatureValidator;

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.subresource != Some("resize") {
            return Ok(());
        }
        let Some((pod, _, node)) = changed_on_node(attempt, new) else { return Ok(()) };
        let Some(found) = attempt.find("", "nodes", "", node) else { return Err(no_node(attempt, node)) };
        if let Some(os) = found.label("kubernetes.io/os").filter(|os| *os != "linux") {
            let (node, os) = (quote(node), quote(os));
            let why = format!("pod resize is only supported on linux nodes, node {node} is {os}");
            return Err(refused(attempt, &why, "UnsupportedPlatform"));
        }
        match too_large(pod, &attempt.tree(&found)) {
            Some(why) => Err(refused(attempt, &why, "NodeCapacity")),
            None => Ok(()),
        }
    }
}

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        if !matches!(attempt.subresource, None | Some("resize")) {
            return Ok(());
        }
        let Some((new, old, node)) = changed_on_node(attempt, new) else { return Ok(()) };
        let needed = needed_features(new, old);
        if needed.is_empty() {
            return Ok(());
        }
        let Some(found) = attempt.find("", "nodes", "", node) else { return Err(no_node(attempt, node)) };
        let found = attempt.tree(&found);
        let declared = found.get("status").map(|s| items(s, "declaredFeatures")).unwrap_or_default();
        let has = |feature: &str| declared.iter().any(|d| d.as_str() == Some(feature));
        let lacking: Vec<&str> = needed.into_iter().filter(|feature| !has(feature)).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let why = format!(
            "pod update requires features {} which are not available on node {}",
            lacking.join(", "),
            quote(node)
        );
        Err(attempt.forbidden(why).into())
    }
}

/// A pod that has a node and whose spec changes: new, old, the node's name.
fn changed_on_node<'a>(
    attempt: &Attempt<'a>,
    new: Option<&'a Value>,
) -> Option<(&'a Value, &'a Value, &'a str)> {
    if attempt.operation != Operation::Update || !attempt.is_or_below("", "pods") {
        return None;
    }
    let (new, old) = (new?, attempt.old?);
    let node = new.str_at(&["spec", "nodeName"]).filter(|node| !node.is_empty())?;
    let generation = |pod: &Value| pod.at(&["metadata", "generation"]).and_then(Value::as_int);
    (generation(new) != generation(old)).then_some((new, old, node))
}

/// What a kubelet must know about for this change, in order of names.
fn needed_features(new: &Value, old: &Value) -> Vec<&'static str> {
    let resources = |of: &Value, which| Amounts::read(of.at(&["resources", which]));
    let differ = |a: &Value, b: &Value| {
        ["requests", "limits"].iter().any(|which| resources(a, which) != resources(b, which))
    };
    let empty = Value::Null;
    let (new, old) = (new.get("spec").unwrap_or(&empty), old.get("spec").unwrap_or(&empty));
    let mut needed = Vec::new();
    if differ(new, old) {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let pairs = items(old, "initContainers").iter().zip(items(new, "initContainers"));
    if pairs.into_iter().any(|(was, now)| text(was, "restartPolicy") != "Always" && differ(was, now)) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    needed
}

fn too_large(pod: &Value, node: &Value) -> Option<String> {
    let spec = pod.get("spec")?;
    let pod_level = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let mut requests = of_pod(spec, "requests", pod_level);
    requests.add(&Amounts::read(spec.get("overhead")));
    let allocatable = Amounts::read(node.at(&["status", "allocatable"]));
    let mut why = Vec::new();
    let (asked, there) = (requests.value("cpu"), allocatable.value("cpu"));
    if asked > there {
        why.push(format!("cpu, requested: {}, allocatable: {}", asked.as_milli(), there.as_milli()));
    }
    let (asked, there) = (requests.value("memory"), allocatable.value("memory"));
    if asked > there {
        why.push(format!("memory, requested: {}, allocatable: {}", asked.as_i64(), there.as_i64()));
    }
    (!why.is_empty()).then(|| format!("node didn't have enough allocatable resources: {}", why.join("; ")))
}

fn no_node(attempt: &Attempt<'_>, node: &str) -> Refusal {
    attempt.forbidden(format!("node {} not found", quote(node))).into()
}

fn refused(attempt: &Attempt<'_>, why: &str, reason: &'static str) -> Refusal {
    let mut status = attempt.forbidden(why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { reason, message: String::new(), field: String::new() });
    }
    status.into()
}
