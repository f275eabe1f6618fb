//! Recorded answers of kube-apiserver v1.36.4, request by request.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

use crate::text::{normalised, normalised_text};

const CASES: &str = include_str!("../golden/errors.jsonl");

#[tokio::test(start_paused = true)]
async fn recorded_answers_are_given() {
    let cluster = recorded_state().await;
    let mut failures = Vec::new();
    let mut cases = 0;
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["case"].as_str().unwrap().to_owned();
        if name == "quota exceeded" {
            fill_quota(&cluster).await;
        }
        let reply = ask(&cluster, &case).await;
        if let Err(why) = compare(&case, &reply) {
            failures.push(format!("{name}: {why}"));
        }
        cases += 1;
    }
    assert!(failures.is_empty(), "{} of {cases} cases:\n{}", failures.len(), failures.join("\n\n"));
    cluster.shutdown().await;
}

/// What stood in the recorded cluster before the first request.
async fn recorded_state() -> TestCluster {
    let cluster = TestCluster::simulated(1).await;
    let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    for (name, labels) in [("errs", json!({})), ("dying", json!({})), ("safe", restricted)] {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        cluster.post("/api/v1/namespaces", namespace).await.ok(201);
    }
    let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                       such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                       distributions of Kubernetes clusters.";
    let ca = json!({"metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": description}}});
    cluster.post("/api/v1/namespaces/errs/configmaps", ca).await.ok(201);
    let a = json!({"metadata": {"name": "a"}, "data": {"a": "b", "c": "d"}});
    cluster.post("/api/v1/namespaces/errs/configmaps", a).await.ok(201);
    let kept = json!({"metadata": {"name": "kept", "finalizers": ["example.com/keep"]}});
    cluster.post("/api/v1/namespaces/dying/configmaps", kept).await.ok(201);
    cluster.delete("/api/v1/namespaces/dying").await.ok(200);
    cluster
}

/// Before the cases of quotas a quota was made that is used up.
async fn fill_quota(cluster: &TestCluster) {
    let errs = "/api/v1/namespaces/errs";
    cluster.delete(format!("{errs}/pods?gracePeriodSeconds=0")).await.ok(200);
    cluster.settled().await;
    let pod = json!({"metadata": {"name": "p1"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    cluster.post(format!("{errs}/pods"), pod).await.ok(201);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "0", "pods": "1"}}});
    cluster.post(format!("{errs}/resourcequotas"), quota).await.ok(201);
    cluster
        .until("the quota is used up", || async {
            cluster.get(format!("{errs}/resourcequotas/q")).await.json()["status"]["used"]["pods"] == "1"
        })
        .await;
}

async fn ask(cluster: &TestCluster, case: &Value) -> Reply {
    let request = &case["request"];
    let text = |key: &str| request[key].as_str();
    let mut ask = cluster.request(text("method").unwrap(), text("path").unwrap());
    if let Some(body) = body_of(case) {
        ask = ask.typed(text("contentType").unwrap_or("application/json"), body);
    }
    if let Some(accept) = text("accept") {
        ask = ask.accept(accept);
    }
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        ask = ask.header(name, value.as_str().unwrap());
    }
    match text("token") {
        None | Some("admintoken") => {}
        Some("none") => ask = ask.unproven(),
        Some(token) => ask = ask.unproven().header("Authorization", &format!("Bearer {token}")),
    }
    ask.send().await
}

/// Large bodies were not recorded in full.
fn body_of(case: &Value) -> Option<String> {
    let big = |bytes: usize| "x".repeat(bytes);
    match case["case"].as_str()? {
        "body too large" => {
            return Some(
                json!({"metadata": {"name": "big", "annotations": {"a": big(4 << 20)}}}).to_string(),
            );
        }
        "annotations too large" => {
            return Some(
                json!({"metadata": {"name": "big", "annotations": {"a": big(300_000)}}}).to_string(),
            );
        }
        "data too large" => {
            return Some(json!({"metadata": {"name": "big"}, "data": {"a": big(1_100_000)}}).to_string());
        }
        _ => {}
    }
    match case["request"].get("body")? {
        Value::String(text) => Some(text.clone()),
        body => Some(body.to_string()),
    }
}

fn compare(case: &Value, reply: &Reply) -> Result<(), String> {
    let recorded = |key: &str| case[key].clone();
    let status = case["status"].as_u64().unwrap() as u16;
    if reply.status != status {
        return Err(format!("status {} instead of {status}: {}", reply.status, reply.text()));
    }
    if json!(reply.content_type()) != recorded("contentType") {
        return Err(format!("content type {}", reply.content_type()));
    }
    if json!(reply.warnings()) != recorded("warnings") {
        return Err(format!("warnings {:?} instead of {}", reply.warnings(), case["warnings"]));
    }
    let wanted = normalised(&case["answer"]);
    match &wanted {
        Value::String(text) if reply.text().starts_with('{') => {
            // A stream, recorded up to some length.
            let got = normalised_text(&reply.text());
            let got: String = got.chars().take(text.chars().count()).collect();
            if got == *text { Ok(()) } else { Err(format!("\n  got  {got}\n  want {text}")) }
        }
        Value::Object(fields) if status < 300 && fields.get("kind") != Some(&json!("Status")) => {
            // Of objects only the type was recorded.
            let got = reply.json();
            match fields.iter().find(|(k, v)| got.get(k.as_str()) != Some(v)) {
                None => Ok(()),
                Some((key, _)) => Err(format!("{key} is {}", got[key])),
            }
        }
        wanted => {
            let got = normalised(&reply.json());
            if got == *wanted { Ok(()) } else { Err(format!("\n  got  {got}\n  want {wanted}")) }
        }
    }
}
