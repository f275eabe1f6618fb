//! Secrets with a legacy service account token.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ROBOT: &str = "/api/v1/namespaces/default/serviceaccounts/robot";

async fn cluster() -> TestCluster {
    let cluster =
        TestCluster::with(Env::simulated(62), |config| config.cluster.root_ca = Some(PEM.to_owned())).await;
    let robot = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "other"}, {"name": "kept"}]});
    cluster.post("/api/v1/namespaces/default/serviceaccounts", robot).await.ok(201);
    cluster
}

fn secret(name: &str, account: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token"})
}

/// Once the controller had a moment.
async fn later(cluster: &TestCluster, path: &str) -> testkit::Reply {
    cluster.env().sleep(Duration::from_millis(100)).await;
    cluster.get(path).await
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_is_filled_with_a_valid_token() {
    let cluster = cluster().await;
    cluster.post(SECRETS, secret("kept", "robot")).await.ok(201);
    let path = format!("{SECRETS}/kept");
    let kept = later(&cluster, &path).await.ok(200);
    let data = |name: &str| {
        let text = kept["data"][name].as_str().unwrap_or_else(|| panic!("no {name} in {kept:#}"));
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    };
    assert_eq!((data("ca.crt").as_str(), data("namespace").as_str()), (PEM, "default"));
    let robot = cluster.get(ROBOT).await.ok(200);
    let annotations = &kept["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/service-account.uid"], robot["metadata"]["uid"]);
    let review = json!({"spec": {"token": data("token")}});
    let review = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.ok(201);
    assert_eq!(review["status"]["authenticated"], true, "{review:#}");
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:robot");

    // Changed data is repaired; correct data is left alone.
    cluster.merge(&path, json!({"data": {"namespace": null}})).await.ok(200);
    let mended = later(&cluster, &path).await.ok(200);
    assert_eq!(mended["data"], kept["data"]);
    let version = mended["metadata"]["resourceVersion"].clone();
    assert_eq!(later(&cluster, &path).await.ok(200)["metadata"]["resourceVersion"], version);

    // It goes, and the account does not speak of it any more.
    cluster.delete(&path).await.ok(200);
    assert_eq!(later(&cluster, ROBOT).await.ok(200)["secrets"], json!([{"name": "other"}]));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_is_deleted_with_its_account() {
    let cluster = cluster().await;
    cluster.post(SECRETS, secret("kept", "robot")).await.ok(201);
    cluster.post(SECRETS, json!({"metadata": {"name": "plain"}})).await.ok(201);
    cluster.post(SECRETS, secret("early", "nobody")).await.ok(201);
    later(&cluster, &format!("{SECRETS}/early")).await.ok(404);
    later(&cluster, &format!("{SECRETS}/kept")).await.ok(200);
    cluster.delete(ROBOT).await.ok(200);
    later(&cluster, &format!("{SECRETS}/kept")).await.ok(404);
    later(&cluster, &format!("{SECRETS}/plain")).await.ok(200);
    cluster.shutdown().await;
}
