//! Default ServiceAccounts, their tokens and the root CA: created by controllers like all others.

use std::time::Duration;

use client::Clients;
use env::Env;
use serde_json::json;
use testkit::{ControlPlane, TestCluster};

const SECRET: &str = "/api/v1/namespaces/default/secrets/robot";

async fn cluster(seed: u64) -> TestCluster {
    TestCluster::bare(Env::simulated(seed), |config| config.cluster.root_ca = Some("PEM".to_owned())).await
}

fn start(cluster: &TestCluster, clients: std::sync::Arc<dyn Clients>) -> ControlPlane {
    cluster.controllers(clients, &controllers::ACCOUNTS)
}

async fn make_robot(cluster: &TestCluster) {
    let robot = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot"}]});
    cluster.post("/api/v1/namespaces/default/serviceaccounts", robot).await.ok(201);
    let secret = json!({"metadata": {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token"});
    cluster.post("/api/v1/namespaces/default/secrets", secret).await.ok(201);
}

/// Ten minutes in which nothing is written.
async fn rests(cluster: &TestCluster) {
    cluster.env().sleep(Duration::from_secs(5)).await;
    let before = cluster.api().registry().table().revision();
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.api().registry().table().revision(), before, "something is written without a reason");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_controllers_creates_no_service_accounts() {
    let cluster = cluster(1).await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    for (path, plane) in [("serviceaccounts", false), ("configmaps", false), ("serviceaccounts", true)] {
        let plane = plane.then(|| start(&cluster, cluster.local_clients()));
        cluster.env().sleep(Duration::from_secs(1)).await;
        let name = if path == "configmaps" { "kube-root-ca.crt" } else { "default" };
        let there = cluster.get(format!("/api/v1/namespaces/default/{path}/{name}")).await.status;
        assert_eq!(there, if plane.is_some() { 200 } else { 404 }, "{path}/{name}");
        if let Some(plane) = plane {
            plane.stop().await;
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn accounts_and_tokens_are_created_over_http_too() {
    let cluster = cluster(2).await;
    let plane = start(&cluster, std::sync::Arc::new(cluster.http_clients()));
    cluster.settled().await;
    make_robot(&cluster).await;
    let filled = || async { cluster.get(SECRET).await.json()["data"]["token"].is_string() };
    cluster.until("the secret holds a token", filled).await;
    let map = cluster.get("/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt").await.ok(200);
    assert_eq!(map["data"], json!({"ca.crt": "PEM"}));
    rests(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_account_that_comes_back_under_its_name_does_not_inherit_the_token() {
    let cluster = cluster(3).await;
    let plane = start(&cluster, cluster.local_clients());
    cluster.settled().await;
    make_robot(&cluster).await;
    let filled = || async { cluster.get(SECRET).await.json()["data"]["token"].is_string() };
    cluster.until("the secret holds a token", filled).await;
    // While nobody looks, the account goes and another of its name comes.
    plane.stop().await;
    let account = "/api/v1/namespaces/default/serviceaccounts/robot";
    cluster.delete(account).await.ok(200);
    let again = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot"}]});
    cluster.post("/api/v1/namespaces/default/serviceaccounts", again).await.ok(201);
    let plane = start(&cluster, cluster.local_clients());
    let gone = || async { cluster.get(SECRET).await.status == 404 };
    cluster.until("the token of the old account is gone", gone).await;
    rests(&cluster).await;
    // The reference is the new account's own: the token that went was never its.
    assert_eq!(cluster.get(account).await.ok(200)["secrets"], json!([{"name": "robot"}]));
    plane.stop().await;
    cluster.shutdown().await;
}
