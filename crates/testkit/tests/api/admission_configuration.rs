//! `--admission-control-config-file`: what plugins do when they are told, and who the server is to webhooks.

use apiserver::AdmissionConfiguration;
use auth::pki::{Issuer, SigningRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::webhook_server::{Reply, WebhookServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// A cluster with these plugins configured; `folder` is where other files are.
async fn configured(env: Env, folder: &tempfile::TempDir, plugins: Value) -> TestCluster {
    let path = folder.path().join("admission.json");
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins});
    std::fs::write(&path, file.to_string()).unwrap();
    let loaded = AdmissionConfiguration::load(&path).unwrap_or_else(|error| panic!("{error}"));
    TestCluster::with(env, |config| config.admission_configuration = loaded).await
}

fn pod(name: &str, spec: Value) -> Value {
    let mut all =
        json!({"containers": [{"name": "c", "image": "x", "securityContext": {"privileged": true}}]});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": all})
}

#[tokio::test(start_paused = true)]
async fn pod_security_has_defaults_and_exemptions() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = json!({"name": "PodSecurity", "configuration": {
        "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline", "enforce-version": "v1.30"},
        "exemptions": {"usernames": ["jane"], "namespaces": ["free"], "runtimeClasses": ["sandbox"]},
    }});
    let cluster = configured(Env::simulated(1), &folder, json!([plugin])).await;
    let namespaces = "/api/v1/namespaces";
    for (name, labels) in
        [("plain", json!({})), ("open", json!({"pod-security.kubernetes.io/enforce": "privileged"}))]
    {
        cluster.post(namespaces, json!({"metadata": {"name": name, "labels": labels}})).await.ok(201);
    }
    let labelled =
        json!({"metadata": {"name": "free", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let made = cluster.post(namespaces, labelled).await;
    made.ok(201);
    let ignored = "namespace \"free\" is exempt from Pod Security, and the policy (enforce=restricted:v1.30) will be ignored";
    let warning = format!("299 - \"{}\"", ignored.replace('"', "\\\""));
    assert_eq!(made.warnings(), [warning]);
    cluster.settled().await;
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "sandbox"});
    cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class).await.ok(201);

    let at = |namespace: &str| format!("/api/v1/namespaces/{namespace}/pods");
    let refused = cluster.post(at("plain"), pod("p", json!({}))).await.ok(403);
    let why = "violates PodSecurity \"baseline:v1.30\": privileged (container \"c\" must not set securityContext.privileged=true)";
    assert_eq!(refused["message"], format!("pods \"p\" is forbidden: {why}"));
    cluster.post(at("open"), pod("p", json!({}))).await.ok(201);
    cluster.post(at("free"), pod("p", json!({}))).await.ok(201);
    cluster.post(at("plain"), pod("boxed", json!({"runtimeClassName": "sandbox"}))).await.ok(201);
    let jane = auth::UserInfo::new("jane", &[auth::groups::MASTERS]);
    let ask = cluster.request("POST", at("plain")).json(&pod("hers", json!({}))).by(jane);
    ask.send().await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn limited_resources_need_a_quota_that_covers_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
        "limitedResources": [{"resource": "configmaps", "matchContains": ["count/configmaps"]}]});
    std::fs::write(folder.path().join("quota.json"), file.to_string()).unwrap();
    let plugins = json!([{"name": "ResourceQuota", "path": "quota.json"}]);
    let cluster = configured(Env::simulated(2), &folder, plugins).await;
    let map = |name: &str| json!({"metadata": {"name": name}});
    let refused = cluster.post(MAPS, map("a")).await.ok(403);
    let why = "configmaps \"a\" is forbidden: insufficient quota to consume: count/configmaps";
    assert_eq!(refused["message"], why);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "5"}}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).await.ok(201);
    cluster.post(MAPS, map("a")).await.ok(201);
    cluster.shutdown().await;
}

fn allow(_: &str, review: &Value) -> Reply {
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    Reply::Review(
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
    )
}

