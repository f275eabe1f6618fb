//! What every namespace gets: a default ServiceAccount, and the root CA.

use std::time::Duration;

use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";

async fn cluster() -> TestCluster {
    TestCluster::with(Env::simulated(61), |config| config.cluster.root_ca = Some(PEM.to_owned())).await
}

/// Once the controllers had a moment.
async fn later(cluster: &TestCluster, path: &str) -> Value {
    cluster.env().sleep(Duration::from_millis(100)).await;
    cluster.get(path).await.ok(200)
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_a_default_account_and_the_root_ca() {
    let cluster = cluster().await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.ok(201);
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease", "n"] {
        later(&cluster, &format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")).await;
        let map =
            later(&cluster, &format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")).await;
        assert_eq!(map["data"], json!({"ca.crt": PEM}));
        let told = map["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap();
        assert!(told.starts_with("Contains a CA bundle that can be used to verify the kube-apiserver"));
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_or_changed_objects_are_restored() {
    let cluster = cluster().await;
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    let map = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let first = later(&cluster, account).await;
    cluster.delete(account).await.ok(200);
    let second = later(&cluster, account).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    // What people make of the account stays.
    cluster.merge(account, json!({"automountServiceAccountToken": false})).await.ok(200);
    assert_eq!(later(&cluster, account).await["automountServiceAccountToken"], json!(false));

    let first = later(&cluster, map).await;
    cluster.merge(map, json!({"data": {"ca.crt": "x", "more": "y"}})).await.ok(200);
    assert_eq!(later(&cluster, map).await["data"], json!({"ca.crt": PEM}));
    cluster.merge(map, json!({"metadata": {"annotations": null}})).await.ok(200);
    assert_eq!(later(&cluster, map).await["metadata"]["annotations"], first["metadata"]["annotations"]);
    cluster.delete(map).await.ok(200);
    assert_eq!(later(&cluster, map).await["data"], json!({"ca.crt": PEM}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_gets_nothing_back() {
    let cluster = cluster().await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.ok(201);
    let account = "/api/v1/namespaces/n/serviceaccounts/default";
    later(&cluster, account).await;
    cluster.delete("/api/v1/namespaces/n").await.ok(200);
    cluster.delete(account).await;
    cluster.env().sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.get(account).await.status, 404);
    cluster.shutdown().await;
}
