use object::Value;

use super::JsonPath;

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).expect("the test writes JSON")
}

fn object() -> Value {
    json(
        r#"{"spec":{"replicas":3,"ratio":1.5,"on":true,"nothing":null,"empty":"","a.b":{"c d":"deep"},"none":[],
            "list":["a","b","c","d"],"ports":[{"name":"web","port":80},{"name":"tls","port":443},{"port":7}]},
           "status":{"conditions":[{"type":"Ready","status":"True","n":1.5},{"type":"Other (x)","status":"False","n":2.5}]}}"#,
    )
}

/// The results as JSON, or `error`.
fn show(path: &str, object: &Value) -> String {
    let path = JsonPath::parse(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    match path.find(object) {
        None => "error".to_owned(),
        Some(found) => {
            let found = found.iter().map(|v| String::from_utf8_lossy(&codec::json::to_vec(v)).into_owned());
            found.collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn paths_lead_where_upstream_says() {
    let object = object();
    for (path, found) in [
        (".spec.replicas", "3"),
        ("$.spec.replicas", "3"),
        (".spec.missing.more", ""),
        (".spec.nothing", "null"),
        (".spec.nothing.more", ""),
        (".spec.replicas.more", ""),
        (".", ""),
        (r".spec.a\.b.c\ d", r#""deep""#),
        (".spec['a\\.b']['c\\ d']", r#""deep""#),
        (".spec['replicas']", "3"),
        // A dot in quotes still ends a name.
        (".spec['a.b']", ""),
        (".spec['replicas','ratio']", "3 1.5"),
        (".spec.list[0]", r#""a""#),
        (".spec.list[]", r#""a""#),
        (".spec.list[-1]", r#""d""#),
        (".spec.list[-2:]", r#""c" "d""#),
        (".spec.list[1:3]", r#""b" "c""#),
        (".spec.list[:-1]", r#""a" "b" "c""#),
        (".spec.list[::2]", r#""a" "c""#),
        (".spec.list[0,2]", r#""a" "c""#),
        (".spec.list[ 0 , -1 ]", r#""a" "d""#),
        (".spec.list[*]", r#""a" "b" "c" "d""#),
        (".spec.list[2:2]", ""),
        (".spec.list[9:9]", ""),
        (".spec.list[4]", "error"),
        (".spec.list[-5]", "error"),
        (".spec.list[3:1]", "error"),
        (".spec.list[0:9]", "error"),
        (".spec.list[::0]", "error"),
        (".spec.list[::-1]", "error"),
        (".spec.none[0]", "error"),
        (".spec.none[*]", ""),
        (".spec.missing[0]", ""),
        (".spec.nothing[0]", ""),
        (".spec.replicas[0]", "error"),
        (".spec.ports[*].port", "80 443 7"),
        (".spec.ports.*.name", r#""web" "tls""#),
        ("..port", "80 443 7"),
        (".spec.ports[0]..", r#"{"name":"web","port":80} "web""#),
        (r#".status.conditions[?(@.type=="Ready")].status"#, r#""True""#),
        (r".status.conditions[?(@.type == 'Ready')].status", r#""True""#),
        (r#".status.conditions[?(@.type=="Other (x)")].status"#, r#""False""#),
        (r#".status.conditions[?(@.type!="Ready")].status"#, r#""False""#),
        (r#".status.conditions[?(@.type>="P")].type"#, r#""Ready""#),
        (".status.conditions[?(@.n>2.0)].type", r#""Other (x)""#),
        // Only numbers of one kind compare.
        (".status.conditions[?(@.n>2)].type", "error"),
        (".spec.ports[?(@.port>=80)].name", r#""web" "tls""#),
        (".spec.ports[?(@.port<80)].port", "7"),
        (".spec.ports[?(@.port=80)].port", "error"),
        (".spec.ports[?(@.name)].port", "80 443"),
        // An error counts as being there.
        (".spec.ports[?(@.name[0])].port", "80 443"),
        (".spec.ports[?(@.port==@.port)].port", "80 443 7"),
        (".spec.on[?(@.x)]", "error"),
        (".spec.missing[?(@.x)]", ""),
        (".spec.nothing[?(@.x)]", "error"),
        (".spec.list range", "error"),
        (".spec \"text\"", r#""text""#),
        (r#".spec "\u00e9\x41\101\n""#, "\"éAA\\n\""),
        (".spec 5", "5"),
        (".spec true", "true"),
        (".spec.replicas}{.spec.list[9]", "error"),
        (".spec.replicas}, {.spec.on", "3"),
    ] {
        assert_eq!(show(path, &object), found, "{path}");
    }
}

#[test]
fn what_is_no_path_is_said_in_upstreams_words() {
    for (path, error) in [
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[1:2:3:4]", "invalid array index 1:2:3:4"),
        (".a[-]", "array index - is not a number"),
        (".a[99999999999999999999]", "array index 99999999999999999999 is not a number"),
        (".a[?(@.b]", "unterminated filter"),
        (".a[?(@.b)", "unclosed array expect ]"),
        (".a[?(@.b==?)]", "unrecognized character in action: U+003F '?'"),
        (".a....b", "invalid multiple recursive descent"),
        (".a\n", "unclosed action"),
        (".a \"b", "unterminated quoted string"),
        (".a \"\\q\"", "unquote string \"\\q\" error invalid syntax"),
        (".a +1.2.3", "cannot parse number +1.2.3"),
        (".a ?", "unrecognized character in action: U+003F '?'"),
        (".a['b','c]", "invalid array index 'c"),
    ] {
        assert_eq!(JsonPath::parse(path).map_err(|e| e.to_string()), Err(error.to_owned()), "{path}");
    }
}

#[test]
fn work_is_bounded() {
    let mut deep = Value::from(1);
    for _ in 0..2000 {
        deep = Value::List(vec![deep, Value::from("x")]);
    }
    let object = Value::List(vec![deep]);
    assert_eq!(JsonPath::parse("..").map(|p| p.find(&object).map(|v| v.len())), Ok(Some(4001)));
    assert_eq!(JsonPath::parse("..[*]..[*]..").map(|p| p.find(&object).is_none()), Ok(true));
    object::discard(object);

    let wide = Value::List(vec![Value::List(vec![Value::Null; 1000]); 2]);
    let everything = format!("[{}0].*", "0,".repeat(1000));
    assert_eq!(JsonPath::parse(&everything).map(|p| p.find(&wide).is_none()), Ok(true));
}

#[test]
fn hostile_paths_end() {
    let pieces = [
        ".", "..", "[", "]", "?(", ")", "@", "$", "'", "\"", "\\", "{", "}", ",", ":", "-", "1", "a", "é",
        "=", "<", " ", "*", "\n", "range", "[?(", ")]", "true", "+", "½",
    ];
    let object = object();
    let mut state = 7u64;
    for _ in 0..200_000 {
        let mut path = String::from(".");
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            path.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        if let Ok(path) = JsonPath::parse(&path) {
            let _ = path.find(&object);
        }
    }
}
