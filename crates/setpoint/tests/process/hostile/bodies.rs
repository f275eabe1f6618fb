//! Bodies that are more than they seem.

use super::*;

pub(super) const CASES: &[Case] = &[
    case!(json_that_is_large_deep_or_double, take 96, keep 32),
    case!(yaml_that_unfolds, take 96, keep 32),
    case!(protobuf_that_lies),
    case!(compressed_bodies_are_not_unpacked),
    case!(bodies_are_bounded, take 96, keep 32),
];

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn json_that_is_large_deep_or_double(server: &Proc) {
    let named = |rest: &str| format!(r#"{{"metadata":{{"name":"a"}},{rest}}}"#);
    let many = times(20_000, 100_000);
    let twice: String = (0..many).map(|_| r#""a":"b","#).collect();
    let keys: String = (0..many).map(|i| format!(r#""k{i}":"b","#)).collect();
    let deep = |levels: usize| named(&format!(r#""x":{}{}"#, "[".repeat(levels), "]".repeat(levels)));
    let table = vec![
        (post(JSON, &"[".repeat(1_000_000)), 400),
        (post(JSON, &"{\"a\":".repeat(100_000)), 400),
        // Upstream's reader takes ten thousand levels.
        (post(JSON, &deep(9_000)), 201),
        (post(JSON, &deep(10_001)), 400),
        (post(JSON, &named(&format!(r#""data":{{{twice}"z":""}}"#))), 201),
        (post(JSON, &named(&format!(r#""data":{{{keys}"z":""}}"#))), 201),
        (post(JSON, &named(&format!(r#""x":{}"#, "9".repeat(1_000_000)))), 400),
        (post(JSON, &named(&format!(r#""x":1e{}"#, "9".repeat(1_000_000)))), 400),
        (post(JSON, &named(r#""x":1e400"#)), 400),
        (post(JSON, &named(&format!(r#""data":{{"a":"{}"}}"#, "\\u0000".repeat(100_000)))), 201),
        (post(JSON, &named(r#""data":{"a":"\ud800\udc"}"#)), 400),
        (post(JSON, &named("\"data\":{\"a\":\"\u{1}\"}")), 400),
        (post(JSON, &format!("{}{{}}", " ".repeat(1_000_000))), 422),
    ];
    check_codes(server, table).await;
}

async fn yaml_that_unfolds(server: &Proc) {
    // Nine lists of nine references to the one before: 400 million values from 500 bytes.
    let mut lists = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    let mut merges = "a0: &a0 {x: 1}\n".to_owned();
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        let nine = [before.as_str(); 9].join(", ");
        lists.push_str(&format!("a{level}: &a{level} [{nine}]\n"));
        merges.push_str(&format!("a{level}: &a{level} {{<<: [{nine}], y{level}: {before}}}\n"));
    }
    // One text, named often.
    let mut quoted = format!("metadata: {{name: a}}\nx: &x {}\n", "y".repeat(100_000));
    (0..times(200, 2000)).for_each(|i| quoted.push_str(&format!("k{i}: *x\n")));
    let many = times(10_000, 40_000);
    let anchors: String = (0..many).map(|i| format!("a{i}: &a{i} 1\n")).collect();
    let table = vec![
        (post(YAML, &lists), 400),
        (post(YAML, &format!("a: {}", "[".repeat(100_000))), 400),
        (post(YAML, &"- ".repeat(100_000)), 400),
        (post(YAML, &format!("metadata: {{name: a}}\n{anchors}")), 201),
        (post(YAML, &"a: &a *a\n".repeat(2)), 400),
        (post(YAML, &"---\n".repeat(50_000)), 422),
    ];
    check_codes(server, table).await;
    // Refused or not: bounded.
    for text in [
        merges,
        quoted,
        "? ".repeat(20_000),
        "!!str ".repeat(20_000),
        "a: b: ".repeat(20_000),
        "%TAG ! x\n".repeat(20_000),
    ] {
        let answer = ask(server, post(YAML, &text)).await;
        assert!((200..500).contains(&code(&answer)), "{:?}: {answer}", &text[..40]);
    }
}

async fn protobuf_that_lies(server: &Proc) {
    // Bytes that are UTF-8 all the same: lengths up to 127, and varints of them.
    let typed = |rest: &str| format!("k8s\0\n\x0f\n\x02v1\x12\x09ConfigMap{rest}");
    let table = vec![
        (post(PROTOBUF, "k8s\0\u{1}\u{2}\u{3}"), 400),
        (post(PROTOBUF, "k8s\0"), 400),
        (post(PROTOBUF, ""), 400),
        (post(PROTOBUF, &typed("\x12\x7f")), 400),
        (post(PROTOBUF, &typed("\x12\x04\n\x7fxx")), 400),
        // A message in itself, as a group that nobody closes.
        (post(PROTOBUF, &typed(&format!("\x12\x7f{}", "\x0b".repeat(127)))), 400),
        (post(PROTOBUF, &format!("k8s\0{}", "\n\x00".repeat(500_000))), 422),
    ];
    check_codes(server, table).await;
}

/// Upstream reads no compressed bodies, and so there is nothing that could unfold.
async fn compressed_bodies_are_not_unpacked(server: &Proc) {
    let body = r#"{"metadata":{"name":"a"}}"#;
    for encoding in ["gzip", "deflate", "br", "zstd", "gzip, gzip"] {
        let request = post(JSON, "\x1f\x08 no JSON")
            .replace("content-type", &format!("content-encoding: {encoding}\r\ncontent-type"));
        let answer = ask(server, request).await;
        assert!((400..500).contains(&code(&answer)), "{encoding}: {answer}");
        // What is plain is read as such, whatever it is called.
        let request = post(JSON, body)
            .replace("content-type", &format!("content-encoding: {encoding}\r\ncontent-type"));
        let answer = ask(server, request).await;
        assert!([201, 400, 415].contains(&code(&answer)), "{encoding}: {answer}");
    }
}

async fn bodies_are_bounded(server: &Proc) {
    let large = format!(r#"{{"data":{{"x":"{}"}}}}"#, "x".repeat(3 << 20));
    let head = post(JSON, "{}").replace("content-length: 2", "content-length: 99999999999");
    let table = vec![
        (post(JSON, &large), 413),
        (post(YAML, &large), 413),
        (post(PROTOBUF, &large), 413),
        (head, 413),
    ];
    check_codes(server, table).await;
}
