use super::*;

fn json(bytes: &[u8]) -> Value {
    codec::json::parse(bytes, None).expect("JSON")
}

fn text_of(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).expect("UTF-8")
}

/// What a live kube-apiserver publishes for the same schema, byte for byte.
#[test]
fn schemas_are_published_as_upstream_publishes_them() {
    let schema = json(include_bytes!("../../tests/data/openapi/schema.json"));
    for (version, expected) in [
        (Version::V3, &include_bytes!("../../tests/data/openapi/v3.json")[..]),
        (Version::V2, &include_bytes!("../../tests/data/openapi/v2.json")[..]),
    ] {
        let got = publish(Some(&schema), version, false);
        assert_eq!(text_of(&got), text_of(&json(expected)), "{version:?}");
    }
}

#[test]
fn what_preserves_unknown_fields_is_any_object_to_v2() {
    let schema = json(br#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}"#);
    assert_eq!(text_of(&publish(Some(&schema), Version::V2, false)), r#"{"type":"object"}"#);
    assert_eq!(text_of(&publish(None, Version::V3, false)), r#"{"type":"object"}"#);
    assert!(publish(Some(&schema), Version::V3, false).at(&["properties", "a"]).is_some());
}
