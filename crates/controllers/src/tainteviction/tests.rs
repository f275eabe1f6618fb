//! Who must leave a tainted node, and when.

use std::time::Duration;

use env::Env;
use object::Value;

use super::plan::*;
use crate::nodelifecycle::node::{NO_EXECUTE, Taint};

fn toleration(key: &str, operator: &str, value: &str, effect: &str, seconds: Option<i64>) -> Toleration {
    let text = str::to_owned;
    Toleration { key: text(key), operator: text(operator), value: text(value), effect: text(effect), seconds }
}

fn taint(key: &str, value: &str) -> Taint {
    Taint { value: value.to_owned(), ..Taint::new(key, NO_EXECUTE) }
}

#[test]
fn tolerations_match_by_key_value_and_effect() {
    let tolerates = |t: Toleration, taint: Taint| t.tolerates(&taint);
    assert!(tolerates(toleration("a", "", "1", "", None), taint("a", "1")));
    assert!(tolerates(toleration("a", "Equal", "1", "NoExecute", None), taint("a", "1")));
    assert!(!tolerates(toleration("a", "Equal", "2", "", None), taint("a", "1")));
    assert!(!tolerates(toleration("a", "Exists", "", "NoSchedule", None), taint("a", "1")));
    assert!(tolerates(toleration("a", "Exists", "", "", None), taint("a", "1")));
    assert!(tolerates(toleration("", "Exists", "", "", None), taint("b", "1")));
    assert!(!tolerates(toleration("b", "Exists", "", "", None), taint("a", "1")));
    assert!(!tolerates(toleration("a", "Gt", "0", "", None), taint("a", "1")), "behind a gate that is off");
}

#[test]
fn a_pod_stays_as_long_as_the_shortest_toleration_it_uses() {
    let (a, b) = (taint("a", ""), taint("b", ""));
    let short = toleration("a", "Exists", "", "", Some(10));
    let long = toleration("b", "Exists", "", "", Some(300));
    let forever = toleration("b", "Exists", "", "", None);
    assert_eq!(stay(&[], &[]), Stay::Forever);
    assert_eq!(stay(std::slice::from_ref(&a), &[]), Stay::No);
    assert_eq!(stay(&[a.clone(), b.clone()], std::slice::from_ref(&short)), Stay::No);
    assert_eq!(stay(&[a.clone(), b.clone()], &[long.clone(), short.clone()]), Stay::Seconds(10));
    assert_eq!(stay(&[a.clone(), b.clone()], &[short.clone(), forever.clone()]), Stay::Seconds(10));
    assert_eq!(
        stay(std::slice::from_ref(&b), &[forever, long.clone()]),
        Stay::Forever,
        "the first that tolerates is used"
    );
    assert_eq!(stay(&[b], &[toleration("b", "Exists", "", "", Some(-5)), long]), Stay::Seconds(0));
}

#[test]
fn taints_and_tolerations_decide_about_a_pod() {
    let now = Env::machine().monotonic();
    let after = |seconds| now + Duration::from_secs(seconds);
    let sentence = |phase| Sentence { uid: "a".to_owned(), phase };
    let at = |seconds| Some(sentence(Phase::At(after(seconds))));
    let past = now.checked_sub(Duration::from_secs(5)).unwrap();
    let (told, done) = (Some(sentence(Phase::Told)), Some(sentence(Phase::Done)));
    let wait = |seconds| Then::Wait(Duration::from_secs(seconds));
    let (forever, no, ten) = (Stay::Forever, Stay::No, Stay::Seconds(10));
    for (name, before, pod, wanted) in [
        ("nothing was decided, nothing is", None, Some(("a", forever)), (false, None, Then::Nothing)),
        ("a pod that is not tolerated goes at once", None, Some(("a", no)), (false, at(0), Then::Evict)),
        ("one that tolerates goes later", None, Some(("a", ten)), (false, at(10), wait(10))),
        ("what was decided first stands", at(3), Some(("a", ten)), (false, at(3), wait(3))),
        ("unless nothing is tolerated any more", at(3), Some(("a", no)), (true, at(0), Then::Evict)),
        ("a taint that went pardons", at(3), Some(("a", forever)), (true, None, Then::Nothing)),
        (
            "its time has come",
            Some(sentence(Phase::At(past))),
            Some(("a", ten)),
            (false, Some(sentence(Phase::At(past))), Then::Evict),
        ),
        (
            "a deletion that failed is tried again",
            told.clone(),
            Some(("a", ten)),
            (false, told.clone(), Then::Evict),
        ),
        ("a pod that goes is let go", done.clone(), Some(("a", no)), (false, done.clone(), Then::Nothing)),
        (
            "a pardon after the deletion says nothing",
            done,
            Some(("a", forever)),
            (false, None, Then::Nothing),
        ),
        ("a pod that is gone before its time", at(3), None, (true, None, Then::Nothing)),
        ("a pod that is gone as decided", told.clone(), None, (false, None, Then::Nothing)),
        ("another of that name starts clean", at(3), Some(("b", forever)), (true, None, Then::Nothing)),
        (
            "another after one that was told",
            told,
            Some(("b", ten)),
            (false, Some(Sentence { uid: "b".to_owned(), phase: Phase::At(after(10)) }), wait(10)),
        ),
    ] {
        let (cancelled, sentence, then) = wanted;
        assert_eq!(judge(before.as_ref(), pod, now), Judgement { cancelled, sentence, then }, "{name}");
    }
    let endless = judge(None, Some(("a", Stay::Seconds(i64::MAX))), now);
    assert_eq!(endless.then, wait(u64::from(u32::MAX)), "clocks cannot count for ever");
}

#[test]
fn a_deleted_node_cancels_no_eviction() {
    let none = Vec::new;
    assert_eq!(allowed(None, none, false, true), Stay::Forever);
    assert_eq!(allowed(None, none, true, true), Stay::Forever, "its taints went");
    assert_eq!(allowed(None, none, false, false), Stay::Forever);
    assert_eq!(allowed(None, none, true, false), Stay::Seconds(0));
    assert_eq!(allowed(Some(&[taint("a", "")]), none, false, true), Stay::No);
}

#[test]
fn an_evicted_pod_gets_one_condition() {
    let pod = |conditions: &str| {
        let text = format!(
            r#"{{"metadata":{{"uid":"u","generation":2}},"status":{{"conditions":[{conditions}]}}}}"#
        );
        codec::json::parse(text.as_bytes(), None).unwrap()
    };
    let said = |pod: &Value| {
        let patch = mark(pod, "now")?;
        let condition = patch.at(&["status", "conditions"]).and_then(Value::as_list).unwrap()[0].clone();
        assert_eq!(patch.str_at(&["metadata", "uid"]), Some("u"));
        assert_eq!(condition.at(&["observedGeneration"]).and_then(Value::as_int), Some(2));
        assert_eq!(condition.str_at(&["reason"]), Some("DeletionByTaintManager"));
        Some(condition.str_at(&["lastTransitionTime"]).map(str::to_owned))
    };
    assert_eq!(said(&pod("")), Some(Some("now".to_owned())));
    let other = r#"{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"}"#;
    assert_eq!(said(&pod(other)), Some(None), "it was a target before");
    let ours = r#"{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager"}"#;
    assert_eq!(said(&pod(ours)), None);
}
