//! What the server makes of a new pod.

use catalog::Catalog;
use object::{DeleteOptions, Value, patch};

use crate::samples::{minimal, ready};
use crate::tests::{NOW, json, storage, text};
use crate::{Context, kind_of, prepare_update};

fn created(change: &str) -> Value {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "pods");
    let mut pod = minimal(storage);
    patch::merge::apply(&mut pod, json(change)).unwrap();
    ready(&catalog, storage, pod)
}

fn at(pod: &Value, path: &[&str]) -> String {
    pod.at(path).map(text).unwrap_or_default()
}

#[test]
fn label_keys_become_requirements_of_a_new_pod() {
    let deep = "requiredDuringSchedulingIgnoredDuringExecution";
    let soft = "preferredDuringSchedulingIgnoredDuringExecution";
    let term = r#"{"topologyKey":"k","labelSelector":{"matchLabels":{"app":"x"}},"matchLabelKeys":["a","absent"],"mismatchLabelKeys":["b"]}"#;
    let blind = r#"{"topologyKey":"k","matchLabelKeys":["a"]}"#;
    let pod = created(&format!(
        r#"{{"metadata":{{"labels":{{"a":"1","b":"2"}}}},"spec":{{"affinity":{{"podAffinity":{{"{deep}":[{term},{blind}]}},
            "podAntiAffinity":{{"{soft}":[{{"weight":1,"podAffinityTerm":{term}}}]}}}},
            "topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule","labelSelector":{{}},"matchLabelKeys":["b"]}}]}}}}"#
    ));
    let merged = r#"{"matchLabels":{"app":"x"},"matchExpressions":[{"key":"a","operator":"In","values":["1"]},{"key":"b","operator":"NotIn","values":["2"]}]}"#;
    let terms = pod.at(&["spec", "affinity", "podAffinity", deep]).unwrap().as_list().unwrap();
    assert_eq!(at(&terms[0], &["labelSelector"]), merged);
    assert_eq!(at(&terms[1], &["labelSelector"]), "", "no selector selects nothing, and stays so");
    let terms = pod.at(&["spec", "affinity", "podAntiAffinity", soft]).unwrap().as_list().unwrap();
    assert_eq!(at(&terms[0], &["podAffinityTerm", "labelSelector"]), merged);
    let spread = pod.at(&["spec", "topologySpreadConstraints"]).unwrap().as_list().unwrap();
    let merged = r#"{"matchExpressions":[{"key":"b","operator":"In","values":["2"]}]}"#;
    assert_eq!(at(&spread[0], &["labelSelector"]), merged);
}

#[test]
fn annotations_of_apparmor_become_fields_of_a_new_pod() {
    let profile = |annotation: &str, spec: &str| {
        let pod = created(&format!(
            r#"{{"metadata":{{"annotations":{{"container.apparmor.security.beta.kubernetes.io/c":"{annotation}"}}}},"spec":{spec}}}"#
        ));
        let containers = pod.at(&["spec", "containers"]).unwrap().as_list().unwrap().to_vec();
        at(&containers[0], &["securityContext", "appArmorProfile"])
    };
    assert_eq!(profile("unconfined", "{}"), r#"{"type":"Unconfined"}"#);
    assert_eq!(profile("runtime/default", "{}"), r#"{"type":"RuntimeDefault"}"#);
    assert_eq!(profile("localhost/a", "{}"), r#"{"type":"Localhost","localhostProfile":"a"}"#);
    for nothing in ["", "localhost/", "localhost/ a"] {
        assert_eq!(profile(nothing, "{}"), "", "{nothing:?}");
    }
    let of_pod = r#"{"securityContext":{"appArmorProfile":{"type":"Unconfined"}}}"#;
    assert_eq!(profile("unconfined", of_pod), "", "the pod says it already");
    assert_eq!(profile("runtime/default", of_pod), r#"{"type":"RuntimeDefault"}"#);
    assert_eq!(profile("unconfined", r#"{"os":{"name":"windows"}}"#), "");
}

#[test]
fn a_new_pod_is_pending_with_qos_class_and_generation_one() {
    let pod = created("{}");
    assert_eq!(at(&pod, &["status"]), r#"{"phase":"Pending","qosClass":"BestEffort"}"#);
    assert_eq!(at(&pod, &["metadata", "generation"]), "1");
    let gated = created(r#"{"spec":{"schedulingGates":[{"name":"wait"}]},"status":{"phase":"Running"}}"#);
    let conditions = gated.at(&["status", "conditions"]).unwrap().as_list().unwrap();
    assert_eq!(conditions.len(), 1);
    let said = ["type", "status", "reason", "message"].map(|m| conditions[0].str_at(&[m]).unwrap());
    let message = "Scheduling is blocked due to non-empty scheduling gates";
    assert_eq!(said, ["PodScheduled", "False", "SchedulingGated", message]);
}

#[test]
fn a_resize_may_change_pod_level_resources() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "pods");
    let old = created(r#"{"spec":{"resources":{"requests":{"cpu":"1"}}}}"#);
    let mut new = old.clone();
    let change = json(
        r#"{"metadata":{"labels":{"a":"b"}},"spec":{"resources":{"requests":{"cpu":"2"}},"nodeName":"n"}}"#,
    );
    patch::merge::apply(&mut new, change).unwrap();
    let ctx = Context { subresource: Some("resize"), ..Context::plain(storage, NOW) };
    prepare_update(kind_of(storage), &mut new, &old, &ctx);
    assert_eq!(at(&new, &["spec", "resources", "requests"]), r#"{"cpu":"2"}"#);
    assert_eq!((at(&new, &["spec", "nodeName"]), at(&new, &["metadata", "labels"])), Default::default());
    assert_eq!(at(&new, &["metadata", "generation"]), "2");
}

#[test]
fn a_negative_grace_period_is_one_second() {
    let catalog = Catalog::builtin();
    let kind = kind_of(storage(&catalog, "pods"));
    let pod = created(r#"{"spec":{"terminationGracePeriodSeconds":-5,"nodeName":"n"}}"#);
    assert_eq!(kind.grace_seconds(&pod, &DeleteOptions::default()), Some(1));
}
