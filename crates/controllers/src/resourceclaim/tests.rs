//! Which claims are made, and when one is released.

use object::Value;

use super::plan::{
    Cleanup, Named, claims_of, cleanup, from_template, is_done, named, reserved_for, statuses,
};

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn pod(status: &str) -> Value {
    json(&format!(
        r#"{{"metadata":{{"name":"p","namespace":"ns","uid":"u"}},"spec":{{"resourceClaims":[
        {{"name":"own","resourceClaimTemplateName":"t"}},{{"name":"shared","resourceClaimName":"s"}}]}},
        "status":{{{status}}}}}"#
    ))
}

#[test]
fn an_entry_names_its_claim_itself_or_in_the_status() {
    let of = |pod: &Value, at: usize| -> String {
        let entry = &super::plan::entries(pod)[at];
        match named(pod, entry) {
            Named::Claim { name, owned } => format!("{name} {owned}"),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(of(&pod(""), 0), "NotYet");
    assert_eq!(of(&pod(""), 1), "s false");
    let made = pod(r#""resourceClaimStatuses":[{"name":"own","resourceClaimName":"p-own-x"}]"#);
    assert_eq!(of(&made, 0), "p-own-x true");
    assert_eq!(of(&pod(r#""resourceClaimStatuses":[{"name":"own"}]"#), 0), "NotNeeded");
    let extended = r#""extendedResourceClaimStatus":{"resourceClaimName":"e"}"#;
    assert_eq!(claims_of(&pod(extended)), ["s", "e"]);
}

#[test]
fn a_claim_is_made_from_its_template_for_its_pod() {
    let template = json(
        r#"{"spec":{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},
        "spec":{"devices":{"requests":[{"name":"r"}]}}}}"#,
    );
    let wanted = json(
        r#"{"metadata":{"generateName":"p-own-","namespace":"ns","labels":{"a":"b"},
        "annotations":{"c":"d","resource.kubernetes.io/pod-claim-name":"own"},
        "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}]},
        "spec":{"devices":{"requests":[{"name":"r"}]}}}"#,
    );
    assert!(kinds::same(Some(&from_template(&pod(""), "own", &template)), Some(&wanted)));
    // Of both names as much as there is room for.
    let mut long = pod("");
    long.map_at(&["metadata"]).set("name", "p".repeat(60));
    let made = from_template(&long, &"c".repeat(20), &template);
    let name = made.str_at(&["metadata", "generateName"]).unwrap();
    assert_eq!(name, format!("{}-{}", "p".repeat(41), "c".repeat(13)));
}

#[test]
fn a_pods_status_keeps_the_claims_it_has() {
    let has = pod(r#""resourceClaimStatuses":[{"name":"own","resourceClaimName":"x"}]"#);
    let wanted = json(r#"{"status":{"resourceClaimStatuses":[{"name":"own","resourceClaimName":"y"}]}}"#);
    assert_eq!(statuses(&has, &[("own".to_owned(), "y".to_owned())]), wanted);
}

#[test]
fn a_pod_is_done_when_it_will_not_run() {
    assert!(is_done(&pod(r#""phase":"Succeeded""#)));
    assert!(!is_done(&pod(r#""phase":"Running""#)));
    let mut going = pod("");
    going.map_at(&["metadata"]).set("deletionTimestamp", "2026-01-01T00:00:00Z");
    assert!(is_done(&going));
    going.map_at(&["spec"]).set("nodeName", "n");
    assert!(!is_done(&going), "its containers may run");
}

#[test]
fn a_claim_nobody_uses_is_not_allocated_and_can_go() {
    let finalizer = r#""finalizers":["resource.kubernetes.io/delete-protection"]"#;
    let claim = |metadata: &str, status: &str| {
        json(&format!(r#"{{"metadata":{{{metadata}}},"status":{{{status}}}}}"#))
    };
    let used = r#""allocation":{"devices":{}},"reservedFor":[{"resource":"pods","uid":"u"},{"resource":"pods","uid":"v"}]"#;
    let one = json(r#"{"resource":"pods","uid":"v"}"#);
    let both = claim(finalizer, used);
    let kept = cleanup(&both, vec![one.clone()]);
    let wanted = r#""allocation":{"devices":{}},"reservedFor":[{"resource":"pods","uid":"v"}]"#;
    assert_eq!(kept, Cleanup::Release(claim(finalizer, wanted)));
    assert_eq!(cleanup(&both, Vec::new()), Cleanup::Release(claim(finalizer, "")));
    // Allocated and never used is nobody's business, unless it is being deleted.
    let unused = r#""allocation":{"devices":{}}"#;
    assert_eq!(cleanup(&claim(finalizer, unused), Vec::new()), Cleanup::Nothing);
    let going = format!(r#"{finalizer},"deletionTimestamp":"2026-01-01T00:00:00Z""#);
    assert_eq!(cleanup(&claim(&going, unused), Vec::new()), Cleanup::Release(claim(&going, "")));
    let Cleanup::LetGo(free) = cleanup(&claim(&going, ""), Vec::new()) else { panic!("only the finalizer") };
    assert_eq!(free.at(&["metadata", "finalizers"]).and_then(Value::as_list).map(<[Value]>::len), Some(0));
}

#[test]
fn an_allocated_claim_is_reserved_for_a_pod_that_runs_already() {
    let claim = |status: &str| json(&format!(r#"{{"status":{{{status}}}}}"#));
    assert_eq!(reserved_for(&claim(""), &pod("")), None, "the scheduler allocates");
    let allocated = r#""allocation":{"devices":{}}"#;
    let reserved = reserved_for(&claim(allocated), &pod("")).unwrap();
    let wanted = format!(r#"{allocated},"reservedFor":[{{"resource":"pods","name":"p","uid":"u"}}]"#);
    assert_eq!(reserved, claim(&wanted));
    assert_eq!(reserved_for(&reserved, &pod("")), None);
}
