//! JSON, YAML and protobuf: a decoded body survives encoding and decoding; normalising is idempotent.

use catalog::{Catalog, TypeId};
use codec::{json, protobuf, yaml};
use fuzz::{Fuzz, Growth};
use object::Value;
use object::normalise::{Strict, normalise, normalise_decoded};

use crate::samples::{self, ALL, WORDS, sorted, type_of};

/// Normalises a tree of that type, and checks that this is idempotent. Returns the outcome.
fn canonical_form(catalog: &Catalog, ty: TypeId, value: &Value) -> Result<Value, String> {
    let schema = catalog.schema();
    let mut once = value.clone();
    normalise(schema, ty, &mut once, &mut Strict::on()).map_err(|error| error.to_string())?;
    let mut twice = once.clone();
    let mut strict = Strict::on();
    normalise(schema, ty, &mut twice, &mut strict).expect("what is canonical fits its type");
    assert_eq!(once, twice, "normalising twice is normalising once");
    assert!(strict.messages().is_empty(), "{:?}", strict.messages());
    let mut decoded = value.clone();
    normalise_decoded(schema, ty, &mut decoded, &mut Strict::off()).expect("as above");
    normalise(schema, ty, &mut decoded, &mut Strict::off()).expect("as above");
    assert_eq!(decoded, once, "what is kept for validation leaves no trace");
    Ok(once)
}

#[test]
fn json() {
    let catalog = Catalog::builtin();
    let (pod, _) = samples::canonical(&catalog, samples::POD);
    let growth = [
        Growth::new("", "[", "*]", 9000),
        Growth::new("", "{\"a\":", "", 9000),
        Growth::new("{", "\"k{i}\":1,", "\"z\":1}", 20_000),
        Growth::new("{", "\"k\":1,", "\"z\":1}", 20_000),
        Growth::new("{\"metadata\":{\"labels\":{", "\"k{i}\":\"v\",", "\"z\":\"1\"}}}", 20_000),
        Growth::new("{", "\"spec\":{},", "\"z\":1}", 20_000),
        Growth::new("[", "1.5e300,", "1]", 20_000),
        Growth::new("[", "9", "]", 100_000),
        Growth::new("\"", "\\u0001", "\"", 50_000),
        Growth::new("\"", "é\\n", "\"", 50_000),
        Growth::new("", " ", "1", 200_000),
        Growth::new("{\"spec\":{\"containers\":[", "{\"name\":\"c{i}\"},", "{}]}}", 4000),
    ];
    Fuzz::new("json").seeds(ALL).tokens(WORDS).allocates(32 << 10, 1000).grows(&growth).inputs(800).run(
        |input| {
            let value = match json::parse(input, None) {
                Ok(value) => value,
                Err(error) => return error.to_string(),
            };
            let bytes = json::to_vec(&value);
            let again = json::parse(&bytes, None).expect("what is written is read");
            // The bytes: `1e4` is a float, and written as a whole number, as Go does it.
            // The zero below zero is one only once.
            assert!(json::to_vec(&again) == bytes || bytes.windows(2).any(|two| two == b"-0"));
            let mut pretty = Vec::new();
            json::write_pretty(&value, &mut pretty);
            assert_eq!(json::parse(&pretty, None).as_ref(), Ok(&again), "pretty");
            let hinted = json::parse(input, Some((catalog.schema(), pod))).expect("a hint refuses nothing");
            assert_eq!(json::to_vec(&hinted), bytes, "a hint changes nothing");
            let ty = type_of(&catalog, &value).unwrap_or(pod);
            let outcome = canonical_form(&catalog, ty, &value).map(|_| "ok".to_owned());
            outcome.unwrap_or_else(|why| why)
        },
    );
}

