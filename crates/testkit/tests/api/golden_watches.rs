//! Recorded watch streams of kube-apiserver v1.36.4, line by line.

use serde_json::{Value, json};
use testkit::TestCluster;

use crate::text::normalised;

const CASES: &str = include_str!("../golden/watch.jsonl");
const IN: &str = "/api/v1/namespaces/w";

/// Writes of others the recording ran into, so that versions differ by as much as they did then:
/// before the watch began, and after it.
const FOREIGN: &[(&str, usize, usize)] =
    &[("version 0", 3, 0), ("sendInitialEvents=false", 0, 1), ("as metadata", 0, 1)];

#[tokio::test(start_paused = true)]
async fn recorded_watches_are_repeated() {
    let cluster = TestCluster::simulated(2).await;
    for name in ["w", "elsewhere"] {
        cluster.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.ok(201);
    }
    cluster.settled().await;
    let cases: Vec<Value> = CASES.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    root_ca(&cluster, &cases).await;
    foreign(&cluster, 1).await;

    let mut failures = Vec::new();
    for case in &cases {
        let name = case["case"].as_str().unwrap();
        prepare(&cluster, name).await;
        let (before, after) = FOREIGN.iter().find(|(n, ..)| *n == name).map_or((0, 0), |(_, b, a)| (*b, *a));
        foreign(&cluster, before).await;
        let got = run(&cluster, case, after).await;
        let wanted: Vec<Value> = case["stream"].as_array().unwrap().iter().map(normalised).collect();
        let (got, wanted) = (settled(got), settled(wanted));
        if got != wanted {
            let lines = |events: &[Value]| events.iter().map(|e| format!("    {e}\n")).collect::<String>();
            failures.push(format!("{name}:\n  got\n{}  want\n{}", lines(&got), lines(&wanted)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    cluster.shutdown().await;
}

/// The ConfigMap that upstream's controllers put into every namespace: it stands in the recorded states.
async fn root_ca(cluster: &TestCluster, cases: &[Value]) {
    let events = cases.iter().flat_map(|c| c["stream"].as_array().unwrap());
    let recorded =
        events.map(|e| &e["object"]).find(|o| o["metadata"]["name"] == "kube-root-ca.crt").unwrap();
    let body = json!({
        "metadata": {"name": "kube-root-ca.crt", "annotations": recorded["metadata"]["annotations"]},
        "data": recorded["data"],
    });
    cluster.post(format!("{IN}/configmaps"), body).await.ok(201);
}

async fn foreign(cluster: &TestCluster, writes: usize) {
    for _ in 0..writes {
        let body = json!({"metadata": {"generateName": "foreign-"}});
        cluster.post("/api/v1/namespaces/elsewhere/configmaps", body).await.ok(201);
    }
}

/// Objects that stood there when a case began.
async fn prepare(cluster: &TestCluster, case: &str) {
    let objects = match case {
        "selector: leave, change outside, enter again, delete" => {
            vec![json!({"metadata": {"name": "s", "labels": {"x": "1"}}, "data": {"k": "1"}})]
        }
        "no version: state first, then changes" => {
            ["i1", "i2"].map(|name| json!({"metadata": {"name": name}, "data": {"k": "1"}})).to_vec()
        }
        _ => Vec::new(),
    };
    for object in objects {
        cluster.post(format!("{IN}/configmaps"), object).await.ok(201);
    }
}

async fn run(cluster: &TestCluster, case: &Value, foreign_writes: usize) -> Vec<Value> {
    let version = cluster.get(format!("{IN}/configmaps")).await.version();
    let query = case["query"].as_str().unwrap().replace("RV", &version);
    let path = if case["case"] == "old watch path" {
        format!("/api/v1/watch/namespaces/w/configmaps?{query}")
    } else {
        format!("{IN}/configmaps?watch=1&{query}")
    };
    let mut stream = cluster.request("GET", path).accept(case["accept"].as_str().unwrap()).stream().await;
    assert_eq!(u64::from(stream.status), case["status"].as_u64().unwrap());
    assert_eq!(stream.headers["content-type"].to_str().unwrap(), case["contentType"].as_str().unwrap());
    foreign(cluster, foreign_writes).await;
    for step in case["meanwhile"].as_array().unwrap() {
        let (method, path) = (step[0].as_str().unwrap(), format!("{IN}{}", step[1].as_str().unwrap()));
        let mut ask = cluster.request(method, path);
        if !step[2].is_null() {
            let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            ask = ask.typed(media, step[2].to_string());
        }
        let reply = ask.send().await;
        assert!(reply.status < 300, "{step}: {}", reply.text());
    }
    let first: i64 = version.parse().unwrap();
    let mut events: Vec<Value> =
        stream.rest().await.into_iter().map(|event| normalised(&relative(event, first))).collect();
    events.push(json!("END"));
    events
}

/// resourceVersions as differences to the version the case began at.
fn relative(mut event: Value, first: i64) -> Value {
    fn walk(value: &mut Value, first: i64) {
        match value {
            Value::Object(map) => {
                // The recording was made without them.
                map.remove("managedFields");
                for (key, value) in map {
                    match value {
                        Value::String(text) if key == "resourceVersion" => {
                            let version: i64 = text.parse().unwrap();
                            *text = format!("R+{}", version - first);
                        }
                        other => walk(other, first),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| walk(item, first)),
            _ => {}
        }
    }
    walk(&mut event, first);
    event
}

/// How many bookmarks come at the end of a timed watch depends on the moment; one stands for all. What a column
/// is about is told in our own words.
fn settled(mut events: Vec<Value>) -> Vec<Value> {
    for event in &mut events {
        let columns = event.pointer_mut("/object/columnDefinitions").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten() {
            column["description"] = json!("");
        }
    }
    events.dedup_by(|b, a| a["type"] == "BOOKMARK" && a == b);
    events
}
