//! Claims that want more than they have.

use kinds::persistentvolumeclaim::view::ClaimView;
use object::Value;

use super::plan::{ClaimId, Plan, grew};

fn plan(claim: &ClaimView, volume: &Value) -> Plan {
    super::plan::plan(ClaimId { namespace: "default", uid: "u1" }, claim, volume)
}

fn claim(request: &str, capacity: &str) -> ClaimView {
    let text = format!(
        "{{spec: {{resources: {{requests: {{storage: {request}}}}}}}, \
         status: {{capacity: {{storage: {capacity}}}}}}}"
    );
    ClaimView::read(&codec::yaml::parse(text.as_bytes()).unwrap())
}

fn volume(more: &str) -> Value {
    codec::yaml::parse(format!("{{metadata: {{}}, spec: {{{more}}}}}").as_bytes()).unwrap()
}

#[test]
fn a_claim_that_wants_more_waits_for_others() {
    let bound = volume("claimRef: {namespace: default, name: c, uid: u1}");
    assert_eq!(plan(&claim("1Gi", "1Gi"), &bound), Plan::Nothing);
    assert_eq!(plan(&claim("1Gi", "2Gi"), &bound), Plan::Nothing);
    assert_eq!(plan(&claim("2Gi", "1Gi"), &bound), Plan::AwaitOthers);
    let mut growing = bound;
    growing.map_at(&["metadata", "annotations"]).set("volume.alpha.kubernetes.io/pre-resize-capacity", "1Gi");
    assert_eq!(plan(&claim("1Gi", "1Gi"), &growing), Plan::AwaitOthers);
    for other in ["", "claimRef: {namespace: other, uid: u1}", "claimRef: {namespace: default, uid: u2}"] {
        assert_eq!(plan(&claim("2Gi", "1Gi"), &volume(other)), Plan::NotBound, "{other}");
    }
}

#[test]
fn only_growth_is_looked_at() {
    assert!(grew(&claim("1Gi", "1Gi"), &claim("2Gi", "1Gi")));
    assert!(grew(&claim("2Gi", "1Gi"), &claim("2Gi", "2Gi")));
    assert!(!grew(&claim("2Gi", "2Gi"), &claim("1Gi", "2Gi")));
    assert!(!grew(&claim("1Gi", "1Gi"), &claim("1024Mi", "1Gi")));
}
