//! Legacy service account tokens: their use is recorded, and those nobody uses go.

use std::time::Duration;

use serde_json::json;
use testkit::TestCluster;

const TRACKING: &str =
    "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const DAY: u64 = 24 * 3600;

/// A token an account names as its own.
async fn auto_generated(cluster: &TestCluster, name: &str) -> String {
    let robot = json!({"metadata": {"name": name}, "secrets": [{"name": name}]});
    cluster.post("/api/v1/namespaces/default/serviceaccounts", robot).await.ok(201);
    let secret = json!({"metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": name}},
        "type": "kubernetes.io/service-account-token"});
    cluster.post(SECRETS, secret).await.ok(201);
    let path = format!("{SECRETS}/{name}");
    let filled = || async { cluster.get(&*path).await.json()["data"]["token"].is_string() };
    cluster.until("the secret holds a token", filled).await;
    path
}

/// Uses the token of a Secret.
async fn ask(cluster: &TestCluster, path: &str) -> u16 {
    answer(cluster, path).await.status
}

async fn answer(cluster: &TestCluster, path: &str) -> testkit::Reply {
    use base64::Engine;
    let encoded = cluster.get(path).await.json()["data"]["token"].as_str().unwrap_or("").to_owned();
    let token = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
    let bearer = format!("Bearer {}", String::from_utf8(token).expect("text"));
    let ask = cluster.request("GET", "/api/v1/namespaces/default/configmaps");
    ask.unproven().header("authorization", &bearer).send().await
}

async fn label(cluster: &TestCluster, path: &str, name: &str) -> Option<String> {
    let secret = cluster.get(path).await.json();
    secret["metadata"]["labels"][format!("kubernetes.io/legacy-token-{name}")].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_token_that_came_with_its_account_is_warned_about() {
    let cluster = TestCluster::simulated(923).await;
    let path = auto_generated(&cluster, "robot").await;
    let warned = answer(&cluster, &path).await;
    assert_eq!(warned.status, 403, "refused or not");
    let words = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.";
    assert_eq!(warned.warnings(), [format!("299 - \"{words}\"")]);
    // By hand: the account does not name it.
    let account = "/api/v1/namespaces/default/serviceaccounts/robot";
    cluster.merge(account, json!({"secrets": null})).await.ok(200);
    assert!(answer(&cluster, &path).await.warnings().is_empty());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_use_of_a_day_is_recorded() {
    let cluster = TestCluster::simulated(921).await;
    let path = auto_generated(&cluster, "robot").await;
    let date = |cluster: &TestCluster| {
        object::time::format_seconds(cluster.env().now_seconds() as i64)[..10].to_owned()
    };
    let since = cluster.get(TRACKING).await.ok(200)["data"]["since"].clone();
    assert_eq!(since, json!(date(&cluster)));
    assert_eq!(label(&cluster, &path, "last-used").await, None);
    assert_eq!(ask(&cluster, &path).await, 403, "it is known who asks");
    let today = date(&cluster);
    cluster
        .until("the use is recorded", || async {
            label(&cluster, &path, "last-used").await == Some(today.clone())
        })
        .await;
    let version = cluster.get(&*path).await.version();
    ask(&cluster, &path).await;
    cluster.env().sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.get(&*path).await.version(), version, "once a day");
    cluster.env().sleep(Duration::from_secs(DAY + DAY / 2)).await;
    ask(&cluster, &path).await;
    let later = date(&cluster);
    cluster
        .until("the next use is recorded", || async {
            label(&cluster, &path, "last-used").await == Some(later.clone())
        })
        .await;

    // Spoiled, it is set right; deleted, it comes again, but not at once.
    cluster.merge(TRACKING, json!({"data": {"since": "whenever"}})).await.ok(200);
    let good = || async { cluster.get(TRACKING).await.json()["data"]["since"] == json!(date(&cluster)) };
    cluster.until("the date is set right", good).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_nobody_uses_becomes_invalid_and_then_goes() {
    let cluster = TestCluster::simulated(922).await;
    let unused = auto_generated(&cluster, "unused").await;
    let used = auto_generated(&cluster, "used").await;
    let mounted = auto_generated(&cluster, "mounted").await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}]}});
    cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
    let period = Duration::from_secs(DAY);
    let settings = controllers::Settings {
        legacy_service_account_token_clean_up_period: period,
        ..controllers::Settings::default()
    };
    let plane = cluster.controllers_with(&["legacy-serviceaccount-token-cleaner-controller"], settings);
    for _ in 0..3 {
        cluster.env().sleep(Duration::from_secs(DAY)).await;
        ask(&cluster, &used).await;
    }
    assert!(label(&cluster, &unused, "invalid-since").await.is_some());
    assert_eq!(ask(&cluster, &unused).await, 401, "it is invalid");
    cluster.env().sleep(Duration::from_secs(30)).await;
    cluster.env().sleep(Duration::from_secs(DAY)).await;
    ask(&cluster, &used).await;
    // Its last use, though refused, counts.
    assert_eq!(cluster.get(&*unused).await.status, 200);
    for _ in 0..2 {
        cluster.env().sleep(Duration::from_secs(DAY)).await;
        ask(&cluster, &used).await;
    }
    assert_eq!(cluster.get(&*unused).await.status, 404);
    for stays in [&used, &mounted] {
        assert_eq!(cluster.get(&**stays).await.status, 200);
        assert_eq!(label(&cluster, stays, "invalid-since").await, None);
    }
    plane.stop().await;
    cluster.shutdown().await;
}
