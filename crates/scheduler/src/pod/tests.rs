use super::*;
use crate::testing::{pod, tree};

fn requests(json: &str) -> Vec<(String, i64)> {
    let parsed = Templates::default().parse(&tree(json));
    parsed.class.spec.requests.iter().map(|(n, a)| (n.to_string(), *a)).collect()
}

#[test]
fn pods_of_one_template_share_a_class_and_others_do_not() {
    let mut templates = Templates::default();
    let a = templates.parse(&pod("a", r#""app":"web""#, r#""cpu":"1""#, ""));
    let b = templates.parse(&pod("b", r#""app":"web""#, r#""cpu":"1000m""#, ""));
    let c = templates.parse(&pod("c", r#""app":"db""#, r#""cpu":"1""#, ""));
    let d = templates.parse(&pod("d", r#""app":"web""#, r#""cpu":"2""#, ""));
    assert_eq!(a.class.id, b.class.id);
    assert_ne!(a.class.id, c.class.id);
    assert_eq!(a.class.spec.id, c.class.spec.id);
    assert_ne!(a.class.spec.id, d.class.spec.id);
}

#[test]
fn init_containers_count_at_their_peak_and_sidecars_for_all_time() {
    let json = r#"{"metadata":{},"spec":{
        "containers":[{"resources":{"requests":{"cpu":"1","memory":"100"}}}],
        "initContainers":[
            {"resources":{"requests":{"cpu":"3"}}},
            {"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},
            {"resources":{"requests":{"cpu":"2500m","memory":"50"}}}],
        "overhead":{"cpu":"100m"}}}"#;
    // The last init container runs beside the sidecar: 2.5 + 1; the others need 3 and 1 + 1.
    assert_eq!(requests(json), [("cpu".to_owned(), 3600), ("memory".to_owned(), 100)]);
}

#[test]
fn requests_of_the_pod_replace_those_of_its_containers() {
    let json = r#"{"metadata":{},"spec":{"resources":{"requests":{"cpu":"500m"}},
        "containers":[{"resources":{"requests":{"cpu":"2","example.com/gpu":"1"}}}]}}"#;
    assert_eq!(requests(json), [("cpu".to_owned(), 500), ("example.com/gpu".to_owned(), 1)]);
}

#[test]
fn containers_without_requests_count_for_a_minimum_in_scores() {
    let pod = Templates::default().parse(&pod("a", "", r#""memory":"1Gi""#, ""));
    assert_eq!(pod.class.spec.at_least, [100, 1 << 30]);
    assert_eq!(pod.class.spec.request("cpu"), 0);
}

#[test]
fn a_container_that_is_resized_holds_the_larger_amount() {
    let json = r#"{"metadata":{},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},
        "status":{"containerStatuses":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}"#;
    assert_eq!(requests(json), [("cpu".to_owned(), 2000)]);
}