async fn hook(cluster: &TestCluster, path: &str, server: &WebhookServer) {
    let hook = json!({
        "name": "hook.example.io", "clientConfig": server.config("/v"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    cluster.post(path, json!({"metadata": {"name": "hook"}, "webhooks": [hook]})).await.ok(201);
}

/// A plugin of webhooks with these users.
fn webhooks(folder: &tempfile::TempDir, plugin: &str, users: Value) -> Value {
    let path = folder.path().join(format!("{plugin}.kubeconfig"));
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "Config", "users": users}).to_string()).unwrap();
    json!({"name": plugin, "configuration": {
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": path}})
}

#[tokio::test]
async fn webhooks_are_shown_the_token_of_their_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = WebhookServer::start(allow).await;
    let port = server.port();
    std::fs::write(folder.path().join("token"), "from-a-file\n").unwrap();
    let validating = json!([
        {"name": format!("127.0.0.1:{port}"), "user": {"token": "of-the-server"}},
        {"name": "*", "user": {"token": "of-everybody"}},
    ]);
    let mutating = json!([{"name": "*", "user": {"tokenFile": "token"}}]);
    let plugins = json!([
        webhooks(&folder, "ValidatingAdmissionWebhook", validating),
        webhooks(&folder, "MutatingAdmissionWebhook", mutating),
    ]);
    let cluster = configured(Env::machine(), &folder, plugins).await;
    hook(&cluster, VALIDATING, &server).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    assert_eq!(server.authorization().as_deref(), Some("Bearer of-the-server"));
    cluster.delete(format!("{VALIDATING}/hook")).await.ok(200);
    hook(&cluster, MUTATING, &server).await;
    cluster.post(MAPS, json!({"metadata": {"name": "b"}})).await.ok(201);
    assert_eq!(server.authorization().as_deref(), Some("Bearer from-a-file"));
    cluster.shutdown().await;
}

#[tokio::test]
async fn webhooks_are_shown_the_token_of_a_plugin() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let server = WebhookServer::start(allow).await;
    let plugin = folder.path().join("plugin");
    let print = |token: &str, code: u8| {
        let credential = json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": token}});
        std::fs::write(&plugin, format!("#!/bin/sh\necho '{credential}'\nexit {code}\n")).unwrap();
        std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    print("of-the-plugin", 0);
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"});
    let users = json!([{"name": "*", "user": {"exec": exec}}]);
    let plugins = json!([webhooks(&folder, "ValidatingAdmissionWebhook", users)]);
    let cluster = configured(Env::machine(), &folder, plugins).await;
    hook(&cluster, VALIDATING, &server).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    assert_eq!(server.authorization().as_deref(), Some("Bearer of-the-plugin"));
    // One that the webhook does not take any more is asked for again.
    print("of-tomorrow", 0);
    server.answers(|_, _| Reply::Raw(401, ""));
    cluster.post(MAPS, json!({"metadata": {"name": "b"}})).await.ok(500);
    server.answers(allow);
    cluster.post(MAPS, json!({"metadata": {"name": "b"}})).await.ok(201);
    assert_eq!(server.authorization().as_deref(), Some("Bearer of-tomorrow"));
    print("", 7);
    server.answers(|_, _| Reply::Raw(401, ""));
    cluster.post(MAPS, json!({"metadata": {"name": "c"}})).await.ok(500);
    let refused = cluster.post(MAPS, json!({"metadata": {"name": "c"}})).await.ok(500);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("failed to call webhook: Post \"https://127.0.0.1:"), "{message}");
    assert!(message.contains("getting credentials: exec: executable "), "{message}");
    assert!(message.contains("failed with exit code 7"), "{message}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn webhooks_are_shown_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let now = Env::machine().now_seconds();
    let issuer = Issuer::in_memory(now).unwrap();
    let (key, request) = auth::pki::new_request("admission", &[], &[]).unwrap();
    let request = SigningRequest::from_pem(request.as_bytes()).unwrap();
    let certificate = issuer.issue(&request, &["client auth", "digital signature"], 3600, now).unwrap();
    let key_pem =
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(&key));
    std::fs::write(folder.path().join("client.key"), key_pem).unwrap();
    let user = json!({"client-certificate-data": STANDARD.encode(&certificate), "client-key": "client.key"});
    let plugins =
        json!([webhooks(&folder, "ValidatingAdmissionWebhook", json!([{"name": "*", "user": user}]))]);

    let server = WebhookServer::start_for(Some(&issuer), allow).await;
    let known = configured(Env::machine(), &folder, plugins).await;
    hook(&known, VALIDATING, &server).await;
    known.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    assert_eq!(server.asked().len(), 1);
    known.shutdown().await;

    let unknown = TestCluster::start().await;
    hook(&unknown, VALIDATING, &server).await;
    let refused = unknown.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(500);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("failed calling webhook \"hook.example.io\""), "{message}");
    assert_eq!(server.asked().len(), 0);
    unknown.shutdown().await;
}
