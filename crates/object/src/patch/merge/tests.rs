use super::super::testing::{json, show};
use super::*;

#[test]
fn maps_merge_and_the_rest_is_replaced() {
    for (doc, patch, want) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null,"x":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c","d":1}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d","d":1}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        (r#"{}"#, r#"{"a":[null,{"b":null,"c":1}]}"#, r#"{"a":[null,{"c":1}]}"#),
        (r#"{"a":[1]}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{}]}"#),
        (r#"{"a":{"x":1}}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{"b":null}]}"#),
        (r#"{"a":null}"#, r#"{"a":{"b":null,"c":1}}"#, r#"{"a":{"c":1}}"#),
        (r#"{"a":1}"#, r#"{"b":1,"b":null}"#, r#"{"a":1}"#),
        (r#"{"a":1,"a":2}"#, r#"{"b":1}"#, r#"{"a":2,"b":1}"#),
    ] {
        let mut merged = json(doc);
        apply(&mut merged, json(patch)).unwrap();
        assert_eq!(show(&merged), show(&json(want)), "{doc} {patch}");
    }
}

#[test]
fn members_keep_their_order() {
    let mut doc = json(r#"{"b":1,"a":2,"c":3}"#);
    apply(&mut doc, json(r#"{"d":4,"a":9,"b":null}"#)).unwrap();
    assert_eq!(doc, json(r#"{"a":9,"c":3,"d":4}"#));
}

#[test]
fn patches_that_are_no_maps_are_bad_requests() {
    for (patch, words) in [
        ("null", "Invalid JSON Patch"),
        (
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "1",
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
    ] {
        assert_eq!(apply(&mut json("{}"), json(patch)), Err(Status::bad_request(words)));
    }
}

#[test]
fn a_large_patch_of_a_large_map_is_quick() {
    let many = |from: usize| {
        let members = (from..from + 100_000).map(|i| (format!("name-{i}").into(), Value::Int(1)));
        Value::Map(members.collect())
    };
    let mut doc = many(0);
    apply(&mut doc, many(50_000)).unwrap();
    assert_eq!(doc.as_map().unwrap().len(), 150_000);
}