#[test]
fn yaml() {
    let mut seeds: Vec<String> = ALL
        .iter()
        .map(|text| {
            let mut out = Vec::new();
            yaml::write(&json::parse(text.as_bytes(), None).unwrap(), &mut out);
            String::from_utf8(out).unwrap()
        })
        .collect();
    seeds.extend(
        [
            "a: &x [1, 2]\nb: *x\nc: {<<: *x}\n",
            "base: &b {a: 1}\nc:\n  <<: *b\n  d: 2\n",
            "- |+\n  text\n\n- >-\n  folded\n  more\n- 'it''s'\n- \"\\x41\\u00e9\\n\"\n",
            "%YAML 1.1\n---\na: !!str 1\nb: !!binary AAEC\nc: !!int \"0x1f\"\n...\n---\nsecond: 1\n",
            "a: 012\nb: 0o14\nc: 1_000\nd: .inf\ne: ~\nf: yes\ng: 12:30:45\nh: 2001-12-14\ni: -.5e3\nj: 0b101\n",
            "? complex\n: value\n? [a, b]\n: 1\n",
            "a: # comment\n  - b\n  -  - c\n     - d\n",
        ]
        .map(str::to_owned),
    );
    let tokens = &[
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "!!float ",
        "!<tag:yaml.org,2002:int> ",
        "|\n",
        ">-\n",
        "? ",
        ": ",
        "- ",
        "\n  ",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        "\"",
        "#",
        "\\x",
        "~",
        ".nan",
        "0x",
        "1:2",
        "yes",
    ];
    let growth = [
        Growth::new("", "[", "*]", 9000),
        Growth::new("", "- ", "", 5000),
        Growth::new("", "k{i}: v\n", "", 10_000),
        Growth::new("", "k: v\n", "", 10_000),
        Growth::new("", "a{i}: &a{i} 1\n", "", 10_000),
        Growth::new("a: &a 1\n", "k{i}: *a\n", "", 10_000),
        Growth::new("a: &a {x: 1}\nb: {<<: [", "*a, ", "*a]}\n", 5000),
        Growth::new("[", "a, ", "b]", 20_000),
        Growth::new("{", "k{i}: a, ", "b: 1}", 10_000),
        Growth::new("\"", "\\n", "\"", 50_000),
        Growth::new("|\n", " x\n", "", 20_000),
        Growth::new("", "# x\n", "", 20_000),
        Growth::new("", "---\n", "", 10_000),
        Growth::new("", "? ", "", 500),
        Growth::new("a: ", "9", "", 50_000),
    ];
    Fuzz::new("yaml").seeds(seeds).tokens(tokens).allocates(64 << 10, 8000).grows(&growth).inputs(800).run(
        |input| {
            let document = match yaml::parse_document(input) {
                Ok(document) => document,
                Err(error) => return error.to_string(),
            };
            let value = document.value;
            let mut written = Vec::new();
            yaml::write(&value, &mut written);
            let again = yaml::parse(&written).unwrap_or_else(|error| {
                panic!("what is written is read: {error}\n{}", String::from_utf8_lossy(&written))
            });
            let bytes = |value: &Value| json::to_vec(&sorted(value));
            let same = bytes(&again) == bytes(&value) || bytes(&value).windows(2).any(|two| two == b"-0");
            assert!(same, "{}", String::from_utf8_lossy(&written));
            let mut twice = Vec::new();
            yaml::write(&again, &mut twice);
            // Go's order of names is none for some (2a before 02a before 20 before 2a): only what is written holds still.
            let twice = yaml::parse(&twice).expect("as above");
            assert!(bytes(&twice) == bytes(&again), "{}", written.escape_ascii());
            let json = json::to_vec(&value);
            assert_eq!(json::parse(&json, None).as_ref(), Ok(&value), "and it is JSON");
            if document.duplicates.is_some() { "ok, twice".into() } else { "ok".into() }
        },
    );
}

#[test]
fn protobuf() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let find = |api_version: &str, kind: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        catalog.find_type(group, version, kind)
    };
    let seeds: Vec<Vec<u8>> = ALL
        .iter()
        .map(|text| {
            let (ty, value) = samples::canonical(&catalog, text);
            let (api_version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
            let mut out = Vec::new();
            protobuf::encode(schema, ty, api_version.unwrap(), kind.unwrap(), &value, &mut out);
            out
        })
        .collect();
    let tokens = &[
        "k8s\0",
        "\n\x0b\n\x02v1\x12\x05",
        "\x08\x01",
        "\x12\0",
        "\x1a\x02\x08\x01",
        "\x0b\x0c",
        "\x7f\x7f\x7f\x7f\x0f",
    ];
    Fuzz::new("protobuf").seeds(seeds).tokens(tokens).allocates(64 << 10, 2000).inputs(800).run(|input| {
        let value = match protobuf::decode(schema, input, &find, None) {
            Ok(value) => value,
            Err(error) => return error.to_string(),
        };
        let (Some(ty), Some(api_version), Some(kind)) =
            (type_of(&catalog, &value), value.str_at(&["apiVersion"]), value.str_at(&["kind"]))
        else {
            return "no type".into();
        };
        let once = match canonical_form(&catalog, ty, &value) {
            Ok(once) => once,
            Err(why) => return why,
        };
        let mut bytes = Vec::new();
        protobuf::encode(schema, ty, api_version, kind, &once, &mut bytes);
        let again = protobuf::decode(schema, &bytes, &find, None).expect("what is written is read");
        let again = canonical_form(&catalog, ty, &again).expect("and canonical");
        // A CRD's schemas below `items` and the like are kept in the order they came in.
        assert_eq!(sorted(&again), sorted(&once));
        let json = json::to_vec(&once);
        assert_eq!(json::parse(&json, None).as_ref(), Ok(&once), "and it is JSON");
        "ok".into()
    });
}
