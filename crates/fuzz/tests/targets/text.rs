//! Selectors, quantities, times, names: what is read and written again reads as the same.

use fuzz::{Fuzz, Growth};
use object::quantity::{self, Quantity};
use object::selector::{FieldSelector, LabelSelector};
use object::{time, validate_text};

/// The input as text; what is none is left to the targets of whole requests.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

#[test]
fn label_selector() {
    let seeds = [
        "a=b,c!=d",
        "a in (b,c),d notin (e)",
        "!a,b",
        "x/y==z",
        "a>5,b<7",
        "a in (,b)",
        "a=,b",
        "in in (in)",
        "notin",
    ];
    let tokens = &[" in ", " notin ", "(", ")", ",", "=", "==", "!=", "!", ">", "<", "a.b/c", "()", "(,)"];
    let growth = [
        Growth::new("", "k{i}=v,", "z=1", 10_000),
        Growth::new("", "k=v,", "z=1", 10_000),
        Growth::new("a in (", "v{i},", "z)", 20_000),
        Growth::new("a in (", "v,", "z)", 20_000),
        Growth::new("a", " ", "=b", 50_000),
        Growth::new("", "(", "", 50_000),
        Growth::new("", "!", "a", 50_000),
        Growth::new("", "a", "", 50_000),
        Growth::new("", "!k{i},", "z", 10_000),
    ];
    Fuzz::new("label_selector")
        .seeds(seeds)
        .tokens(tokens)
        .allocates(16 << 10, 600)
        .grows(&growth)
        .inputs(2000)
        .run(|input| {
            let Some(text) = text(input) else { return "no text".into() };
            let selector = match LabelSelector::parse(text) {
                Ok(selector) => selector,
                Err(why) => return why,
            };
            let shown = selector.to_string();
            let again =
                LabelSelector::parse(&shown).unwrap_or_else(|why| panic!("{shown:?} is read again: {why}"));
            for label in [None, Some(""), Some("b"), Some("6")] {
                assert_eq!(
                    again.matches(&|_| label),
                    selector.matches(&|_| label),
                    "{shown:?} for {label:?}"
                );
            }
            assert_eq!(again.to_string(), shown);
            "ok".into()
        });
}

#[test]
fn field_selector() {
    let seeds = ["metadata.name=a", "a!=b,c==d", "a=b\\,c", "a=\\\\,b=", ",,a=b,"];
    let tokens = &["metadata.namespace", "spec.nodeName", "=", "==", "!=", ",", "\\", "\\,", "\\="];
    let growth = [
        Growth::new("", "k{i}=v,", "z=1", 10_000),
        Growth::new("a=", "\\,", "", 50_000),
        Growth::new("", ",", "", 50_000),
        Growth::new("a", "=", "", 50_000),
    ];
    Fuzz::new("field_selector")
        .seeds(seeds)
        .tokens(tokens)
        .allocates(8 << 10, 400)
        .grows(&growth)
        .inputs(2000)
        .run(|input| {
            let Some(text) = text(input) else { return "no text".into() };
            let selector = match FieldSelector::parse(text) {
                Ok(selector) => selector,
                Err(why) => return why,
            };
            let shown = selector.to_string();
            let again =
                FieldSelector::parse(&shown).unwrap_or_else(|why| panic!("{shown:?} is read again: {why}"));
            // The order of requirements is that of their texts, which may have `=` for `==`.
            let set = |selector: &FieldSelector| {
                let mut all: Vec<String> =
                    selector.requirements().iter().map(|one| format!("{one:?}")).collect();
                all.sort();
                all
            };
            assert_eq!(set(&again), set(&selector), "{shown:?}");
            "ok".into()
        });
}

#[test]
fn quantity() {
    let seeds = [
        "1",
        "100m",
        "1.5Gi",
        "12e6",
        "1E3",
        "-0.001",
        "+5",
        "1.500",
        ".5",
        "5.",
        "9223372036854775807",
        "1n",
        "1Ei",
    ];
    let tokens = &[
        "Ki",
        "Mi",
        "Ei",
        "m",
        "u",
        "n",
        "k",
        "E",
        "e",
        "e-",
        "E+",
        ".",
        "-",
        "+",
        "0000",
        "1e1000000000",
        "999999999999999999",
    ];
    let growth = [
        Growth::new("", "9", "", 20_000),
        Growth::new("0.", "0", "1", 20_000),
        Growth::new("1e", "9", "", 20_000),
        Growth::new("", "0", "1", 20_000),
    ];
    Fuzz::new("quantity")
        .seeds(seeds)
        .tokens(tokens)
        .max_len(256)
        .allocates(4096, 200)
        .grows(&growth)
        .inputs(4000)
        .run(|input| {
            let Some(text) = text(input) else { return "no text".to_owned() };
            let (parsed, canonical) = match (Quantity::parse(text), quantity::canonical(text)) {
                (Ok(parsed), Ok(canonical)) => (parsed, canonical.into_owned()),
                (Err(why), Err(other)) if why == other => return why.to_string(),
                differ => panic!("{differ:?}"),
            };
            let shown = parsed.to_string();
            let again =
                Quantity::parse(&shown).unwrap_or_else(|why| panic!("{shown:?} is read again: {why}"));
            assert!(again == parsed, "{shown:?} is {again:?}, not {parsed:?}");
            assert_eq!(again.to_string(), shown);
            let stored = quantity::canonical(&canonical).expect("what is stored is read");
            assert_eq!(stored, canonical, "canonical twice is canonical once");
            assert!(Quantity::parse(&canonical).is_ok_and(|stored| stored == parsed), "{canonical}");
            // Neither panics.
            let _ = (parsed.as_i64(), parsed.as_milli(), parsed.sign(), parsed + again, parsed - again);
            "ok".into()
        });
}

