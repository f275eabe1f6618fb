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
