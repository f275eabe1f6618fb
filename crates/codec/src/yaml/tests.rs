use catalog::Name;
use object::Map;

use super::*;

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(name, value)| (Name::from(name.to_string()), value.clone())).collect())
}

fn list(items: &[Value]) -> Value {
    Value::List(items.to_vec())
}

fn text(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    String::from_utf8(out).expect("YAML is UTF-8")
}

#[test]
fn scalars_resolve_as_in_yaml_1_1() {
    use Value::{Bool, Float, Int, Null};
    let s = |text: &str| Value::from(text);
    for (yaml, want) in [
        ("", Null),
        ("~", Null),
        ("null", Null),
        ("NULL", Null),
        ("nUll", s("nUll")),
        ("yes", Bool(true)),
        ("On", Bool(true)),
        ("y", Bool(true)),
        ("TRUE", Bool(true)),
        ("tRUE", s("tRUE")),
        ("no", Bool(false)),
        ("off", Bool(false)),
        ("N", Bool(false)),
        ("0", Int(0)),
        ("-1", Int(-1)),
        ("+12", Int(12)),
        ("1_000", Int(1000)),
        ("0644", Int(420)),
        ("-0644", Int(-420)),
        ("0o17", Int(15)),
        ("0x1F", Int(31)),
        ("0b101", Int(5)),
        ("-0b101", Int(-5)),
        ("08", Int(8)),
        ("0x", s("0x")),
        ("0xfg", s("0xfg")),
        ("9223372036854775807", Int(i64::MAX)),
        ("-9223372036854775808", Int(i64::MIN)),
        ("18446744073709551615", Float(18446744073709551615.0)),
        ("1.5", Float(1.5)),
        (".5", Float(0.5)),
        ("-.5", Float(-0.5)),
        ("1.", Int(1)),
        ("1.0", Int(1)),
        ("1e3", Int(1000)),
        ("1e-3", Float(0.001)),
        ("1e999", s("1e999")),
        (".", s(".")),
        ("-", Value::List(vec![Null])),
        ("1.2.3", s("1.2.3")),
        ("1e", s("1e")),
        ("12:30:45", s("12:30:45")),
        ("2001-12-14", s("2001-12-14")),
        ("2001-12-14T21:59:43Z", s("2001-12-14T21:59:43Z")),
        ("\"12\"", s("12")),
        ("'yes'", s("yes")),
        ("''", s("")),
        ("!!str 12", s("12")),
        ("!!int \"12\"", Int(12)),
        ("!!float 12", Int(12)),
        ("!!bool 'yes'", Bool(true)),
        ("!mine 12", s("12")),
        ("|\n  yes\n", s("yes\n")),
        (">-\n  a\n  b\n", s("a b")),
        ("a b  c", s("a b  c")),
    ] {
        assert_eq!(parse(yaml.as_bytes()), Ok(want), "{yaml}");
    }
}

