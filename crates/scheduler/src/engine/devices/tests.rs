use std::sync::Arc;

use super::{AfterClaims, ClaimBindings, WrittenClaims};
use crate::dynamic_resources::ResourceClaim;
use crate::testing::{NOW, engine, next, node, pod, rng, tree};
use crate::{Engine, ScheduleResult};

const PREEMPTED: &str = "running PreBind plugin \"DynamicResources\": preempted by DefaultPreemption";

/// A pod that is to be bound once a claim is written, for a device with these members.
fn writing(device: &str) -> (Engine, Arc<ClaimBindings>) {
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
fn written(conditions: &str) -> WrittenClaims {
    let claim = format!(
        r#"{{"metadata":{{"name":"c","namespace":"ns","uid":"u","resourceVersion":"2"}},"status":{{
            "allocation":{{"devices":{{"results":[{{"request":"r","driver":"d","pool":"n1","device":"x"{conditions}}}]}}}},
            "reservedFor":[{{"resource":"pods","name":"a","uid":"a"}}]}}}}"#
    );
    WrittenClaims { claims: vec![Arc::new(ResourceClaim::parse(&tree(&claim)))], ..WrittenClaims::default() }
}

/// It is taken off its node, and its claim is given back first.
fn is_put_back(mut engine: Engine) {
    match engine.next(NOW, &mut rng(1)) {
        Some(ScheduleResult::ClaimsFailed { queued, message, unreserved, .. }) => {
            assert_eq!((message.as_str(), unreserved.claims.len()), (PREEMPTED, 1));
            assert!(engine.cancel_binding("a"), "it leaves already");
            assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
            engine.bind_failed(queued, NOW);
            assert_eq!(engine.lengths().backoff, 1);
            assert!(!engine.cancel_binding("a"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_whose_claims_are_being_written_is_put_back_by_preemption_once_they_are() {
    let (mut engine, _) = writing("");
    assert!(engine.cancel_binding("a"));
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
    assert!(matches!(engine.claims_written("a", written(""), NOW), AfterClaims::Failed));
    is_put_back(engine);
}

#[test]
fn a_pod_whose_devices_are_waited_for_is_put_back_by_preemption() {
    let conditions = r#","bindingConditions":["Attached"],"bindingFailureConditions":["Broken"]"#;
    let (mut engine, _) = writing(conditions);
    assert!(matches!(engine.claims_written("a", written(conditions), NOW), AfterClaims::Waits));
    assert!(engine.cancel_binding("a"));
    is_put_back(engine);
}

#[test]
fn a_pod_that_is_being_bound_is_not_put_back_by_preemption() {
    let (mut engine, claims) = writing("");
    assert!(claims.claims.len() == 1 && claims.extended.is_none());
    assert!(matches!(engine.claims_written("a", written(""), NOW), AfterClaims::Bound));
    assert!(!engine.cancel_binding("a"));
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
    assert!(!engine.cancel_binding("a") && !engine.cancel_binding("unknown"));
}