#[test]
fn time() {
    let seeds = [
        "2024-05-01T10:00:00Z",
        "2024-02-29T23:59:59.999999999+14:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "2024-05-01T10:00:00.123456Z",
        "2024-05-01T1:00:00,5Z",
    ];
    let tokens = &["T", "Z", "+00:00", "-12:34", ".000000", ",5", ":60", "02-30", "0000", "24:00"];
    Fuzz::new("time").seeds(seeds).tokens(tokens).max_len(128).allocates(4096, 400).inputs(4000).run(
        |input| {
            let Some(text) = text(input) else { return "no text".to_owned() };
            if let Ok((seconds, nanos)) = time::parse_layout(text, time::Layout::Micros) {
                let shown = time::format_micros(seconds, nanos);
                let again = time::parse_layout(&shown, time::Layout::Micros);
                assert!(
                    again == Ok((seconds, nanos / 1000 * 1000)) || out_of_years(seconds),
                    "{shown}: {again:?}"
                );
            }
            match time::parse_layout(text, time::Layout::Seconds) {
                Ok((seconds, _)) => {
                    let shown = time::format_seconds(seconds);
                    let again = time::parse(&shown).map(|(seconds, _)| seconds);
                    assert!(again == Some(seconds) || out_of_years(seconds), "{shown}: {again:?}");
                    "ok".into()
                }
                Err(error) => error.to_string(),
            }
        },
    );
}

/// A time zone can lead out of the years that have four digits.
fn out_of_years(seconds: i64) -> bool {
    !(-62_167_219_200..253_402_300_800).contains(&seconds)
}

#[test]
fn duration() {
    let seeds = [
        "1h2m3s",
        "-1.5h",
        "100ms",
        "1µs",
        "1us",
        "0",
        "2562047h47m16.854775807s",
        "1.000000000000000000001s",
    ];
    let tokens = &["h", "m", "s", "ms", "µs", "μs", "ns", ".", "-", "+", "9223372036854775808"];
    Fuzz::new("duration").seeds(seeds).tokens(tokens).max_len(256).allocates(4096, 200).inputs(4000).run(
        |input| {
            let Some(text) = text(input) else { return "no text".to_owned() };
            match time::parse_duration(text) {
                Ok(nanos) => {
                    let shown = time::format_duration(nanos);
                    assert_eq!(time::parse_duration(&shown), Ok(nanos), "{shown}");
                    "ok".into()
                }
                Err(error) => error.to_string(),
            }
        },
    );
}

#[test]
fn names() {
    let seeds = [
        "a",
        "a.b-c",
        "kubernetes.io/name",
        "A_b.c",
        "*.a.b",
        "25%",
        "a/b/c",
        "-a",
        "1a",
        "http",
        "a.example.com/b",
    ];
    let checks: &[fn(&str) -> Vec<String>] = &[
        validate_text::dns1123_label,
        validate_text::dns1123_subdomain,
        validate_text::dns1123_subdomain_with_underscore,
        validate_text::dns1035_label,
        validate_text::wildcard_dns1123_subdomain,
        validate_text::path_segment_name,
        validate_text::path_segment_prefix,
        validate_text::qualified_name,
        validate_text::label_value,
        validate_text::config_map_key,
        validate_text::env_var_name,
        validate_text::c_identifier,
        validate_text::port_name,
        validate_text::percent,
    ];
    let growth = [
        Growth::new("", "a.", "a", 50_000),
        Growth::new("", "-", "", 50_000),
        Growth::new("", "a/", "a", 50_000),
        Growth::new("*.", "a", "", 50_000),
        Growth::new("", "é", "", 50_000),
    ];
    let tokens = &["/", ".", "-", "_", "..", "*.", "%", "kubernetes.io/"];
    Fuzz::new("names")
        .seeds(seeds)
        .tokens(tokens)
        .max_len(512)
        .allocates(32 << 10, 64)
        .grows(&growth)
        .inputs(2000)
        .run(|input| {
            let Some(text) = text(input) else { return "no text".to_owned() };
            let valid: Vec<bool> = checks.iter().map(|check| check(text).is_empty()).collect();
            // A label is a subdomain, and both are names a path may hold.
            assert!(!valid[0] || valid[1] && valid[2] && valid[5], "{text:?}");
            assert!(!valid[3] || valid[0], "{text:?}");
            valid.iter().map(|valid| if *valid { 'y' } else { 'n' }).collect()
        });
}