#[test]
fn manifests_become_trees() {
    let yaml = "
# a comment
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {on: \"true\", 1: one, 1.5: float, true: bool}}
data:
  script: |
    #!/bin/sh
    echo hi

  list:
  - a
  - - b
    - c
  - k: v
    l: w
";
    let want = map(&[
        ("apiVersion", "v1".into()),
        ("kind", "ConfigMap".into()),
        (
            "metadata",
            map(&[
                ("name", "a".into()),
                // `on` and `true` are the same name to upstream, too: the last one counts.
                ("labels", map(&[("true", "bool".into()), ("1", "one".into()), ("1.5", "float".into())])),
            ]),
        ),
        (
            "data",
            map(&[
                ("script", "#!/bin/sh\necho hi\n".into()),
                (
                    "list",
                    list(&[
                        "a".into(),
                        list(&["b".into(), "c".into()]),
                        map(&[("k", "v".into()), ("l", "w".into())]),
                    ]),
                ),
            ]),
        ),
    ]);
    assert_eq!(parse(yaml.as_bytes()), Ok(want));
}

#[test]
fn json_is_yaml() {
    let json = "{\"a\":[1,2.5,true,null,\"x\\ny\\u00e9\"],\"b\":{\"c\":{}},\"d\":\"\"}";
    let want = map(&[
        ("a", list(&[Value::Int(1), Value::Float(2.5), Value::Bool(true), Value::Null, "x\nyé".into()])),
        ("b", map(&[("c", map(&[]))])),
        ("d", "".into()),
    ]);
    assert_eq!(parse(json.as_bytes()), Ok(want));
}

#[test]
fn only_the_first_document_is_read() {
    assert_eq!(parse(b"---\na: 1\n---\nb: [\n"), Ok(map(&[("a", Value::Int(1))])));
    assert_eq!(parse(b"a: 1\n...\n}"), Ok(map(&[("a", Value::Int(1))])));
    assert_eq!(parse(b"# nothing\n"), Ok(Value::Null));
    assert_eq!(parse(b""), Ok(Value::Null));
}

#[test]
fn duplicates_keep_the_last_value_and_get_upstreams_error() {
    let document = parse_document(b"a: 1\nb:\n  x: 1\n  x: 2\na: 3\n").unwrap();
    assert_eq!(document.value, map(&[("a", Value::Int(3)), ("b", map(&[("x", Value::Int(2))]))]));
    let words = "yaml: unmarshal errors:\n  line 4: key \"x\" already set in map\n  line 5: key \"a\" already set in map";
    assert_eq!(document.duplicates.as_deref(), Some(words));
    assert_eq!(parse_document(b"a: 1\nb: 2\n").unwrap().duplicates, None);
    // Two names to YAML, one to JSON.
    let document = parse_document(b"1: a\n\"1\": b\n").unwrap();
    assert_eq!((document.value, document.duplicates), (map(&[("1", "b".into())]), None));
}

#[test]
fn aliases_and_merge_keys_expand() {
    let yaml = "
base: &base {a: 1, b: 2}
other: &other {b: 3, c: 4}
one: {<<: *base, b: 9}
two: {<<: [*base, *other]}
three: {b: 9, <<: {b: 2}}
list: [*base, &s text, *s]
\"<<\": 5
";
    let value = parse(yaml.as_bytes()).unwrap();
    let int = Value::Int;
    assert_eq!(value.get("one"), Some(&map(&[("a", int(1)), ("b", int(9))])));
    assert_eq!(value.get("two"), Some(&map(&[("b", int(2)), ("c", int(4)), ("a", int(1))])));
    // As in upstream's library: a merge after a member replaces it.
    assert_eq!(value.get("three"), Some(&map(&[("b", int(2))])));
    assert_eq!(
        value.get("list"),
        Some(&list(&[map(&[("a", int(1)), ("b", int(2))]), "text".into(), "text".into()]))
    );
    assert_eq!(value.get("<<"), Some(&int(5)));
}

#[test]
fn wrong_documents_are_refused() {
    for (yaml, want) in [
        (&b"a: \xff"[..], YamlError::NotUtf8),
        (b"a: \x01", YamlError::ControlCharacter),
        (b"a: .nan", YamlError::NotANumber("NaN")),
        (b"- -.inf", YamlError::NotANumber("-Inf")),
        (b"~: 1", YamlError::UnsupportedKey { line: 1, go_type: "%!s(<nil>)" }),
        (b"[a]: 1", YamlError::CompositeKey { line: 1 }),
        (b"<<: 1", YamlError::BadMerge),
        (b"a: &a {<<: [1]}", YamlError::BadMerge),
        (b"a: &a\n  b: *a\n", YamlError::SelfReference { line: 2 }),
        (b"!!int abc", YamlError::BadTag { found: "!!str", text: "abc".into(), tag: "!!int".into() }),
        (b"!!binary aGk=", YamlError::Binary { line: 1 }),
    ] {
        assert_eq!(parse(yaml), Err(want), "{}", String::from_utf8_lossy(yaml));
    }
    for yaml in ["a: [", "a: b: c", "*x", "\"a", "a: 'b", "{a: 1", "- a\nb"] {
        assert!(matches!(parse(yaml.as_bytes()), Err(YamlError::Syntax { .. })), "{yaml}");
    }
    let words = parse(b"a: 1\nb: [\n").unwrap_err().to_string();
    assert!(words.starts_with("yaml: line "), "{words}");
}

#[test]
fn bombs_are_refused() {
    let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..10 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(",");
        laughs.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    assert_eq!(parse(laughs.as_bytes()), Err(YamlError::ExcessiveAliasing));

    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 10_000].join(","));
    assert_eq!(parse(long.as_bytes()), Err(YamlError::ExcessiveAliasing));

    let mut chain = "a0: &a0 {x: 1}\n".to_owned();
    for i in 1..MAX_DEPTH + 100 {
        chain.push_str(&format!("a{i}: &a{i} {{x: *a{}}}\n", i - 1));
    }
    let refused = parse(chain.as_bytes());
    assert!(
        matches!(refused, Err(YamlError::ExcessiveAliasing | YamlError::TooDeepForJson { .. })),
        "{refused:?}"
    );
}

