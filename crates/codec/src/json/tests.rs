//! Texts and errors as Go's encoding/json has them (recorded from go1.26).

use object::Value;

use super::*;

fn error(text: &str) -> String {
    parse(text.as_bytes(), None).unwrap_err().to_string()
}

fn read(text: &str) -> Value {
    parse(text.as_bytes(), None).unwrap()
}

fn written(value: Value) -> String {
    String::from_utf8(to_vec(&value)).unwrap()
}

#[test]
fn errors_are_those_of_go() {
    for (text, words) in [
        ("", "unexpected end of JSON input"),
        ("{\"a\":", "unexpected end of JSON input"),
        ("\"abc", "unexpected end of JSON input"),
        ("[1", "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{,", "invalid character ',' looking for beginning of object key string"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\"}", "invalid character '}' after object key"),
        ("{\"a\":1]", "invalid character ']' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("-", "invalid character ' ' in numeric literal"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1e+", "invalid character ' ' in exponent of numeric literal"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("nul!", "invalid character '!' in literal null (expecting 'l')"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ("'", "invalid character '\\'' looking for beginning of value"),
        ("\u{7f}", "invalid character '\\x7f' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("1e400", "json: cannot unmarshal number 1e400 into Go value of type float64"),
    ] {
        assert_eq!(error(text), words, "{text}");
    }
    assert_eq!(
        parse(b"\x9e", None).unwrap_err().to_string(),
        "invalid character '\\u009e' looking for beginning of value"
    );
}

#[test]
fn numbers_are_integers_when_they_can_be() {
    for (text, value) in [
        ("0", Value::Int(0)),
        ("-0", Value::Int(0)),
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("-9223372036854775808", Value::Int(i64::MIN)),
        ("9223372036854775808", Value::Float(9_223_372_036_854_775_808.0)),
        ("1.0", Value::Float(1.0)),
        ("1e3", Value::Float(1000.0)),
        ("1E-7", Value::Float(1e-7)),
        ("123456789012345678", Value::Int(123_456_789_012_345_678)),
    ] {
        assert_eq!(read(text), value, "{text}");
    }
}

#[test]
fn strings_are_unescaped_and_invalid_utf8_replaced() {
    assert_eq!(
        read(r#""a\"\\\/\b\f\n\r\tb\u00e9\ud83d\ude00""#),
        Value::from("a\"\\/\u{8}\u{c}\n\r\tbé\u{1f600}")
    );
    assert_eq!(read(r#""\ud83dx""#), Value::from("\u{fffd}x"));
    assert_eq!(read(r#""\ud83d\u0041""#), Value::from("\u{fffd}A"));
    assert_eq!(read(r#""\ude00\ud83d""#), Value::from("\u{fffd}\u{fffd}"));
    assert_eq!(parse(b"\"a\xe2\x82b\"", None).unwrap(), Value::from("a\u{fffd}\u{fffd}b"));
    assert_eq!(parse(b"\"a\xff\\n\"", None).unwrap(), Value::from("a\u{fffd}\n"));
}

#[test]
fn depth_is_bounded() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(parse(deep(MAX_DEPTH as usize).as_bytes(), None).is_ok());
    assert_eq!(error(&deep(MAX_DEPTH as usize + 1)), "invalid character '[' exceeded max depth");
    assert_eq!(error(&"{\"a\":".repeat(100_000)), "invalid character '{' exceeded max depth");
}

#[test]
fn the_deepest_values_are_read_and_written_on_a_small_stack() {
    const STACK_BYTES: usize = 512 * 1024;
    let run = || {
        let levels = MAX_DEPTH as usize;
        let lists = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let maps = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        for text in [lists, maps] {
            let value = parse(text.as_bytes(), None).unwrap();
            assert_eq!(to_vec(&value), text.as_bytes());
            let mut pretty = Vec::new();
            write_pretty(&value, &mut pretty);
            // Not quadratic in the depth: very deep levels stay on one line.
            assert!(pretty.len() < text.len() + 100_000, "{}", pretty.len());
            assert!(parse(&pretty, None).unwrap() == value);
            object::discard(value);
            // The part read before an error is dropped iteratively too.
            assert_eq!(error(&format!("{text} x")), "invalid character 'x' after top-level value");
            let inner = text.strip_prefix("{\"a\":").or(text.strip_prefix('[')).unwrap();
            let cut = format!("[{}, x", &inner[..inner.len() - 1]);
            assert_eq!(error(&cut), "invalid character 'x' looking for beginning of value");
        }
    };
    #[allow(clippy::disallowed_methods, reason = "a test of stacks needs a thread of its own")]
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.unwrap().join().unwrap();
}

#[test]
fn duplicates_stay_in_order() {
    let value = read(r#"{"b":1,"a":2,"b":3}"#);
    let names: Vec<_> =
        value.as_map().unwrap().iter().map(|(n, v)| (n.to_string(), v.as_int().unwrap())).collect();
    assert_eq!(names, [("b".to_owned(), 1), ("a".to_owned(), 2), ("b".to_owned(), 3)]);
}

#[test]
fn names_of_the_catalogue_are_not_allocated() {
    let catalog = catalog::Catalog::builtin();
    let ty = catalog.schema().find("core.v1.Pod").unwrap();
    let text = br#"{"spec":{"containers":[{"name":"c","nope":1}]},"metadata":{"labels":{"name":"x"}}}"#;
    let value = parse(text, Some((catalog.schema(), ty))).unwrap();
    let container = &value.at(&["spec", "containers"]).unwrap().as_list().unwrap()[0];
    let shared: Vec<_> =
        container.as_map().unwrap().iter().map(|(n, _)| matches!(n, catalog::Name::Shared(_))).collect();
    assert_eq!(shared, [false, true]);
    let labels = value.at(&["metadata", "labels"]).unwrap().as_map().unwrap();
    assert!(labels.iter().all(|(n, _)| matches!(n, catalog::Name::Shared(_))));
}

#[test]
fn strings_are_escaped_for_html_too() {
    let text = "<a href=\"x\">&amp;</a>\\\u{2028}\u{2029}\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é日\u{2027}";
    let escaped = r#""\u003ca href=\"x\"\u003e\u0026amp;\u003c/a\u003e\\\u2028\u2029\b\f\n\r\t\u0001\u001f"#;
    assert_eq!(written(Value::from(text)), format!("{escaped}\u{7f}é日\u{2027}\""));
}

#[test]
fn floats_are_written_as_go_writes_them() {
    for (f, text) in [
        (0.1, "0.1"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.25e-10, "1.25e-10"),
        (f64::MAX, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
    ] {
        assert_eq!(written(Value::Float(f)), text);
    }
}

#[test]
fn pretty_has_two_spaces_a_level() {
    let value = read(r#"{"a":[1,{"b":"c"}],"d":{},"e":[]}"#);
    let mut out = Vec::new();
    write_pretty(&value, &mut out);
    let expected =
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"c\"\n    }\n  ],\n  \"d\": {},\n  \"e\": []\n}";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
