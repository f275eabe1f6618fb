//! Two whole control planes on one etcd: one leads, and when it dies the other takes over.

use serde_json::{Value, json};

use crate::etcd_server::Etcd;
use crate::harness::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

#[tokio::test(flavor = "multi_thread")]
async fn the_second_control_plane_takes_over_when_the_leader_dies() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let store = etcd.store();
    let one = Proc::start_cluster(&folder.path().join("one"), &["--store", &store]);
    let first = until(&one.client().await, LEASE, "somebody leads", |lease| !holder(lease).is_empty()).await;
    // The nodes belong to the second server: they live on when the first one dies.
    let two = Proc::start_cluster(&folder.path().join("two"), &["--store", &store, "--simulated-nodes", "2"]);
    let client = two.client().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    let (code, made) = call(&client, "POST", DEPLOYMENTS, Some(web)).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{DEPLOYMENTS}/web");
    until(&client, &path, "the leader's loops act", |web| web["status"]["readyReplicas"] == 2).await;
    let lease = call(&client, "GET", LEASE, None).await.1;
    assert_eq!(holder(&lease), holder(&first), "the second one leads though the first one lives");

    one.kill();
    assert_eq!(call(&client, "PATCH", &path, Some(json!({"spec": {"replicas": 4}}))).await.0, 200);
    until(&client, &path, "the new leader's loops act", |web| web["status"]["readyReplicas"] == 4).await;
    let lease = call(&client, "GET", LEASE, None).await.1;
    assert_ne!(holder(&lease), holder(&first));
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    two.stop();
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

async fn until(client: &kube::Client, path: &str, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let (_, object) = call(client, "GET", path, None).await;
        if so(&object) {
            return object;
        }
        assert!(std::time::Instant::now() < deadline, "waited in vain until {what}: {object}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