#[test]
fn depth_is_bounded_as_upstream_bounds_it() {
    let flow = |levels: usize| format!("a: 1\nb: {}1{}\n", "[".repeat(levels), "]".repeat(levels));
    let block = |levels: usize| format!("a: 1\nb:\n  {}1\n", "- ".repeat(levels));
    assert!(parse(block(MAX_DEPTH - 1).as_bytes()).is_ok());
    let words = |text: String| parse(text.as_bytes()).expect_err("too deep").to_string();
    assert_eq!(words(block(MAX_DEPTH)), "yaml: line 3: exceeded max depth of 10000");
    assert_eq!(words(flow(MAX_DEPTH + 1)), "yaml: line 2: exceeded max depth of 10000");
    // No line where it is the first.
    assert_eq!(words("[".repeat(100_000)), "yaml: exceeded max depth of 10000");
    // Brackets and indentation are counted apart, and JSON counts both.
    let both = format!("a: 1\nb:\n  {}{{c: [1]}}\n", "- ".repeat(MAX_DEPTH - 2));
    assert_eq!(words(both), "json parse error: invalid character '[' exceeded max depth");
    // Flow collections in YAML that is no JSON: deeper than the parser can count, up to the limit of JSON, and no deeper.
    for levels in [255, 256, 257, 511, 512, 5000, MAX_DEPTH - 1] {
        assert!(parse(flow(levels).as_bytes()).is_ok(), "{levels}");
    }
    assert_eq!(words(flow(MAX_DEPTH)), "json parse error: invalid character '[' exceeded max depth");
    assert_eq!(words("[".repeat(MAX_DEPTH)), "yaml: line 1: did not find expected node content");
    let json = |levels: usize| format!("{}1{}", "{\"a\": ".repeat(levels), "}".repeat(levels));
    assert!(parse(json(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(words(json(MAX_DEPTH + 1)), "yaml: exceeded max depth of 10000");
}

/// Cutting and putting back changes nothing: the same document within few brackets and within many.
#[test]
fn deeply_nested_brackets_are_read_like_shallow_ones() {
    let inner = [
        "1, two, 'it''s [', \"a\\\"]\", 0644, yes",
        "a \"b' c, d",
        "{a: [x, {\"y\":[z]}], b: {}}, [], {}",
        " # a comment with ] and }\n  1,\n  2",
        "http://x:1, a#b",
    ];
    for text in inner {
        let few = parse(format!("a:\n  [{text}\n  ]\n").as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"));
        for levels in [250, 254, 255, 256, 600, 2000] {
            let deep = format!("a:\n  {}{text}\n  {}\nb: c\n", "[".repeat(levels), "]".repeat(levels));
            let read = parse(deep.as_bytes()).unwrap_or_else(|e| panic!("{levels} {text}: {e}"));
            let mut found = read.get("a").expect("a");
            for _ in 1..levels {
                found = &found.as_list().expect("a list")[0];
            }
            assert_eq!(Some(found), few.get("a"), "{levels} {text}");
            assert_eq!(read.str_at(&["b"]), Some("c"));
        }
    }
    // Several of them beside each other, in the same brackets and in others.
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(300), "]".repeat(300));
    let both = format!("a: [{}, {}]\nb: {{c: {}}}\n", deep("1"), deep("2"), deep("3"));
    let read = parse(both.as_bytes()).expect("several");
    let bottom = |mut value: &Value| {
        while let Some(list) = value.as_list() {
            value = &list[0];
        }
        value.as_int()
    };
    let a = read.get("a").and_then(Value::as_list).expect("a list");
    let found = [bottom(&a[0]), bottom(&a[1]), bottom(read.at(&["b", "c"]).expect("c"))];
    assert_eq!(found, [Some(1), Some(2), Some(3)]);
}

#[test]
fn errors_in_deeply_nested_brackets_have_their_position() {
    let wrong = |inner: &str| {
        let text = format!("a: 1\nb: {}\n{inner}\n{}\n", "[".repeat(400), "]".repeat(400));
        parse(text.as_bytes()).expect_err("wrong").to_string()
    };
    assert!(wrong("a: b: c").starts_with("yaml: line 3"), "{}", wrong("a: b: c"));
    assert!(wrong("&a 1").contains("anchors or aliases"), "{}", wrong("&a 1"));
    assert!(wrong("a {b}").starts_with("yaml: line "), "{}", wrong("a {b}"));
    // Bounded work and no panic, whatever the input.
    let many = format!("[{}]", format!("{}{},", "[".repeat(300), "]".repeat(300)).repeat(300));
    assert!(parse(many.as_bytes()).is_ok());
    let apart = format!("- {}{}\n", "[".repeat(300), "]".repeat(300)).repeat(500);
    assert!(parse(apart.as_bytes()).is_err());
    for piece in ["[", "{", "]", "}", "\"", "'", "\\", "#", ":", ",", "\n", "é", "a", " "] {
        for before in ["", "[", "{a: ", "\""] {
            let _ = parse(format!("x: {}{before}{}", "[".repeat(260), piece.repeat(300)).as_bytes());
        }
    }
}

#[test]
fn very_deep_values_are_written_on_one_line() {
    let mut value = Value::from("x");
    for i in 0..380 {
        value = if i % 3 == 0 { list(&[value]) } else { map(&[("a", value), ("b", Value::from("true"))]) };
    }
    let written = text(&value);
    assert!(written.len() < 50_000, "{}", written.len());
    assert_eq!(parse(written.as_bytes()), Ok(value.clone()));
    for _ in 380..MAX_DEPTH {
        value = Value::List(vec![value]);
    }
    assert!(text(&value).len() < 150_000);
}

#[test]
fn objects_are_written_as_kubectl_shows_them() {
    let pod = map(&[
        ("kind", "Pod".into()),
        ("apiVersion", "v1".into()),
        (
            "metadata",
            map(&[
                ("name", "p".into()),
                ("creationTimestamp", "2026-01-02T03:04:05Z".into()),
                ("labels", map(&[("a10", "1".into()), ("a2", "true".into()), ("x.io/y", "".into())])),
                ("resourceVersion", "12".into()),
            ]),
        ),
        (
            "spec",
            map(&[
                (
                    "containers",
                    list(&[map(&[
                        ("name", "c".into()),
                        ("resources", map(&[])),
                        ("command", list(&["sh".into(), "-c".into(), "echo a\necho b\n".into()])),
                    ])]),
                ),
                ("tolerations", list(&[])),
                (
                    "nested",
                    list(&[list(&[Value::Int(1), Value::Int(2)]), list(&[map(&[("a", Value::Null)])])]),
                ),
            ]),
        ),
    ]);
    let want = "\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: \"2026-01-02T03:04:05Z\"
  labels:
    a2: \"true\"
    a10: \"1\"
    x.io/y: \"\"
  name: p
  resourceVersion: \"12\"
spec:
  containers:
  - command:
    - sh
    - -c
    - |
      echo a
      echo b
    name: c
    resources: {}
  nested:
  - - 1
    - 2
  - - a: null
  tolerations: []
";
    assert_eq!(text(&pod), want);
}

#[test]
fn strings_are_quoted_only_where_they_must_be() {
    for (value, want) in [
        ("abc", "abc"),
        ("a b", "a b"),
        ("", "\"\""),
        ("yes", "\"yes\""),
        ("null", "\"null\""),
        ("12", "\"12\""),
        ("1.5", "\"1.5\""),
        ("0x1f", "\"0x1f\""),
        ("12:30", "\"12:30\""),
        ("12:99", "12:99"),
        ("2001-01-02", "\"2001-01-02\""),
        ("2001-02-30", "2001-02-30"),
        ("1.2.3", "1.2.3"),
        ("a: b", "'a: b'"),
        ("a:b", "a:b"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("- a", "'- a'"),
        ("-a", "-a"),
        ("?a", "?a"),
        ("*", "'*'"),
        ("it's", "it's"),
        ("'x'", "'''x'''"),
        ("{a}", "'{a}'"),
        ("a,b]", "a,b]"),
        ("@x", "'@x'"),
        ("<<", "\"<<\""),
        ("---", "'---'"),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("a\tb", "\"a\\tb\""),
        ("é", "é"),
        ("😀", "\"\\U0001F600\""),
        ("a\u{2028}b", "\"a\\Lb\""),
        ("a\nb", "|-\n  a\n  b"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\n\n", "|+\n  a\n"),
        ("\n", "|2+\n"),
        (" a\nb", "|2-\n   a\n  b"),
        ("a \nb", "\"a \\nb\""),
        ("a\nb ", "\"a\\nb \""),
    ] {
        assert_eq!(text(&value.into()), format!("{want}\n"), "{value:?}");
    }
}

#[test]
fn long_lines_fold_at_spaces() {
    let words = "word ".repeat(30);
    let value = map(&[("message", words.trim().into()), ("other", format!("a: {words}b").into())]);
    let want = "\
message: word word word word word word word word word word word word word word word
  word word word word word word word word word word word word word word word
other: 'a: word word word word word word word word word word word word word word word
  word word word word word word word word word word word word word word word b'
";
    assert_eq!(text(&value), want);
    assert_eq!(parse(want.as_bytes()), Ok(value));
}

#[test]
fn long_and_odd_names_are_written_and_read() {
    let value = map(&[
        (&"k".repeat(200), map(&[("a", list(&["x".into()]))])),
        ("a\nb", "c".into()),
        ("", "empty".into()),
        ("yes", "word".into()),
        ("1", Value::Int(1)),
        ("a: b", Value::Null),
    ]);
    let written = text(&value);
    let read = parse(written.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(sorted(read), sorted(value), "{written}");
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    for (value, want) in [
        (Value::Int(-5), "-5"),
        (Value::Float(0.5), "0.5"),
        (Value::Float(-0.25), "-0.25"),
        (Value::Float(2.0), "2"),
        (Value::Float(1234567.5), "1.2345675e+06"),
        (Value::Float(123456.5), "123456.5"),
        (Value::Float(0.00001), "1e-05"),
        (Value::Float(0.0001), "0.0001"),
        (Value::Float(1e30), "1e+30"),
    ] {
        assert_eq!(text(&value), format!("{want}\n"));
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Map(entries.into_iter().collect::<Map>())
        }
        Value::List(list) => Value::List(list.into_iter().map(sorted).collect()),
        // YAML makes no difference between 1 and 1.0.
        Value::Float(f) => scalar::whole(f).map_or(Value::Float(f), Value::Int),
        other => other,
    }
}

struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    fn text(&mut self) -> String {
        const PIECES: &[&str] = &[
            "a",
            "b",
            " ",
            "  ",
            "\n",
            "\n\n",
            "\t",
            ":",
            ": ",
            "#",
            " #",
            "-",
            "- ",
            "?",
            "? ",
            "'",
            "\"",
            "\\",
            "|",
            ">",
            "%",
            "@",
            "&",
            "*",
            "!",
            "{",
            "}",
            "[",
            "]",
            ",",
            "yes",
            "null",
            "~",
            "0",
            "1",
            "12",
            ".5",
            "e3",
            "0x",
            "_",
            "---",
            "...",
            "<<",
            "=",
            "é",
            "世",
            "😀",
            "\u{85}",
            "\u{2028}",
            "\u{a0}",
            "\u{feff}",
            "\r",
            "\0",
            "\u{7f}",
            "\u{1b}",
            "2001-01-01",
            "word word word word word ",
            "longwordlongwordlongword",
        ];
        (0..self.below(9)).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }
    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 8 } else { 12 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(self.below(1000) as i64 - 500),
            3 => Value::Float(self.below(1000) as f64 + 0.5),
            4 => {
                let scale = [1e-9, 1e-4, 1.0, 1e5, 1e25][self.below(5)];
                Value::Float((self.below(1 << 20) as f64 / 3.0 + 0.1) * scale)
            }
            5..8 => Value::Str(self.text()),
            8 | 9 => Value::List((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let mut map = Map::default();
                for _ in 0..self.below(5) {
                    map.set(Name::from(self.text()), self.value(depth - 1));
                }
                Value::Map(map)
            }
        }
    }
}

#[test]
fn written_documents_read_back_the_same() {
    for seed in 0..20_000 {
        let value = Seeded(seed * 7919).value(4);
        let written = text(&value);
        let read =
            parse(written.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{value:?}\n{written}"));
        assert_eq!(sorted(read), sorted(value), "seed {seed}\n{written}");
    }
}

#[test]
fn no_bytes_make_the_reader_panic() {
    const PIECES: &[&str] = &[
        "a",
        "b: ",
        "- ",
        "? ",
        ": ",
        "\n",
        "\n  ",
        "  ",
        "\t",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&a ",
        "*a",
        "!!str ",
        "!",
        "|\n",
        ">-\n",
        "'",
        "\"",
        "#",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "<<: ",
        "\u{feff}",
        "\r\n",
        "é",
        "\\",
        "1",
        "~",
        "!!int ",
        "|2+\n",
        "*",
        "&",
        "@",
        "`",
        "\0",
    ];
    for seed in 0..30_000 {
        let mut random = Seeded(seed);
        let text: String = (0..random.below(24)).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let mut bytes = text.into_bytes();
        if random.below(4) == 0 && !bytes.is_empty() {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        println!("seed {seed} {bytes:?}");
        let _ = parse_document(&bytes);
    }
}

/// What the JSON reader is trusted with means the same to the YAML reader.
#[test]
fn plain_json_reads_the_same_both_ways() {
    let texts = [
        r#"{"a":1,"b":[1,-2,0],"c":{"d":null,"e":true},"f":"x: y # z","g":""}"#,
        r#"{"a": "quo\"te \\ back\nnew\ttab", "b" : [ ] }"#,
        r#"{"-":"- a","?":"? b","&":"&c","*":"*d","!":"!e","%":"%f","|":"|","null":"null","yes":"yes"}"#,
        r#"{"a":[[],[{}],{"b":[1]}],"1":"0x1f","time":"2020-01-01T00:00:00Z"}"#,
        "{\"a\":123456789012345678}\n",
        "{}",
    ];
    for text in texts {
        assert!(flow::is_plain_json(text), "{text}");
        let json = as_json(text.as_bytes()).unwrap();
        let yaml = decode::decode(&nodes::Nodes::read(text).unwrap()).unwrap();
        assert_eq!(json, yaml, "{text}");
    }
}

#[test]
fn json_that_yaml_reads_in_another_way_is_not_plain() {
    let name = "n".repeat(1001);
    let texts = [
        "[1]".to_owned(),
        " {}".to_owned(),
        "{\n}".to_owned(),
        "{\t}".to_owned(),
        "{}\n\n".to_owned(),
        r#"{"a":1.0}"#.to_owned(),
        r#"{"a":1e3}"#.to_owned(),
        r#"{"a":-0}"#.to_owned(),
        r#"{"a":1234567890123456789}"#.to_owned(),
        r#"{"a":"\u00e9"}"#.to_owned(),
        r#"{"a":"\/"}"#.to_owned(),
        "{\"a\":\"\u{2028}\"}".to_owned(),
        r#"{"<<":{"a":1}}"#.to_owned(),
        r#"{"<<" :{"a":1}}"#.to_owned(),
        r#"{"a"#.to_owned(),
        format!("{{\"{name}\":1}}"),
        format!("{{\"{name}\" : 1}}"),
    ];
    for text in texts {
        assert!(!flow::is_plain_json(&text), "{text}");
    }
}
