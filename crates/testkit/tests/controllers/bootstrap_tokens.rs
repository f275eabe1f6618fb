//! Bootstrap tokens: `cluster-info` is signed with them, and they go when they expire.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const INFO: &str = "/api/v1/namespaces/kube-public/configmaps";

fn token(cluster: &TestCluster, id: &str, lives_seconds: i64) -> Value {
    let ends = object::time::format_seconds(cluster.env().now_seconds() as i64 + lives_seconds);
    json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", "expiration": ends}})
}

#[tokio::test(start_paused = true)]
async fn cluster_info_is_signed_by_every_token_until_it_expires() {
    let cluster = TestCluster::simulated(911).await;
    let names = ["bootstrap-signer-controller", "token-cleaner-controller"];
    let plane = cluster.controllers(cluster.local_clients(), &names);
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "apiVersion: v1\n"}});
    cluster.post(INFO, info).await.ok(201);
    for (id, seconds) in [("aaaaaa", 600), ("bbbbbb", 7200)] {
        cluster.post(SECRETS, token(&cluster, id, seconds)).await.ok(201);
    }
    let path = format!("{INFO}/cluster-info");
    let signatures = || async {
        let map = cluster.get(&*path).await.json();
        let data = map["data"].as_object().cloned().unwrap_or_default();
        data.keys()
            .filter_map(|key| key.strip_prefix("jws-kubeconfig-"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    cluster.until("both have signed", || async { signatures().await == ["aaaaaa", "bbbbbb"] }).await;
    cluster.env().sleep(Duration::from_secs(590)).await;
    assert_eq!(cluster.get(format!("{SECRETS}/bootstrap-token-aaaaaa")).await.status, 200);
    cluster.env().sleep(Duration::from_secs(15)).await;
    assert_eq!(cluster.get(format!("{SECRETS}/bootstrap-token-aaaaaa")).await.status, 404);
    assert_eq!(signatures().await, ["bbbbbb"]);
    cluster.env().sleep(Duration::from_secs(7200)).await;
    assert_eq!(signatures().await, Vec::<String>::new());
    plane.stop().await;
    cluster.shutdown().await;
}
