//! The part of the hour in `faults.rs` that is about the API's own objects: roles.

use serde_json::{Value, json};
use testkit::TestCluster;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// A role that becomes part of others by its label.
fn part(name: &str, of: &str) -> Value {
    let label = format!("rbac.authorization.k8s.io/aggregate-to-{of}");
    json!({"metadata": {"name": name, "labels": {label: "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": [name], "verbs": ["get"]}]})
}

pub async fn begin(cluster: &TestCluster) {
    for (name, of) in [("widgets", "view"), ("gadgets", "view"), ("gizmos", "edit")] {
        cluster.post(ROLES, part(name, of)).await.ok(201);
    }
}

pub async fn end(cluster: &TestCluster) {
    let more = json!({"rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["list"]}]});
    cluster.merge(format!("{ROLES}/widgets"), more).await.ok(200);
    cluster.delete(format!("{ROLES}/gadgets")).await.ok(200);
    let label = |of: &str| format!("rbac.authorization.k8s.io/aggregate-to-{of}");
    let moved = json!({"metadata": {"labels": {label("edit"): null, label("view"): "true"}}});
    cluster.merge(format!("{ROLES}/gizmos"), moved).await.ok(200);
}

pub fn check(state: &str) {
    let role = |name: &str| {
        let begins = format!("clusterroles /{name} ");
        state.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("no {name}:\n{state}"))
    };
    let (view, edit) = (role("view"), role("edit"));
    assert!(view.contains(r#""resources":["widgets"],"verbs":["list"]"#), "{view}");
    assert!(view.contains("gizmos") && !view.contains("gadgets"), "{view}");
    // What may be viewed may be edited, too, and no more.
    assert!(edit.contains("widgets") && edit.contains("gizmos"), "{edit}");
}
