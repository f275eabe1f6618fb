//! Patches that multiply.

use super::*;

pub(super) const CASES: &[Case] = &[
    case!(json_patches_of_many_operations, take 128, keep 32),
    case!(copies_that_double, take 96, keep 32),
    case!(strategic_patches_with_many_directives, take 256, keep 48),
    case!(merge_patches_that_are_deep),
];

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Of a service that every cluster has; nothing of it is kept.
fn patch(media: &str, body: &str) -> String {
    send_body("PATCH", "/api/v1/namespaces/default/services/kubernetes?dryRun=All", media, body)
}

async fn json_patches_of_many_operations(server: &Proc) {
    let operations = |count: usize, operation: &str| {
        let all: Vec<String> = (0..count).map(|i| operation.replace('#', &i.to_string())).collect();
        format!("[{}]", all.join(","))
    };
    let add = r##"{"op":"add","path":"/metadata/labels/k#","value":"v"}"##;
    let test = r#"{"op":"test","path":"/kind","value":"Service"}"#;
    let front = r##"{"op":"add","path":"/spec/ports/0","value":{"port":#}}"##;
    let table = vec![
        (patch(JSON_PATCH, &operations(10_000, add)), 200),
        (patch(JSON_PATCH, &operations(10_001, add)), 413),
        (patch(JSON_PATCH, &operations(10_000, test)), 200),
        (patch(JSON_PATCH, &format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(500_000))), 422),
        (
            patch(JSON_PATCH, &format!(r#"[{{"op":"add","path":"/{}","value":1}}]"#, "~1".repeat(500_000))),
            200,
        ),
        (patch(JSON_PATCH, r#"[{"op":"remove","path":"/spec/ports/99999999999999999999"}]"#), 422),
        (patch(JSON_PATCH, r#"[{"op":"remove","path":"/spec/ports/-1"}]"#), 422),
    ];
    check_codes(server, table).await;
    let answer = ask(server, patch(JSON_PATCH, &operations(9000, front))).await;
    assert!(matches!(code(&answer), 413 | 422), "{answer}");
}

async fn copies_that_double(server: &Proc) {
    let double: Vec<String> =
        (0..40).map(|i| format!(r#"{{"op":"copy","from":"","path":"/x{i}"}}"#)).collect();
    let inside: Vec<String> =
        (0..40).map(|i| format!(r#"{{"op":"copy","from":"/spec","path":"/spec/x{i}"}}"#)).collect();
    for operations in [double, inside] {
        let answer = ask(server, patch(JSON_PATCH, &format!("[{}]", operations.join(",")))).await;
        assert!((400..500).contains(&code(&answer)), "{answer}");
    }
}

async fn strategic_patches_with_many_directives(server: &Proc) {
    let count = times(2_000, 25_000);
    let list =
        |item: &str| (0..count).map(|i| item.replace('#', &i.to_string())).collect::<Vec<_>>().join(",");
    for body in [
        format!(r#"{{"spec":{{"$retainKeys":[{}],"type":"ClusterIP"}}}}"#, list("\"k#\"")),
        format!(r#"{{"spec":{{"ports":[{}]}}}}"#, list(r##"{"port":#,"$patch":"delete"}"##)),
        format!(r#"{{"spec":{{"$setElementOrder/ports":[{}]}}}}"#, list(r##"{"port":#}"##)),
        format!(r#"{{"metadata":{{"finalizers":[{}]}}}}"#, list("\"x.io/f#\"")),
        format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":[{}]}}}}"#, list("\"x.io/f#\"")),
        format!(r#"{{"metadata":{{{}}}}}"#, list(r##""$deleteFromPrimitiveList/f#":["a"]"##)),
        format!(r#"{{"spec":{{"ports":[{}]}}}}"#, list(r##"{"port":#}"##)),
    ] {
        let shown: String = body.chars().take(60).collect();
        let answer = ask(server, patch(STRATEGIC, &body)).await;
        assert!((200..500).contains(&code(&answer)), "{shown}: {answer}");
    }
}

async fn merge_patches_that_are_deep(server: &Proc) {
    let deep = |levels: usize| format!("{}1{}", "{\"x\":".repeat(levels), "}".repeat(levels));
    let table = vec![
        (patch(MERGE, &deep(9_000)), 200),
        (patch(MERGE, &deep(20_000)), 400),
        (patch(MERGE, "[]"), 400),
        (patch(STRATEGIC, &deep(20_000)), 400),
        (patch(JSON_PATCH, &deep(20_000)), 400),
    ];
    check_codes(server, table).await;
}
