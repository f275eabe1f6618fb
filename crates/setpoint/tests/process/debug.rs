//! `/debug/controllers` of the real server over HTTPS, and who may read it.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn debug_controllers_is_shown_to_administrators_only() {
    let folder = folder();
    let server = Proc::up(&folder.path().join("data"), &["--simulated-nodes", "1"]);
    let client = server.client().await;
    let loops = [
        "deployment-controller",
        "pod-garbage-collector-controller",
        "root-ca-cert-publisher",
        "node-status",
    ];
    // The server is ready before its controllers are.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (code, shown) = call(&client, "GET", "/debug/controllers", None).await;
        assert_eq!(code, 200, "{shown:#}");
        let all = shown["controllers"].as_array().cloned().unwrap_or_default();
        let has = |name: &&str| all.iter().any(|entry| entry["name"] == **name);
        if loops.iter().all(has) && shown["scheduler"]["queues"].is_object() && has_turn(&all) {
            break;
        }
        assert!(Instant::now() < deadline, "not all loops are shown: {shown:#}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // As `kubectl get --raw` asks: a page for people.
    let path = "/debug/controllers?controller=root-ca-cert-publisher";
    let told =
        "  default  publish the authority\n    because namespaces default: added by system:apiserver (";
    loop {
        let asked =
            http::Request::get(path).header("Accept", "application/json, */*").body(Vec::new()).unwrap();
        let page = client.request_text(asked).await.unwrap();
        assert!(!page.contains("deployment-controller"), "{page}");
        if page.contains(told) {
            assert!(page.contains("\nroot-ca-cert-publisher: "), "{page}");
            break;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (code, _) = call(&server.anonymous().await, "GET", "/debug/controllers", None).await;
    assert_eq!(code, 403, "not for everybody");

    // Nor for somebody who is known, but was not given this.
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = loop {
        let (code, answer) = call(&client, "POST", path, Some(asked.clone())).await;
        // A controller makes the account.
        if code != 404 {
            assert_eq!(code, 201, "{answer}");
            break answer;
        }
        assert!(Instant::now() < deadline, "no account: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let token = answer["status"]["token"].as_str().expect("a token").to_owned();
    let mut config = server.config().await;
    config.auth_info = kube::config::AuthInfo { token: Some(token.into()), ..Default::default() };
    let robot = kube::Client::try_from(config).unwrap();
    let (code, refused) = call(&robot, "GET", "/debug/controllers", None).await;
    assert_eq!(code, 403, "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("system:serviceaccount:default:default"), "{refused}");
    server.stop();
}

/// Somebody did something, and it is said why and what came of it.
fn has_turn(all: &[Value]) -> bool {
    all.iter().flat_map(|entry| entry["recent"].as_array().cloned().unwrap_or_default()).any(|turn| {
        turn["causes"].as_array().is_some_and(|causes| !causes.is_empty()) && turn["result"] == "done"
    })
}
