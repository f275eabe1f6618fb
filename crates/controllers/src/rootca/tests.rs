//! What the publisher does to a ConfigMap it finds.

use object::Value;

use super::plan::{Plan, plan};

const PEM: &str = "PEM";

fn map(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn described(map: &Value) -> &str {
    map.str_at(&["metadata", "annotations", "kubernetes.io/description"]).unwrap_or("")
}

#[test]
fn a_namespace_without_the_root_ca_gets_it() {
    let Plan::Create(made) = plan(None, PEM) else { panic!("it is made") };
    assert_eq!(made.str_at(&["metadata", "name"]), Some("kube-root-ca.crt"));
    assert_eq!(made.str_at(&["data", "ca.crt"]), Some(PEM));
    assert!(described(&made).starts_with("Contains a CA bundle"));
    assert_eq!(plan(Some(made), PEM), Plan::Nothing);
}

#[test]
fn other_data_is_removed_and_other_annotations_stay() {
    for data in [r#"{"ca.crt":"old"}"#, r#"{"ca.crt":"PEM","more":"x"}"#, "{}"] {
        let there = map(&format!(
            r#"{{"metadata":{{"resourceVersion":"7","annotations":{{"mine":"y"}}}},"data":{data}}}"#
        ));
        let Plan::Update(mended) = plan(Some(there), PEM) else { panic!("{data} is mended") };
        assert_eq!(mended.get("data"), Some(&map(r#"{"ca.crt":"PEM"}"#)));
        assert_eq!(mended.str_at(&["metadata", "annotations", "mine"]), Some("y"));
        assert_eq!(mended.str_at(&["metadata", "resourceVersion"]), Some("7"), "a conflict if it is old");
        assert!(!described(&mended).is_empty());
    }
}

#[test]
fn a_custom_description_stays() {
    let there =
        r#"{"metadata":{"annotations":{"kubernetes.io/description":"ours"}},"data":{"ca.crt":"PEM"}}"#;
    assert_eq!(plan(Some(map(there)), PEM), Plan::Nothing);
    let undescribed = r#"{"metadata":{},"data":{"ca.crt":"PEM"}}"#;
    assert!(matches!(plan(Some(map(undescribed)), PEM), Plan::Update(_)));
}
