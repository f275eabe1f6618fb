//! Which pods keep a claim.

use object::Value;

use super::plan::{Claim, frees_claims, uses};

fn pod(node: &str, metadata: &str, volume: &str, status: &str) -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"p","uid":"u1"{metadata}}},"spec":{{"nodeName":"{node}","volumes":[{{"name":"x","emptyDir":{{}}}},{volume}]}},"status":{{{status}}}}}"#
    );
    codec::json::parse(text.as_bytes(), None).unwrap()
}

const NAMED: &str = r#"{"name":"v","persistentVolumeClaim":{"claimName":"data"}}"#;
const EPHEMERAL: &str = r#"{"name":"v","ephemeral":{"volumeClaimTemplate":{}}}"#;
const DATA: Claim<'static> = Claim { name: "data", owner: None };

#[test]
fn a_pod_on_a_node_uses_its_claims_even_when_it_is_over() {
    assert!(uses(&pod("n", "", NAMED, ""), &DATA));
    assert!(uses(&pod("n", "", NAMED, r#""phase":"Succeeded""#), &DATA));
    assert!(!uses(&pod("", "", NAMED, ""), &DATA), "nobody will start it");
    assert!(!uses(&pod("n", "", NAMED, ""), &Claim { name: "other", owner: None }));
}

#[test]
fn an_ephemeral_volume_uses_only_the_claim_made_for_its_pod() {
    let own = Claim { name: "p-v", owner: Some("u1") };
    assert!(uses(&pod("n", "", EPHEMERAL, ""), &own));
    for owner in [None, Some("u2")] {
        assert!(!uses(&pod("n", "", EPHEMERAL, ""), &Claim { name: "p-v", owner }), "{owner:?}");
    }
    let deleted = r#","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":"#;
    assert!(uses(&pod("n", &format!("{deleted}30"), EPHEMERAL, ""), &own));
    assert!(!uses(&pod("n", &format!("{deleted}0"), EPHEMERAL, ""), &own), "the node is done with it");
    assert!(uses(&pod("n", &format!("{deleted}0"), NAMED, ""), &DATA), "a claim of its own waits");
}

#[test]
fn claims_are_looked_at_when_a_pod_ends_or_never_had_a_node() {
    let deleted = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
    let container =
        |state: &str| format!(r#""phase":"Running","containerStatuses":[{{"state":{{"{state}":{{}}}}}}]"#);
    assert!(frees_claims(&pod("", "", NAMED, "")));
    assert!(frees_claims(&pod("n", "", NAMED, r#""phase":"Failed""#)));
    assert!(frees_claims(&pod("n", deleted, NAMED, &container("terminated"))));
    assert!(!frees_claims(&pod("n", deleted, NAMED, &container("running"))));
    assert!(!frees_claims(&pod("n", "", NAMED, &container("waiting"))));
}
