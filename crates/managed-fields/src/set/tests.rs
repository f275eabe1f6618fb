use super::*;

fn set(json: &str) -> Set {
    Set::parse(json.as_bytes()).unwrap()
}

#[test]
fn fields_read_and_write_the_same() {
    for json in [
        "{}",
        r#"{"f:a":{}}"#,
        r#"{"f:a":{".":{},"f:b":{}},"k:{\"name\":\"x\"}":{"f:image":{}},"v:\"y\"":{},"i:3":{}}"#,
        r#"{"f:metadata":{"f:annotations":{"f:a/b<c":{}},"f:finalizers":{".":{},"v:\"a\\u003cb\"":{}}}}"#,
    ] {
        assert_eq!(set(json).to_json(), json);
        let raw = set(json).to_raw();
        assert_eq!(Set::from_fields(&codec::json::expanded(&raw)).unwrap(), set(json));
        // Names that Go escapes for HTML are read the long way, and written anew.
        assert_eq!(Set::read_text(&raw).unwrap(), (set(json), !raw.contains("\\u")));
    }
}

#[test]
fn order_and_repetition_do_not_matter() {
    assert_eq!(
        set(r#"{"i:1":{},"f:b":{},"f:a":{"f:c":{}},"f:a":{}}"#).to_json(),
        r#"{"f:a":{".":{},"f:c":{}},"f:b":{},"i:1":{}}"#
    );
    assert_eq!(set(r#"{"x:1":5,"f:a":null}"#).to_json(), r#"{"f:a":{}}"#);
}

#[test]
fn wrong_fields_are_errors() {
    for json in [
        "5",
        r#"{"f:a":5}"#,
        r#"{"f":{}}"#,
        r#"{"i:x":{}}"#,
        r#"{"v:":{}}"#,
        r#"{"k:[]":{}}"#,
        r#"{"abc":{}}"#,
        "{",
    ] {
        assert!(Set::parse(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn differences_share_what_they_leave() {
    let all = set(r#"{"f:a":{"f:b":{},"f:c":{}},"f:d":{}}"#);
    assert!(all.difference(&set(r#"{"f:a":{}}"#)).is_same(&all));
    assert_eq!(all.recursive_difference(&set(r#"{"f:a":{}}"#)).to_json(), r#"{"f:d":{}}"#);
    assert_eq!(all.difference(&set(r#"{"f:a":{"f:b":{}}}"#)).to_json(), r#"{"f:a":{"f:c":{}},"f:d":{}}"#);
}

#[test]
fn the_deepest_fields_are_bounded_by_the_reader() {
    let depth = 9_000;
    let json = format!("{}{}", r#"{"f:a":"#.repeat(depth), "{}".to_owned() + &"}".repeat(depth));
    let deep = set(&json);
    assert_eq!(deep.len(), 1);
    assert_eq!(deep.union(&set(r#"{"f:b":{}}"#)).len(), 2);
    assert_eq!(deep.difference(&deep).len(), 0);
    assert_eq!(deep.to_json(), json);
}
