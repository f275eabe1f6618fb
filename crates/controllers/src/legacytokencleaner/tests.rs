use object::Value;

use super::plan::{INVALID_SINCE, LAST_USED, Step, Times, step, unused};

const DAY: i64 = 24 * 3600;
const YEAR: i64 = 365 * DAY;
/// 2026-01-01T00:00:00Z.
const NOW: i64 = 1_767_225_600;

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn times() -> Times {
    Times::new(&json(r#"{"data":{"since":"2020-01-01"}}"#), NOW, YEAR).expect("tracked for long")
}

fn secret(created: &str, labels: &[(&'static str, &str)]) -> Value {
    let mut secret = json(
        r#"{"metadata":{"name":"t","uid":"u","annotations":{"kubernetes.io/service-account.name":"robot"}}}"#,
    );
    secret.map_at(&["metadata"]).set("creationTimestamp", created.to_owned());
    for (name, text) in labels {
        secret.map_at(&["metadata", "labels"]).set(*name, (*text).to_owned());
    }
    secret
}

#[test]
fn nothing_is_done_before_uses_were_tracked_for_a_whole_period() {
    let since = |day: &str| {
        let mut map = Value::map();
        map.map_at(&["data"]).set("since", day.to_owned());
        Times::new(&map, NOW, YEAR).is_some()
    };
    assert!(!since("2025-01-01"), "the first day counts in full only when it is over");
    assert!(since("2024-12-31"));
    assert!(!since("yesterday"));
    assert!(Times::new(&Value::map(), NOW, YEAR).is_none());
}

#[test]
fn a_token_is_unused_when_neither_created_nor_used_within_the_period() {
    let is_unused = |secret: Value| unused(&secret, &times()).is_some();
    let old = "2024-01-01T00:00:00Z";
    assert!(is_unused(secret(old, &[])));
    assert!(!is_unused(secret("2025-06-01T00:00:00Z", &[])));
    assert!(!is_unused(secret(old, &[(LAST_USED, "2025-01-01")])));
    assert!(is_unused(secret(old, &[(LAST_USED, "2024-12-31")])));
    assert!(!is_unused(secret(old, &[(LAST_USED, "soon")])), "nobody knows when it was used");
    let mut nobodys = secret(old, &[]);
    nobodys.map_at(&["metadata"]).remove("annotations");
    assert!(!is_unused(nobodys));
}

#[test]
fn an_unused_token_is_marked_invalid_and_deleted_a_period_later() {
    let with = |since: &str| step(&secret("2024-01-01T00:00:00Z", &[(INVALID_SINCE, since)]), &times());
    let Step::Invalidate(patch) = with("") else { panic!("it is marked first") };
    assert_eq!(patch.str_at(&["metadata", "labels", INVALID_SINCE]), Some("2026-01-01"));
    assert_eq!(patch.str_at(&["metadata", "uid"]), Some("u"), "no other of its name");
    assert!(matches!(with("whenever"), Step::Invalidate(_)));
    assert_eq!(with("2025-01-01"), Step::Keep);
    assert_eq!(with("2024-12-31"), Step::Delete);
}

#[test]
fn a_pods_secrets_are_found_wherever_it_names_them() {
    let pod = json(
        r#"{"spec":{"imagePullSecrets":[{"name":"a"}],
        "containers":[{"envFrom":[{"secretRef":{"name":"b"}}],"env":[{"valueFrom":{"secretKeyRef":{"name":"c"}}}]}],
        "initContainers":[{"env":[{"name":"x","value":"y"}]}],
        "volumes":[{"secret":{"secretName":"d"}},{"projected":{"sources":[{"secret":{"name":"e"}},{"configMap":{"name":"no"}}]}},
            {"csi":{"nodePublishSecretRef":{"name":"f"}}},{"emptyDir":{}}]}}"#,
    );
    assert_eq!(auth::node::secrets_of(&pod).collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "f"]);
}
