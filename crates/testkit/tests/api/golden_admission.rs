//! Recorded answers of kube-apiserver v1.36.4 to requests its admission plugins complete, warn about or refuse.

use serde_json::{Value, json};
use testkit::TestCluster;

/// In the order they were recorded, each with what the ones before it left behind. Accounts named `default` were
/// there. Of objects everything was recorded but identity, times and status.
const CASES: &str = include_str!("../golden/admission.jsonl");

#[tokio::test(start_paused = true)]
async fn recorded_admission_is_repeated() {
    let cluster = TestCluster::simulated(81).await;
    let mut failures = Vec::new();
    let mut seen = 0;
    for (n, line) in CASES.lines().enumerate() {
        seen += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str().unwrap();
        let reply = cluster
            .request(text("method"), text("path"))
            .typed(text("type"), case["body"].to_string())
            .send()
            .await;
        let mut warnings = reply.warnings();
        // Those of validation are not what this is about.
        warnings.retain(|w| !w.starts_with("299 - \"metadata.annotations["));
        let got = json!({"status": reply.status, "warnings": warnings, "answer": stripped(reply.json())});
        let want = json!({"status": case["status"], "warnings": case["warnings"], "answer": case["answer"]});
        if got != want {
            let (method, path) = (text("method"), text("path"));
            failures.push(format!("line {}: {method} {path}\n  got  {got}\n  want {want}", n + 1));
        }
    }
    assert!(failures.is_empty(), "{} of {seen}:\n{}", failures.len(), failures.join("\n"));
    cluster.shutdown().await;
}

fn stripped(mut object: Value) -> Value {
    if object["kind"] != "Status" {
        object.as_object_mut().unwrap().remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for ours in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(ours);
        }
    }
    let text = object.to_string();
    let parts: Vec<&str> = text.split("kube-api-access-").collect();
    let rest = parts.iter().skip(1).map(|part| format!("kube-api-access-SUFFX{}", &part[5..]));
    serde_json::from_str(&format!("{}{}", parts[0], rest.collect::<String>())).unwrap()
}
