//! When a pod must go because of its devices.

use std::time::Duration;

use object::Value;

use super::plan::{Sentence, Then, changed, eviction, judge, mark, tainted};

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

const SINCE: i64 = 1_577_836_800;

fn slice(taints: &str) -> Value {
    json(&format!(
        r#"{{"spec":{{"driver":"d","pool":{{"name":"p","generation":1}},"devices":[{{"name":"gpu","taints":[{taints}]}}]}}}}"#
    ))
}

fn no_execute() -> Value {
    slice(
        r#"{"key":"k","value":"v","effect":"NoExecute","timeAdded":"2020-01-01T00:00:00Z"},{"key":"n","effect":"NoSchedule"}"#,
    )
}

/// A pod `u` that uses the claim `c`, with these tolerations of its device.
fn when(tolerations: &str, uid: &str, node: &str) -> Option<i64> {
    let pod = json(&format!(
        r#"{{"metadata":{{"name":"p","uid":"u"}},"spec":{{"nodeName":"{node}","resourceClaims":[{{"name":"g","resourceClaimName":"c"}}]}}}}"#
    ));
    let claim = json(&format!(
        r#"{{"status":{{"reservedFor":[{{"resource":"pods","name":"p","uid":"{uid}"}}],"allocation":{{"devices":{{"results":[
        {{"driver":"d","pool":"p","device":"gpu","tolerations":[{tolerations}]}}]}}}}}}}}"#
    ));
    let taints = tainted(&no_execute());
    eviction(
        &pod,
        |name| (name == "c").then(|| (claim.clone(), false)),
        |device| taints.get(device).cloned().unwrap_or_default(),
    )
}

#[test]
fn a_pod_goes_when_its_device_was_tainted_and_later_if_that_is_tolerated() {
    assert_eq!(when("", "u", "n"), Some(SINCE));
    assert_eq!(when("", "other", "n"), None, "not reserved for it");
    assert_eq!(when("", "u", ""), None, "not bound");
    let tolerated =
        |seconds: &str| format!(r#"{{"key":"k","operator":"Exists","effect":"NoExecute"{seconds}}}"#);
    assert_eq!(when(&tolerated(""), "u", "n"), None, "for ever");
    assert_eq!(when(&tolerated(r#","tolerationSeconds":60"#), "u", "n"), Some(SINCE + 60));
    assert_eq!(when(&tolerated(r#","tolerationSeconds":-60"#), "u", "n"), Some(SINCE));
    let huge = format!(r#","tolerationSeconds":{}"#, i64::MAX);
    assert_eq!(when(&tolerated(&huge), "u", "n"), Some(i64::MAX));
    let both =
        format!("{},{}", tolerated(r#","tolerationSeconds":60"#), tolerated(r#","tolerationSeconds":30"#));
    assert_eq!(when(&both, "u", "n"), Some(SINCE + 30), "the shortest");
    assert_eq!(when(r#"{"operator":"Exists"}"#, "u", "n"), Some(SINCE), "no effect named: not this one");
    assert_eq!(when(r#"{"key":"k","value":"w","effect":"NoExecute"}"#, "u", "n"), Some(SINCE));
    assert_eq!(when(r#"{"key":"k","value":"v","effect":"NoExecute"}"#, "u", "n"), None);
}

#[test]
fn a_claim_from_a_template_must_be_the_pods_own() {
    let pod = json(
        r#"{"metadata":{"uid":"u"},"spec":{"nodeName":"n","resourceClaims":[{"name":"g","resourceClaimTemplateName":"t"}]},
        "status":{"resourceClaimStatuses":[{"name":"g","resourceClaimName":"c"}]}}"#,
    );
    let claim = json(
        r#"{"status":{"reservedFor":[{"uid":"u"}],"allocation":{"devices":{"results":[{"driver":"d","pool":"p","device":"gpu"}]}}}}"#,
    );
    let taints = tainted(&no_execute());
    let of = |own: bool| {
        eviction(
            &pod,
            |_| Some((claim.clone(), own)),
            |device| taints.get(device).cloned().unwrap_or_default(),
        )
    };
    assert_eq!((of(true), of(false)), (Some(SINCE), None));
}

#[test]
fn only_devices_whose_taints_differ_are_changed() {
    let (none, some) = (tainted(&slice("")), tainted(&no_execute()));
    assert_eq!(changed(&none, &some), ["d/p/gpu"]);
    assert_eq!(changed(&some, &none), ["d/p/gpu"]);
    assert_eq!(changed(&some, &some), [""; 0]);
    let later = slice(r#"{"key":"k","value":"v","effect":"NoExecute","timeAdded":"2021-01-01T00:00:00Z"}"#);
    assert_eq!(changed(&some, &tainted(&later)), ["d/p/gpu"]);
}

#[test]
fn a_sentence_is_waited_for_executed_once_or_cancelled() {
    let second = 1_000_000_000_u128;
    let sentence = |evicted| Sentence { uid: "u".into(), evicted };
    assert_eq!(judge(None, None, 0), Then::Nothing);
    assert_eq!(judge(None, Some(5), 3 * second), Then::Wait(Duration::from_secs(2)));
    assert_eq!(judge(Some(&sentence(false)), Some(5), 5 * second), Then::Evict);
    assert_eq!(judge(Some(&sentence(false)), None, 0), Then::Cancel);
    assert_eq!(judge(Some(&sentence(true)), None, 0), Then::Nothing);
    assert_eq!(judge(Some(&sentence(true)), Some(5), 9 * second), Then::Nothing);
    assert!(matches!(judge(None, Some(i64::MAX), 0), Then::Wait(_)), "a clock cannot count so far");
}

#[test]
fn the_condition_is_set_once() {
    let pod = json(r#"{"metadata":{"uid":"u","generation":3},"status":{"conditions":[]}}"#);
    let patch = mark(&pod, "now").unwrap();
    let conditions = patch.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let text = codec::json::to_vec(&conditions[0]);
    assert_eq!(
        String::from_utf8(text).unwrap(),
        r#"{"type":"DisruptionTarget","status":"True","reason":"DeletionByDeviceTaintManager","message":"Device Taint manager: deleting due to NoExecute taint","lastTransitionTime":"now"}"#
    );
    let mut marked = pod;
    marked.map_at(&["status"]).set("conditions", Value::List(conditions.to_vec()));
    assert_eq!(mark(&marked, "later"), None);
}
