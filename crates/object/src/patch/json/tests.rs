use super::super::testing::{json, show};
use super::*;

fn patched(doc: &str, patch: &str) -> Result<String, Status> {
    let mut doc = json(doc);
    JsonPatch::parse(json(patch))?.apply(&mut doc)?;
    Ok(show(&doc))
}

#[test]
fn operations_apply() {
    for (doc, patch, want) in [
        (r#"{"a":1}"#, r#"[]"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"null"#, r#"{"a":1}"#),
        (r#"{}"#, r#"[{"op":"add","path":"/a","value":1}]"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/a","value":2}]"#, r#"{"a":2}"#),
        (r#"{}"#, r#"[{"op":"add","path":"/a"}]"#, r#"{"a":null}"#),
        (r#"{}"#, r#"[{"op":"add","path":"/","value":1}]"#, r#"{"":1}"#),
        (r#"{"l":[1,2]}"#, r#"[{"op":"add","path":"/l/0","value":0}]"#, r#"{"l":[0,1,2]}"#),
        (r#"{"l":[1,2]}"#, r#"[{"op":"add","path":"/l/2","value":3}]"#, r#"{"l":[1,2,3]}"#),
        (r#"{"l":[1,2]}"#, r#"[{"op":"add","path":"/l/-","value":3}]"#, r#"{"l":[1,2,3]}"#),
        (r#"{"l":[1,2]}"#, r#"[{"op":"add","path":"/l/-1","value":3}]"#, r#"{"l":[1,2,3]}"#),
        (r#"{"l":[1,2]}"#, r#"[{"op":"add","path":"/l/-3","value":3}]"#, r#"{"l":[3,1,2]}"#),
        (r#"{"a":{"b":1,"c":2}}"#, r#"[{"op":"remove","path":"/a/b"}]"#, r#"{"a":{"c":2}}"#),
        (r#"{"l":[1,2,3]}"#, r#"[{"op":"remove","path":"/l/1"}]"#, r#"{"l":[1,3]}"#),
        (r#"{"l":[1,2,3]}"#, r#"[{"op":"remove","path":"/l/-1"}]"#, r#"{"l":[1,2]}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":{"x":null}}]"#, r#"{"a":{"x":null}}"#),
        (r#"{}"#, r#"[{"op":"replace","path":"/a","value":1}]"#, r#"{"a":1}"#),
        (r#"{"l":[1,2]}"#, r#"[{"op":"replace","path":"/l/1","value":9}]"#, r#"{"l":[1,9]}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"b":2}}]"#, r#"{"b":2}"#),
        (
            r#"{"a":1}"#,
            r#"[{"op":"replace","path":"","value":[1]},{"op":"add","path":"/0","value":0}]"#,
            r#"[0,1]"#,
        ),
        (r#"{"a":1,"b":{}}"#, r#"[{"op":"move","from":"/a","path":"/b/c"}]"#, r#"{"b":{"c":1}}"#),
        (r#"{"l":[1,2,3]}"#, r#"[{"op":"move","from":"/l/0","path":"/l/2"}]"#, r#"{"l":[2,3,1]}"#),
        (r#"{"a":{"x":1}}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, r#"{"a":{"x":1},"b":{"x":1}}"#),
        (r#"{}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, r#"{"b":null}"#),
        (
            r#"{"a/b":1,"m~n":2}"#,
            r#"[{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/m~0n"}]"#,
            r#"{}"#,
        ),
        (r#"{}"#, r#"[{"op":"add","path":"/~01","value":1}]"#, r#"{"~1":1}"#),
        (r#"{"a":1}"#, r#"[{"op":"remove","path":"ignored/a"}]"#, r#"{}"#),
        (
            r#"{"a":{"x":1,"y":[1]}}"#,
            r#"[{"op":"test","path":"/a","value":{"y":[1],"x":1}}]"#,
            r#"{"a":{"x":1,"y":[1]}}"#,
        ),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"","value":{"a":1}}]"#, r#"{"a":1}"#),
        (r#"{}"#, r#"[{"op":"test","path":"/a","value":null}]"#, r#"{}"#),
        (r#"{}"#, r#"[{"op":"test","path":"/a"}]"#, r#"{}"#),
        (r#"{"a":null}"#, r#"[{"op":"test","path":"/a","value":null}]"#, r#"{"a":null}"#),
        // Of members given twice the last counts.
        (r#"{}"#, r#"[{"op":"add","path":"/a","path":"/b","value":1}]"#, r#"{"b":1}"#),
    ] {
        assert_eq!(patched(doc, patch).as_deref(), Ok(show(&json(want)).as_str()), "{doc} {patch}");
    }
}

#[test]
fn operations_that_do_not_apply_are_unprocessable() {
    for (doc, patch) in [
        (r#"{}"#, r#"[{"op":"remove","path":"/a"}]"#),
        (r#"{}"#, r#"[{"op":"add","path":"/a/b","value":1}]"#),
        (r#"{"a":"x"}"#, r#"[{"op":"add","path":"/a/b","value":1}]"#),
        (r#"{"a":null}"#, r#"[{"op":"add","path":"/a/b","value":1}]"#),
        (r#"{}"#, r#"[{"op":"add","path":"","value":{}}]"#),
        (r#"{}"#, r#"[{"op":"add","path":"a","value":{}}]"#),
        (r#"{}"#, r#"[{"op":"add","value":{}}]"#),
        (r#"{}"#, r#"[{"op":"remove","path":""}]"#),
        (r#"{}"#, r#"[{"op":"replace","path":"","value":1}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"add","path":"/l/2","value":1}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"add","path":"/l/-3","value":1}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"add","path":"/l/x","value":1}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"replace","path":"/l/1","value":1}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"replace","path":"/l/-","value":1}]"#),
        (r#"{"l":[]}"#, r#"[{"op":"remove","path":"/l/0"}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"remove","path":"/l/-2"}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"test","path":"/l/1","value":null}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"remove","path":"/l/99999999999999999999"}]"#),
        (r#"{"l":[1]}"#, r#"[{"op":"remove","path":"/l/-9223372036854775808"}]"#),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":1.0}]"#),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":"1"}]"#),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a"}]"#),
        (r#"{"a":{}}"#, r#"[{"op":"move","from":"/a","path":"/a/b"}]"#),
        (r#"{}"#, r#"[{"op":"move","from":"/a","path":"/b"}]"#),
        (r#"{}"#, r#"[{"op":"move","path":"/b"}]"#),
        (r#"{}"#, r#"[{"op":"copy","from":"","path":"/b"}]"#),
        (r#"{}"#, r#"[{"op":"jump","path":"/b"}]"#),
        (r#"{}"#, r#"[{"path":"/b"}]"#),
        (r#"{}"#, r#"[null]"#),
    ] {
        assert_eq!(patched(doc, patch), Err(Status::unprocessable()), "{doc} {patch}");
    }
}

#[test]
fn an_invalid_patch_is_a_bad_request() {
    for (patch, words) in [
        (
            r#"{}"#,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            r#"["x"]"#,
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            r#"[{"op":1}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ] {
        assert_eq!(JsonPatch::parse(json(patch)).unwrap_err(), Status::bad_request(words));
    }
}

#[test]
fn more_than_ten_thousand_operations_are_too_many() {
    let one = json(r#"{"op":"test","path":"/a"}"#);
    assert!(JsonPatch::parse(Value::List(vec![one.clone(); MAX_OPERATIONS])).is_ok());
    let status = JsonPatch::parse(Value::List(vec![one; MAX_OPERATIONS + 1])).unwrap_err();
    assert_eq!(status.code, 413);
    let words =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(status.message, words);
}

#[test]
fn strict_validation_names_unknown_and_duplicate_members() {
    let patch =
        JsonPatch::parse(json(r#"[{"op":"add","op":"add","path":"/a","values":1,"value":{"x":1,"x":2}}]"#));
    assert_eq!(
        patch.unwrap().strict_errors(),
        [
            "json patch duplicate field \"[0].op\"",
            "json patch unknown field \"[0].values\"",
            "json patch duplicate field \"[0].value.x\""
        ]
    );
}

#[test]
fn copies_that_double_the_document_are_stopped() {
    let double = json(r#"{"op":"copy","from":"/a","path":"/a/-"}"#);
    let patch = JsonPatch::parse(Value::List(vec![double; 64])).unwrap();
    assert_eq!(patch.apply(&mut json(r#"{"a":["x"]}"#)), Err(Status::unprocessable()));
}

#[test]
fn copies_do_not_make_the_document_too_deep() {
    let deepen = json(r#"{"op":"copy","from":"/a","path":"/b/a"}"#);
    let swap = json(r#"{"op":"move","from":"/b","path":"/a"}"#);
    let fresh = json(r#"{"op":"add","path":"/b","value":{}}"#);
    let patch = JsonPatch::parse(Value::List([fresh, deepen, swap].into_iter().cycle().take(9999).collect()))
        .unwrap();
    assert_eq!(patch.apply(&mut json(r#"{"a":{}}"#)), Err(Status::unprocessable()));
}

#[test]
fn maps_on_a_path_are_written_by_name_and_others_as_they_came() {
    for (doc, patch, want) in [
        (
            r#"{"b":{"z":1,"y":2},"a":{"d":1,"c":2}}"#,
            r#"[{"op":"add","path":"/b/x","value":{"n":1,"m":2}}]"#,
            r#"{"a":{"d":1,"c":2},"b":{"x":{"n":1,"m":2},"y":2,"z":1}}"#,
        ),
        (r#"{"b":1,"a":2}"#, r#"[{"op":"test","path":"","value":{"a":2,"b":1}}]"#, r#"{"b":1,"a":2}"#),
        (r#"{"b":1,"a":2}"#, r#"[{"op":"test","path":"/b","value":1}]"#, r#"{"a":2,"b":1}"#),
        (r#"{"b":1}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, r#"{"a":2,"b":1}"#),
        // What was opened stays in order wherever it goes.
        (
            r#"{"b":{"z":1,"y":2}}"#,
            r#"[{"op":"add","path":"/b/x","value":0},{"op":"copy","from":"/b","path":"/c"},{"op":"move","from":"/b","path":"/a"}]"#,
            r#"{"a":{"x":0,"y":2,"z":1},"c":{"x":0,"y":2,"z":1}}"#,
        ),
    ] {
        let mut doc = json(doc);
        JsonPatch::parse(json(patch)).unwrap().apply(&mut doc).unwrap();
        assert_eq!(doc, json(want), "{patch}");
    }
}

/// Each operation looks at a few members, not at all of them: otherwise this takes minutes.
#[test]
fn the_longest_patch_of_a_very_large_map_applies() {
    let member = |i: usize| (Name::from(format!("{:06}", i * 7919 % 200_000)), Value::from("x"));
    let data: crate::Map = (0..100_000).map(member).collect();
    let mut doc = Value::Map([(Name::Static("data"), Value::Map(data))].into_iter().collect());
    let operations = (0..MAX_OPERATIONS).map(|i| {
        let mut op = crate::Map::default();
        op.set("op", ["add", "remove", "replace", "test"][i % 4]);
        op.set("path", format!("/data/{}", member(if i % 4 == 0 { 100_000 + i } else { i }).0));
        op.set("value", "x");
        Value::Map(op)
    });
    let patch = JsonPatch::parse(Value::List(operations.collect())).unwrap();
    patch.apply(&mut doc).unwrap();
    let data = doc.get("data").and_then(Value::as_map).unwrap();
    // As many were added as removed.
    assert_eq!(data.len(), 100_000);
    assert!(data.iter().is_sorted_by(|a, b| a.0 < b.0));
}

#[test]
fn operations_that_would_take_minutes_are_refused() {
    let long = format!("[{}0]", "0,".repeat(300_000));
    let add = format!(r#"{{"op":"add","path":"/x","value":{long}}}"#);
    let cases = [
        r#"{"op":"remove","path":"/x/0"}"#,
        r#"{"op":"add","path":"/x/0","value":0}"#,
        r#"{"op":"move","from":"/x","path":"/x"}"#,
    ];
    for operation in cases {
        let patch = |times: usize| format!("[{add}{}]", format!(",{operation}").repeat(times));
        assert!(patched("{}", &patch(10)).is_ok(), "{operation}");
        let refused = patched("{}", &patch(9_999)).unwrap_err();
        assert_eq!(refused.code, 413, "{operation}: {}", refused.message);
    }
    // Work of a size that somebody might ask for.
    let short = format!("[{}0]", "0,".repeat(9_000));
    let removals = r#",{"op":"remove","path":"/x/0"}"#.repeat(9_000);
    let patch = format!(r#"[{{"op":"add","path":"/x","value":{short}}}{removals}]"#);
    assert_eq!(patched("{}", &patch).unwrap(), r#"{"x":[0]}"#);
}
