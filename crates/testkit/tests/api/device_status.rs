//! The status of resource claims: who may change which part of it, and what goes with an allocation.

use auth::UserInfo;
use serde_json::{Value, json};
use testkit::TestCluster;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

async fn claim(cluster: &TestCluster) {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let claim = json!({"metadata": {"name": "x"}, "spec": {"devices": {"requests": [request]}}});
    cluster.post(CLAIMS, claim).await.ok(201);
}

fn device(name: &str) -> Value {
    json!({"driver": "a.b", "pool": "p", "device": name})
}

fn allocation(node: Option<&str>) -> Value {
    let mut result = device("d");
    result["request"] = json!("r");
    let mut allocation = json!({"devices": {"results": [result]}});
    if let Some(node) = node {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        allocation["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    }
    allocation
}

/// Lets a user do these besides writing the status of claims.
async fn grant(cluster: &TestCluster, user: &str, verbs: &[&str], resource: &str, names: &[&str]) {
    let door =
        json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["*"]});
    let more = json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs, "resourceNames": names});
    let role = json!({"metadata": {"name": user.replace(':', "-")}, "rules": [door, more]});
    cluster.post(format!("{RBAC}/clusterroles"), role).await.ok(201);
    let binding = json!({"metadata": {"name": user.replace(':', "-")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user.replace(':', "-")},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    cluster.post(format!("{RBAC}/clusterrolebindings"), binding).await.ok(201);
}

async fn patch(cluster: &TestCluster, user: &UserInfo, status: Value) -> (u16, String) {
    let ask = cluster.request("PATCH", format!("{CLAIMS}/x/status"));
    let body = json!({"status": status}).to_string();
    let reply = ask.by(user.clone()).typed("application/merge-patch+json", body).send().await;
    (reply.status, reply.json()["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn allocating_a_claim_needs_a_permission_of_its_own() {
    let cluster = TestCluster::simulated(71).await;
    claim(&cluster).await;
    grant(&cluster, "driver", &["arbitrary-node:patch"], "resourceclaims/driver", &["a.b"]).await;
    grant(&cluster, "binder", &["patch"], "resourceclaims/binding", &[]).await;
    let (driver, binder) = (UserInfo::new("driver", &[]), UserInfo::new("binder", &[]));
    let allocated = json!({"allocation": allocation(None)});
    let refused = patch(&cluster, &driver, allocated.clone()).await;
    let why = "ResourceClaim.resource.k8s.io \"x\" is invalid: status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"patch\" permission: resourceclaims.resource.k8s.io is forbidden: User \"driver\" cannot patch resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope";
    assert_eq!(refused, (422, why.to_owned()));
    assert_eq!(patch(&cluster, &binder, allocated).await.0, 200);
    let reserved = json!({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]});
    assert_eq!(patch(&cluster, &driver, reserved.clone()).await.0, 422);
    assert_eq!(patch(&cluster, &binder, reserved).await.0, 200);
    // The state of devices is their driver's.
    let devices = json!({"devices": [device("d")]});
    let refused = patch(&cluster, &binder, devices.clone()).await;
    let why = "ResourceClaim.resource.k8s.io \"x\" is invalid: status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:patch]\" permission: resourceclaims.resource.k8s.io \"a.b\" is forbidden: User \"binder\" cannot arbitrary-node:patch resource \"resourceclaims/driver\" in API group \"resource.k8s.io\" in the namespace \"default\"";
    assert_eq!(refused, (422, why.to_owned()));
    assert_eq!(patch(&cluster, &driver, devices).await.0, 200);
    // What was said of a device goes with its allocation, whoever takes it back.
    assert_eq!(patch(&cluster, &binder, json!({"allocation": null, "reservedFor": null})).await.0, 200);
    assert_eq!(cluster.get(format!("{CLAIMS}/x")).await.ok(200)["status"], json!({}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_on_the_node_of_the_devices_needs_less() {
    let cluster = TestCluster::simulated(72).await;
    claim(&cluster).await;
    let name = "system:serviceaccount:default:driver";
    grant(&cluster, name, &["associated-node:patch"], "resourceclaims/driver", &["a.b"]).await;
    let status = json!({"status": {"allocation": allocation(Some("n1"))}});
    cluster.merge(format!("{CLAIMS}/x/status"), status).await.ok(200);
    let on = |node: &str| {
        let mut user = UserInfo::new(name, &[]);
        user.extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec![node.to_owned()]);
        user
    };
    let devices = json!({"devices": [device("d")]});
    let (status, why) = patch(&cluster, &on("n2"), devices.clone()).await;
    assert_eq!(status, 422);
    assert!(why.contains("verb=\"[arbitrary-node:patch]\""), "{why}");
    assert_eq!(patch(&cluster, &on("n1"), devices).await.0, 200);
    cluster.shutdown().await;
}
