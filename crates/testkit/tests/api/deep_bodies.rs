//! Maps and lists nested ten thousand levels deep are accepted as upstream does, and one more is refused with its message (recorded
//! from v1.36.4). Test threads have an ordinary stack, and the build is not optimised: every pass over a tree is tested.

use serde_json::Value as Json;
use testkit::{Reply, TestCluster};

const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const UNKNOWN_WARNING: &str = "299 - \"unknown field \\\"unk\\\"\"";
const REJECTED: &str = "the server rejected our request due to an error in our request";

fn maps(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

fn lists(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

/// Its own level comes on top.
fn revision(name: &str, data: &str, more: &str) -> String {
    format!(
        "{{\"apiVersion\":\"apps/v1\",\"kind\":\"ControllerRevision\",\"metadata\":{{\"name\":\"{name}\"}},\"revision\":1{more},\"data\":{data}}}"
    )
}

/// Not read into a tree: the reader of the tests has a lower bound than the server.
fn is(reply: &Reply, status: u16) -> String {
    let text = reply.text();
    let shown: String = text.chars().take(300).collect();
    assert_eq!(reply.status, status, "{shown}");
    text
}

fn refusal(reply: &Reply, status: u16) -> String {
    let text = is(reply, status);
    let answer: Json = serde_json::from_str(&text).expect("a Status");
    answer["message"].as_str().expect("a message").to_owned()
}

async fn post(cluster: &TestCluster, path: &str, body: String) -> Reply {
    cluster.request("POST", path).typed("application/json", body).send().await
}

async fn patch(cluster: &TestCluster, path: &str, kind: &str, body: String) -> Reply {
    cluster.request("PATCH", path).typed(kind, body).send().await
}

fn unreadable(bracket: char) -> String {
    format!(
        "the object provided is unrecognized (must be of type ControllerRevision): couldn't get version/kind; \
         json parse error: invalid character '{bracket}' exceeded max depth ({{\"apiVersion\":\"apps/v1\",\"kind\" ...)"
    )
}

#[tokio::test(start_paused = true)]
async fn bodies_of_ten_thousand_levels_are_created_and_one_more_is_refused() {
    let cluster = TestCluster::simulated(1).await;
    for (levels, name) in [(9_998, "a"), (9_999, "b")] {
        let data = maps(levels);
        let created = is(&post(&cluster, REVISIONS, revision(name, &data, "")).await, 201);
        assert!(created.contains(&format!("\"data\":{data}")), "it is kept whole");
    }
    let refused = refusal(&post(&cluster, REVISIONS, revision("c", &maps(10_000), "")).await, 400);
    assert_eq!(refused, unreadable('{'));
    let refused = refusal(&post(&cluster, REVISIONS, revision("c", &lists(10_000), "")).await, 400);
    assert_eq!(refused, unreadable('['));
    let refused = refusal(&post(&cluster, REVISIONS, revision("c", &lists(9_999), "")).await, 422);
    assert_eq!(
        refused,
        "ControllerRevision.apps \"c\" is invalid: data: Required value: data must be a valid JSON object"
    );
    let elements = format!("{{\"a\":{}}}", lists(9_998));
    is(&post(&cluster, REVISIONS, revision("c", &elements, "")).await, 201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_may_be_as_deep() {
    let cluster = TestCluster::simulated(2).await;
    for (name, unknown) in [("a", maps(9_999)), ("b", lists(9_999))] {
        let body = revision(name, "{}", &format!(",\"unk\":{unknown}"));
        let strict = post(&cluster, &format!("{REVISIONS}?fieldValidation=Strict"), body.clone()).await;
        assert_eq!(
            refusal(&strict, 400),
            "ControllerRevision in version \"v1\" cannot be handled as a ControllerRevision: strict decoding error: unknown field \"unk\""
        );
        let created = post(&cluster, REVISIONS, body).await;
        assert!(!is(&created, 201).contains("\"unk\""));
        assert_eq!(created.warnings(), [UNKNOWN_WARNING]);
    }
    let more = revision("c", "{}", &format!(",\"unk\":{}", maps(10_000)));
    assert_eq!(refusal(&post(&cluster, REVISIONS, more).await, 400), unreadable('{'));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn yaml_is_bounded_as_upstream_bounds_it() {
    let cluster = TestCluster::simulated(3).await;
    let post = |data: String| {
        let body = format!(
            "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {{name: yam}}\nrevision: 1\ndata: {data}\n"
        );
        cluster.request("POST", REVISIONS).typed("application/yaml", body).send()
    };
    let is_no_object =
        "ControllerRevision.apps \"yam\" is invalid: data: Required value: data must be a valid JSON object";
    let block = |levels: usize| format!("\n  {}1", "- ".repeat(levels));
    assert_eq!(refusal(&post(block(9_999)).await, 422), is_no_object);
    let start = "61706956657273696f6e3a20617070732f76310a6b696e643a20436f6e74 ...";
    let unreadable = |why: &str| {
        format!("the object provided is unrecognized (must be of type ControllerRevision): {why} ({start})")
    };
    let line_6 = unreadable("yaml: line 6: exceeded max depth of 10000");
    assert_eq!(refusal(&post(block(10_000)).await, 400), line_6);
    let line_5 = unreadable("yaml: line 5: exceeded max depth of 10000");
    assert_eq!(refusal(&post(lists(10_001)).await, 400), line_5);
    let both = format!("\n  {}[[1]]", "- ".repeat(9_998));
    let by_json = "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth";
    assert_eq!(refusal(&post(both).await, 400), unreadable(by_json));
    // JSON is YAML too.
    let json = cluster.request("POST", REVISIONS).typed("application/yaml", revision("j", &maps(9_999), ""));
    is(&json.send().await, 201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deep_objects_are_updated_and_patched() {
    let cluster = TestCluster::simulated(4).await;
    let one = format!("{REVISIONS}/p");
    is(&post(&cluster, REVISIONS, revision("p", &maps(9_999), "")).await, 201);
    for (kind, body) in [
        (MERGE, r#"{"metadata":{"labels":{"a":"1"}}}"#),
        (STRATEGIC, r#"{"metadata":{"labels":{"a":"2"}}}"#),
        (OPERATIONS, r#"[{"op":"add","path":"/metadata/labels/x","value":"y"}]"#),
        // The deepest pointer there is.
        (OPERATIONS, &format!(r#"[{{"op":"test","path":"/data{}","value":1}}]"#, "/a".repeat(9_999))),
        (
            OPERATIONS,
            &format!(r#"[{{"op":"test","path":"/data","value":{}}}]"#, maps(9_998).replace('1', "{\"a\":1}")),
        ),
    ] {
        let patched = patch(&cluster, &one, kind, body.to_owned()).await;
        // The last one nests deeper than a patch may.
        if body.starts_with(r#"[{"op":"test","path":"/data","#) {
            assert_eq!(
                refusal(&patched, 400),
                "error decoding patch: invalid character '{' exceeded max depth"
            );
        } else {
            is(&patched, 200);
        }
    }
    let wrong = format!(r#"[{{"op":"test","path":"/data{}","value":2}}]"#, "/a".repeat(9_999));
    assert_eq!(refusal(&patch(&cluster, &one, OPERATIONS, wrong).await, 422), REJECTED);
    for (kind, prefix) in [(MERGE, "error decoding patch: "), (STRATEGIC, "")] {
        let unknown = |levels| {
            format!(r#"{{"metadata":{{"labels":{{"z":"{}"}}}},"unk":{}}}"#, kind.len(), maps(levels))
        };
        let patched = patch(&cluster, &one, kind, unknown(9_999)).await;
        is(&patched, 200);
        assert_eq!(patched.warnings(), [UNKNOWN_WARNING]);
        let refused = refusal(&patch(&cluster, &one, kind, unknown(10_000)).await, 400);
        assert_eq!(refused, format!("{prefix}invalid character '{{' exceeded max depth"));
        // As deep as what is there, so that every level merges.
        is(&patch(&cluster, &one, kind, format!(r#"{{"data":{}}}"#, maps(9_999))).await, 200);
        let other = format!(r#"{{"data":{}}}"#, maps(9_999).replace('1', "2"));
        let refused = refusal(&patch(&cluster, &one, kind, other).await, 422);
        assert!(refused.ends_with("}: field is immutable"), "{}", &refused[refused.len() - 60..]);
    }
    let body = revision("p", &maps(9_999), &format!(",\"unk\":{}", lists(9_999)));
    let updated = cluster.request("PUT", &one).typed("application/json", body).send().await;
    is(&updated, 200);
    assert_eq!(updated.warnings(), [UNKNOWN_WARNING]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn operations_may_not_make_a_document_too_deep() {
    let cluster = TestCluster::simulated(5).await;
    let one = format!("{REVISIONS}/q");
    is(&post(&cluster, REVISIONS, revision("q", r#"{"a":{"b":1}}"#, "")).await, 201);
    let add = |path: &str, levels| format!(r#"[{{"op":"add","path":"{path}","value":{}}}]"#, maps(levels));
    let refused = refusal(&patch(&cluster, &one, OPERATIONS, add("/data/a", 9_998)).await, 422);
    assert!(
        refused.starts_with("ControllerRevision.apps \"q\" is invalid: data: Invalid value: {\"a\":{\"a\":")
    );
    let refused = refusal(&patch(&cluster, &one, OPERATIONS, add("/data/a/b", 9_998)).await, 422);
    assert!(
        refused.starts_with(
            " \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"apps/v1\\\",\\\"data\\\":"
        ),
        "{}",
        &refused[..200]
    );
    assert!(refused.ends_with(
        "\": couldn't get version/kind; json parse error: invalid character '{' exceeded max depth"
    ));
    let fits = patch(&cluster, &one, OPERATIONS, add("/unk", 9_998)).await;
    is(&fits, 200);
    assert_eq!(fits.warnings(), [UNKNOWN_WARNING]);
    let refused = refusal(&patch(&cluster, &one, OPERATIONS, add("/unk", 9_999)).await, 400);
    assert_eq!(refused, "error decoding patch: invalid character '{' exceeded max depth");
    // Copies into themselves would double what they copy each time.
    let copies = format!(
        r#"[{{"op":"add","path":"/unk","value":{}}}{}]"#,
        maps(9_990),
        format!(r#",{{"op":"copy","from":"/unk","path":"/unk{}"}}"#, "/a".repeat(9_000)).repeat(3)
    );
    assert_eq!(refusal(&patch(&cluster, &one, OPERATIONS, copies).await, 422), REJECTED);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deep_objects_are_read_listed_and_watched_in_every_form() {
    let cluster = TestCluster::simulated(6).await;
    let data = maps(9_999);
    is(&post(&cluster, REVISIONS, revision("r", &data, "")).await, 201);
    let one = format!("{REVISIONS}/r");
    for path in [&one, REVISIONS, &format!("{REVISIONS}?watch=1&resourceVersion=0&timeoutSeconds=1")] {
        assert!(is(&cluster.get(path).await, 200).contains(&data), "{path}");
        for form in ["Table", "PartialObjectMetadata", "PartialObjectMetadataList"] {
            if (form == "PartialObjectMetadataList") != (path == REVISIONS) && form != "Table" {
                continue;
            }
            let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
            let text = is(&cluster.request("GET", path).accept(&accept).send().await, 200);
            assert!(text.contains("\"r\"") && !text.contains(&data[..100]), "{form} of {path}");
        }
        let protobuf =
            cluster.request("GET", path).accept("application/vnd.kubernetes.protobuf").send().await;
        assert!(is(&protobuf, 200).contains(&data), "{path}");
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let whole = cluster.request("GET", format!("{one}?includeObject=Object")).accept(table).send().await;
    assert!(is(&whole, 200).contains(&data));
    // What people read is indented as far as anybody reads it.
    let pretty = is(&cluster.get(format!("{one}?pretty=true")).await, 200);
    assert!(pretty.contains("\n      \"a\": {") && pretty.len() < 2 * data.len(), "{}", pretty.len());
    let yaml = is(&cluster.request("GET", &one).accept("application/yaml").send().await, 200);
    assert!(yaml.contains("\n    a:\n      a:\n") && yaml.len() < 2 * data.len(), "{}", yaml.len());
    is(&cluster.delete(&one).await, 200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn schemas_of_custom_resources_may_be_deep() {
    let cluster = TestCluster::simulated(7).await;
    let definition = |schema: &str| {
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"as.e.io"}},"spec":{{"group":"e.io","scope":"Namespaced","names":{{"plural":"as","kind":"A"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        )
    };
    let nested = |levels: usize, leaf: &str| {
        format!("{}{leaf}{}", r#"{"type":"object","properties":{"a":"#.repeat(levels), "}}".repeat(levels))
    };
    // Six levels stand around a schema, and each level of it is two.
    let deepest = definition(&nested(4_996, r#"{"type":"string"}"#));
    let one = format!("{DEFINITIONS}/as.e.io");
    is(&post(&cluster, DEFINITIONS, deepest).await, 201);
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#.to_owned();
    is(&patch(&cluster, &one, MERGE, label).await, 200);
    is(&cluster.request("GET", &one).accept("application/vnd.kubernetes.protobuf").send().await, 200);
    is(&cluster.delete(&one).await, 200);
    while cluster.get(&one).await.status != 404 {
        cluster.env().sleep(std::time::Duration::from_millis(1)).await;
    }

    let wrong = definition(&nested(4_996, r#"{"type":"nothing"}"#));
    let refused = refusal(&post(&cluster, DEFINITIONS, wrong).await, 422);
    assert!(refused.contains(".properties[a].properties[a].type: Unsupported value: \"nothing\""));
    let default = format!(
        r#"{{"type":"object","properties":{{"a":{{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":{}}}}}}}"#,
        maps(9_980)
    );
    is(&post(&cluster, DEFINITIONS, definition(&default)).await, 201);
    // Many errors, each at the end of a very long path: as many are reported as fit.
    let many = format!(
        "{{\"type\":\"object\",\"properties\":{{{}}}}}",
        (0..2_000).map(|i| format!("\"p{i}\":{{}}")).collect::<Vec<_>>().join(",")
    );
    let refused = post(&cluster, DEFINITIONS, definition(&nested(4_900, &many))).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().len() < 200 << 20);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn reviews_and_options_may_be_deep_in_unknown_fields() {
    let cluster = TestCluster::simulated(8).await;
    let review = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview","unk":{}}}"#,
        lists(9_999)
    );
    is(&post(&cluster, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review).await, 201);
    is(&post(&cluster, REVISIONS, revision("o", "{}", "")).await, 201);
    let options = format!(r#"{{"kind":"DeleteOptions","apiVersion":"v1","unk":{}}}"#, lists(9_999));
    let deleted =
        cluster.request("DELETE", format!("{REVISIONS}/o")).typed("application/json", options).send().await;
    is(&deleted, 200);
    // No object at all, and dropped without a map around it.
    let refused = refusal(&post(&cluster, REVISIONS, lists(10_000)).await, 400);
    assert!(refused.contains("json: cannot unmarshal array into Go value of type struct"), "{refused}");
    cluster.shutdown().await;
}
