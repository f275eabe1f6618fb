//! Answers recorded from upstream.

use super::*;

fn problems(format: &str, text: &str) -> Vec<String> {
    let format = FORMATS.iter().find(|row| row.key == format).expect("a format");
    (format.problems)(text)
}

#[test]
fn every_function_returns_its_own_format() {
    for format in &FORMATS {
        let value = (format.get)(&[]).unwrap();
        assert_eq!(value.as_opaque::<NamedFormat>().unwrap().0.key, format.key);
    }
}

#[test]
fn texts_are_judged_as_upstream_does() {
    for (format, text, valid) in [
        ("dns1123Label", "a-1", true),
        ("dns1123Label", "a-", false),
        ("dns1123LabelPrefix", "a-", true),
        ("dns1123LabelPrefix", "-", false),
        ("dns1123LabelPrefix", "_-", true),
        ("dns1123LabelPrefix", "é-", false),
        ("dns1123SubdomainPrefix", "a.b-", true),
        ("dns1035LabelPrefix", "1a-", false),
        ("labelValue", "", true),
        ("qualifiedName", "example.com/", false),
        ("uri", "/path", true),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
        ("uuid", "123E4567E89B12D3-A456426614174000", true),
        ("uuid", "123e4567-e89b-12d3-a456-42661417400", false),
        ("uuid", "123e4567--e89b-12d3-a456-42661417400", false),
        ("byte", "aGVsbG8=", true),
        ("byte", "aGVsbG8", false),
        ("byte", "a===", false),
        ("byte", "", false),
        ("date", "2020-02-29", true),
        ("date", "2021-02-29", false),
        ("date", "0000-01-01", true),
        ("date", "2021-1-1", false),
        ("datetime", "2021-01-01t23:59:59,5z", true),
        ("datetime", "2021-01-01T00:00:00+25:99", true),
        ("datetime", "2021-01-01T00:00:00Ztail", true),
        ("datetime", "2021-01-01T24:00:00Z", false),
        ("datetime", "2021-01-01T00:00:00", false),
        ("datetime", "2021-01-01 00:00:00Z", false),
    ] {
        assert_eq!(problems(format, text).is_empty(), valid, "{format} {text}");
    }
    assert_eq!(problems("uri", "a_b"), ["parse \"a_b\": invalid URI for request"]);
}
