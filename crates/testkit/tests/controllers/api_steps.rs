//! The part of the hour in `faults.rs` that is about the API's own objects: roles, ranges of services, certificates, quotas.

use auth::pki::new_request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::TestCluster;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// A role that becomes part of others by its label.
fn part(name: &str, of: &str) -> Value {
    let label = format!("rbac.authorization.k8s.io/aggregate-to-{of}");
    json!({"metadata": {"name": name, "labels": {label: "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": [name], "verbs": ["get"]}]})
}

/// A request for a certificate; where people decide, they approve it.
async fn ask(cluster: &TestCluster, name: &str, common_name: &str, group: &str, signer: &str, usage: &str) {
    let request = new_request(common_name, &[group.to_owned()], &[]).expect("a request").1;
    let spec = json!({"signerName": format!("kubernetes.io/{signer}"), "usages": [usage, "digital signature"],
        "request": STANDARD.encode(request)});
    let mut csr = cluster.post(REQUESTS, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
    if signer != KUBELET {
        csr["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
        cluster.put(format!("{REQUESTS}/{name}/approval"), csr).await.ok(200);
    }
}

/// A node asks for a serving certificate of the address its object shows.
async fn ask_to_serve(cluster: &TestCluster, node: &str) {
    let object = cluster.get(format!("/api/v1/nodes/{node}")).await.ok(200);
    let address = object["status"]["addresses"][0]["address"].as_str().expect("an address").to_owned();
    let user = format!("system:node:{node}");
    let groups = ["system:nodes".to_owned(), "system:authenticated".to_owned()];
    let request = new_request(&user, &groups[..1], &[node.to_owned(), address]).expect("a request").1;
    let spec = json!({"signerName": "kubernetes.io/kubelet-serving", "usages": ["server auth", "digital signature"],
        "request": STANDARD.encode(request)});
    let body = json!({"metadata": {"name": format!("serving-{node}")}, "spec": spec});
    let user = auth::UserInfo { name: user, groups: groups.to_vec(), ..auth::UserInfo::default() };
    cluster.request("POST", REQUESTS).json(&body).by(user).send().await.ok(201);
}

const KUBELET: &str = "kube-apiserver-client-kubelet";
const PEOPLE: &str = "kube-apiserver-client";

pub async fn begin(cluster: &TestCluster) {
    let quota = |name: &str, hard: Value| json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    let all = json!({"count/pods": "100", "pods": "100", "services": "50", "persistentvolumeclaims": "50",
        "count/deployments.apps": "9"});
    cluster.post(QUOTAS, quota("all", all)).await.ok(201);
    let mut urgent = quota("urgent", json!({"pods": "100"}));
    urgent["spec"]["scopeSelector"] =
        json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]});
    cluster.post(QUOTAS, urgent).await.ok(201);
    for (name, of) in [("widgets", "view"), ("gadgets", "view"), ("gizmos", "edit")] {
        cluster.post(ROLES, part(name, of)).await.ok(201);
    }
    for (name, range) in [("stays", "10.0.1.0/28"), ("goes", "10.0.2.0/28")] {
        let range = json!({"metadata": {"name": name}, "spec": {"cidrs": [range]}});
        cluster.post(CIDRS, range).await.ok(201);
    }
    let pinned =
        json!({"metadata": {"name": "pinned"}, "spec": {"clusterIP": "10.0.2.5", "ports": [{"port": 80}]}});
    cluster.post(SERVICES, pinned).await.ok(201);
}

/// A while before the end: the range waits for its address.
pub async fn middle(cluster: &TestCluster) {
    ask(cluster, "jane", "jane", "devs", PEOPLE, "client auth").await;
    ask(cluster, "refused", "jane", "devs", PEOPLE, "server auth").await;
    for node in ["one", "two", "three"] {
        ask(cluster, node, &format!("system:node:{node}"), "system:nodes", KUBELET, "client auth").await;
    }
    for node in ["sim-0", "sim-1", "sim-2"] {
        ask_to_serve(cluster, node).await;
    }
    cluster.delete(format!("{CIDRS}/goes")).await.ok(200);
}

pub async fn end(cluster: &TestCluster) {
    let more =
        json!({"rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["list"]}]});
    cluster.merge(format!("{ROLES}/widgets"), more).await.ok(200);
    cluster.delete(format!("{ROLES}/gadgets")).await.ok(200);
    let label = |of: &str| format!("rbac.authorization.k8s.io/aggregate-to-{of}");
    let moved = json!({"metadata": {"labels": {label("edit"): null, label("view"): "true"}}});
    cluster.merge(format!("{ROLES}/gizmos"), moved).await.ok(200);
    cluster.delete(format!("{SERVICES}/pinned")).await.ok(200);
    cluster
        .merge(format!("{QUOTAS}/all"), json!({"spec": {"hard": {"count/deployments.apps": null}}}))
        .await
        .ok(200);
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
    let range = |name: &str| state.lines().find(|line| line.starts_with(&format!("servicecidrs /{name} ")));
    assert_eq!(range("goes"), None, "its last address is gone");
    for name in ["kubernetes", "stays"] {
        let is_ready =
            |range: &str| range.contains("service-cidr-finalizer") && range.contains("Service CIDR is ready");
        assert!(range(name).is_some_and(is_ready), "{:?}", range(name));
    }
    let request = |name: &str| {
        let begins = format!("certificatesigningrequests /{name} ");
        state.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("no {name}:\n{state}"))
    };
    for name in ["jane", "one", "two", "three", "serving-sim-0", "serving-sim-1", "serving-sim-2"] {
        assert!(request(name).contains(r#""certificate":"*""#), "{}", request(name));
    }
    assert!(request("refused").contains("SignerValidationFailure"), "{}", request("refused"));
    let count =
        |plural: &str| state.lines().filter(|line| line.starts_with(&format!("{plural} default/"))).count();
    let quota = state.lines().find(|line| line.starts_with("resourcequotas default/all "));
    let used = format!(
        r#""used":{{"count/pods":"{pods}","persistentvolumeclaims":"{}","pods":"{pods}","services":"{}"}}"#,
        count("persistentvolumeclaims"),
        count("services"),
        pods = count("pods"),
    );
    assert!(quota.is_some_and(|quota| quota.contains(&used)), "{used}: {quota:?}");
}
