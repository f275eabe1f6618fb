//! Objects for tests, written as JSON.

use std::sync::Arc;
use std::time::Duration;

use object::Value;

use crate::dynamic_resources::ResourceClaim;
use crate::engine::{ClaimBindings, WrittenClaims};
use crate::{Engine, ScheduleResult};

pub fn tree(json: &str) -> Value {
    codec::json::parse(json.as_bytes(), None).unwrap_or_else(|e| panic!("{e}: {json}"))
}

/// A node with 4 cpus, 8 GiB and room for 10 pods; `more` is labels as JSON members, `spec` as JSON.
pub fn node(name: &str, labels: &str, spec: &str) -> Value {
    node_of(name, labels, spec, r#""cpu":"4","memory":"8Gi","pods":"10","ephemeral-storage":"10Gi""#)
}

pub fn node_of(name: &str, labels: &str, spec: &str, allocatable: &str) -> Value {
    let labels = if labels.is_empty() { String::new() } else { format!(",{labels}") };
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{"kubernetes.io/hostname":"{name}"{labels}}}}},
            "spec":{{{spec}}},"status":{{"allocatable":{{{allocatable}}}}}}}"#
    ))
}

/// A pod of one container; `spec` is further members of the spec.
pub fn pod(name: &str, labels: &str, requests: &str, spec: &str) -> Value {
    let spec = if spec.is_empty() { String::new() } else { format!(",{spec}") };
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","labels":{{{labels}}}}},
            "spec":{{"containers":[{{"name":"c","image":"web","resources":{{"requests":{{{requests}}}}}}}]{spec}}}}}"#
    ))
}

pub const NOW: Duration = Duration::from_secs(100);

/// A generator for tests, the same for the same seed.
pub fn rng(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    }
}

/// The node the next pod goes to, or the message why it does not.
pub fn next(engine: &mut Engine) -> Result<String, String> {
    match engine.next(NOW, &mut rng(1)) {
        Some(
            ScheduleResult::Bind { node, .. }
            | ScheduleResult::BindVolumes { node, .. }
            | ScheduleResult::BindClaims { node, .. },
        ) => Ok(node.to_string()),
        Some(ScheduleResult::Failed(failure)) => Err(failure.message),
        Some(
            ScheduleResult::VolumesFailed { message, .. } | ScheduleResult::ClaimsFailed { message, .. },
        ) => Err(message),
        None => Err("nothing waits".to_owned()),
    }
}

/// An engine with these nodes.
pub fn engine(nodes: &[Value]) -> Engine {
    let mut engine = Engine::new(crate::Config::default());
    nodes.iter().for_each(|node| engine.set_node(node, NOW));
    engine
}

/// A pod `a` that is to be bound once a claim is written, for a device with these members.
pub fn writing(device: &str) -> (Engine, Arc<ClaimBindings>) {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_device_class("gpu", Some(&tree(r#"{"metadata":{"name":"gpu"},"spec":{}}"#)), NOW);
    let slice = format!(
        r#"{{"metadata":{{"name":"s"}},"spec":{{"driver":"d","nodeName":"n1","devices":[{{"name":"x"{device}}}],
            "pool":{{"name":"n1","generation":1,"resourceSliceCount":1}}}}}}"#
    );
    engine.set_resource_slice("s", Some(&tree(&slice)), NOW);
    let claim = r#"{"metadata":{"name":"c","namespace":"ns","uid":"u","resourceVersion":"1"},
        "spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu",
            "allocationMode":"ExactCount","count":1}}]}}}"#;
    engine.set_resource_claim("ns", "c", Some(&tree(claim)), NOW);
    let claims = r#""resourceClaims":[{"name":"r","resourceClaimName":"c"}]"#;
    engine.set_pod(&pod("a", "", "", claims), NOW);
    match engine.next(NOW, &mut rng(1)) {
        Some(ScheduleResult::BindClaims { claims, .. }) => (engine, claims),
        other => panic!("{other:?}"),
    }
}

/// As the server answers.
pub fn written(conditions: &str) -> WrittenClaims {
    let claim = format!(
        r#"{{"metadata":{{"name":"c","namespace":"ns","uid":"u","resourceVersion":"2"}},"status":{{
            "allocation":{{"devices":{{"results":[{{"request":"r","driver":"d","pool":"n1","device":"x"{conditions}}}]}}}},
            "reservedFor":[{{"resource":"pods","name":"a","uid":"a"}}]}}}}"#
    );
    WrittenClaims { claims: vec![Arc::new(ResourceClaim::parse(&tree(&claim)))], ..WrittenClaims::default() }
}
