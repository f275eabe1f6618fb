use super::*;
use crate::testing::json;

fn slice(device: &str) -> Slice {
    Slice::parse(&json(&format!(
        r#"{{"metadata":{{"name":"s"}},"spec":{{"driver":"d","devices":[{{"name":"a",{device}}}]}}}}"#
    )))
}

const DEVICE: &str = r#""attributes":{"model":{"string":"x"},"other/index":{"int":3},"v":{"version":"1.2.3"},"ok":{"bool":true}},
    "capacity":{"mem":{"value":"4Gi"}},"allowMultipleAllocations":true"#;

fn ask(expression: &str, device: &str) -> Result<bool, String> {
    let compiled = Selectors::new().get(&expression.into()).map_err(|error| error.to_string())?;
    compiled.matches(&slice(device), 0)
}

#[test]
fn devices_are_seen_by_domain_and_name() {
    for expression in [
        "device.driver == 'd'",
        "device.attributes['d'].model == 'x'",
        "device.attributes['other'].index == 3",
        "device.attributes['d'].v.isGreaterThan(semver('1.2.0'))",
        "device.capacity['d'].mem.compareTo(quantity('4Gi')) == 0",
        "device.allowMultipleAllocations",
        "device.attributes['d'].ok",
        "cel.bind(d, device.attributes['d'], d.model == 'x' && d.ok)",
        "device.attributes.exists(domain, domain == 'other')",
        "size(device.attributes) == 2",
        "device.attributes['d'].?missing.orValue(7) == 7",
    ] {
        assert_eq!(ask(expression, DEVICE), Ok(true), "{expression}");
    }
}

#[test]
fn a_domain_that_is_not_there_is_empty() {
    assert_eq!(ask("has(device.attributes['none'].x)", DEVICE), Ok(false));
    assert_eq!(ask("device.attributes['none'] == {}", DEVICE), Ok(true));
    assert_eq!(ask("'none' in device.attributes", DEVICE), Ok(false));
    assert_eq!(ask("'d' in device.attributes && !('none' in device.capacity)", DEVICE), Ok(true));
    assert_eq!(ask("device.attributes['none'].x == 1", DEVICE), Err("no such key: x".to_owned()));
}

#[test]
fn what_is_no_bool_is_an_error_in_upstreams_words() {
    let cases = [
        (
            "device.attributes['d'].model",
            "string could not be converted to bool: unsupported native conversion from string to 'bool'",
        ),
        (
            "device.attributes['other'].index",
            "int could not be converted to bool: unsupported type conversion from 'int' to bool",
        ),
        (
            "device.attributes['d'].v",
            "kubernetes.Semver could not be converted to bool: type conversion error from 'Semver' to 'bool'",
        ),
    ];
    for (expression, words) in cases {
        assert_eq!(ask(expression, DEVICE), Err(format!("CEL result of type {words}")), "{expression}");
    }
    assert_eq!(ask("1 + 1", DEVICE), Err("must evaluate to bool or the unknown type, not int".to_owned()));
}

#[test]
fn attributes_nobody_knows_stop_all_selectors() {
    let unknown = r#""attributes":{"ok":{"bool":true},"x":{"strings":["a"]}}"#;
    assert_eq!(ask("true", unknown), Err("attribute x: unsupported attribute value".to_owned()));
    let version = r#""attributes":{"x":{"version":"1"}}"#;
    let words = "attribute x: parse semantic version: No Major.Minor.Patch elements found";
    assert_eq!(ask("true", version), Err(words.to_owned()));
}

#[test]
fn what_costs_too_much_is_cancelled() {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let nested = ["a", "b", "c", "d", "e"]
        .iter()
        .fold("true".to_owned(), |inner, name| format!("{list}.all({name}, {inner})"));
    let words = "operation cancelled: actual cost limit exceeded";
    assert_eq!(ask(&format!("{nested} && {nested} && {nested} && {nested}"), DEVICE), Err(words.to_owned()));
}

#[test]
fn answers_are_kept_with_the_slice() {
    let slice = slice(DEVICE);
    let selectors = Selectors::new();
    let expressions: Vec<(Arc<str>, bool)> =
        (0..40).map(|i| (format!("size(device.driver) < {i}").into(), i > 1)).collect();
    for (expression, wanted) in expressions.iter().chain(&expressions) {
        let compiled = selectors.get(expression).unwrap();
        assert_eq!(compiled.matches(&slice, 0), Ok(*wanted));
        assert_eq!(slice.verdicts.get(compiled.id, 0), Some(*wanted));
    }
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let selectors = Selectors::new();
    let used: Arc<str> = "true".into();
    let first = selectors.get(&used).unwrap();
    for i in 0..2 * MAX_EXPRESSIONS {
        selectors.get(&format!("{i} == 0").into()).unwrap();
        selectors.get(&used).unwrap();
    }
    assert!(Arc::ptr_eq(&first, &selectors.get(&used).unwrap()));
    assert_eq!(selectors.cache.lock().entries.len(), MAX_EXPRESSIONS);
}
