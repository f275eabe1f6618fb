use super::AfterClaims;
use crate::testing::{NOW, next, rng, writing, written};
use crate::{Engine, ScheduleResult};

const PREEMPTED: &str = "running PreBind plugin \"DynamicResources\": preempted by DefaultPreemption";

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
