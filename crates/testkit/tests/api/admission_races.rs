//! What happens while a webhook is asked: the object changes, an address is taken, or a quota is used up by somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::TestCluster;
use tokio::sync::Semaphore;

use crate::webhook_server::{Reply, WebhookServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A webhook about objects labelled `slow`. Its first answer waits.
struct Slow {
    server: WebhookServer,
    permits: Arc<Semaphore>,
}

impl Slow {
    async fn start(cluster: &TestCluster, resource: &str) -> Slow {
        Slow::configured(cluster, resource, VALIDATING, json!({})).await
    }

    /// A mutating one, with the same patch in each answer.
    async fn patching(cluster: &TestCluster, resource: &str, patch: Value) -> Slow {
        let patch = STANDARD.encode(patch.to_string());
        Slow::configured(cluster, resource, MUTATING, json!({"patchType": "JSONPatch", "patch": patch})).await
    }

    /// `more` is in each answer.
    async fn configured(cluster: &TestCluster, resource: &str, path: &str, more: Value) -> Slow {
        let permits = Arc::new(Semaphore::new(0));
        let (waits, held) = (permits.clone(), AtomicBool::new(false));
        let server = WebhookServer::start(move |_, review| {
            let saw = review["request"]["oldObject"]["data"].to_string();
            let mut response =
                json!({"uid": review["request"]["uid"], "allowed": true, "auditAnnotations": {"saw": saw}});
            response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let review =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            match held.swap(true, Ordering::Relaxed) {
                false => Reply::Later(waits.clone(), review),
                true => Reply::Review(review),
            }
        })
        .await;
        let hook = json!({
            "name": "slow.example.io", "clientConfig": server.config("/v"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchLabels": {"slow": "yes"}}, "timeoutSeconds": 30,
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}],
        });
        cluster.post(path, json!({"metadata": {"name": "slow"}, "webhooks": [hook]})).await.ok(201);
        Slow { server, permits }
    }

    /// Runs `other` while the webhook is being asked; then it answers. Returns what it was asked first.
    async fn meanwhile(&self, other: impl AsyncFnOnce(&Value)) -> Value {
        self.server.is_asked().await;
        let asked = self.requests().remove(0);
        other(&asked).await;
        self.permits.add_permits(1);
        asked
    }

    /// What it was asked since the last call.
    fn requests(&self) -> Vec<Value> {
        self.server.asked().into_iter().map(|(_, review)| review["request"].clone()).collect()
    }
}

fn slow_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"slow": "yes"}}, "data": data})
}

#[tokio::test]
async fn a_patch_is_made_again_when_the_object_changed_while_a_webhook_was_asked() {
    let cluster = TestCluster::start().await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok(201);
    let slow = Slow::start(&cluster, "configmaps").await;
    let path = format!("{MAPS}/a");
    let patch = json!({"metadata": {"labels": {"slow": "yes"}}, "data": {"y": "2"}});
    // Somebody, the webhook itself say, writes the same object.
    let other = slow.meanwhile(async |_| {
        cluster.merge(path.clone(), json!({"data": {"z": "3"}})).await.ok(200);
    });
    let (made, first) = tokio::join!(cluster.merge(path.clone(), patch), other);
    assert_eq!(made.ok(200)["data"], json!({"x": "1", "y": "2", "z": "3"}));
    assert_eq!(first["oldObject"]["data"], json!({"x": "1"}));
    let again = slow.requests();
    assert_eq!(again.len(), 1, "asked again, with the object as it is now");
    assert_eq!(again[0]["oldObject"]["data"], json!({"x": "1", "z": "3"}));
    // The attempt that nothing came of is not told.
    let told = cluster.get("/debug/admission?resource=configmaps&name=a").await.text();
    assert!(told.contains(r#"  audit annotation slow.example.io/saw: {"x":"1","z":"3"}"#), "{told}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn what_a_mutating_webhook_makes_of_an_object_that_changed_meanwhile_is_stored() {
    let cluster = TestCluster::start().await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok(201);
    let patch = json!([{"op": "add", "path": "/data/patched", "value": "yes"}]);
    let slow = Slow::patching(&cluster, "configmaps", patch).await;
    let path = format!("{MAPS}/a");
    let other = slow.meanwhile(async |_| {
        cluster.merge(path.clone(), json!({"data": {"z": "3"}})).await.ok(200);
    });
    let patch = json!({"metadata": {"labels": {"slow": "yes"}}, "data": {"y": "2"}});
    let (made, first) = tokio::join!(cluster.merge(path.clone(), patch), other);
    assert_eq!(made.ok(200)["data"], json!({"x": "1", "y": "2", "z": "3", "patched": "yes"}));
    assert_eq!(first["object"]["data"], json!({"x": "1", "y": "2"}));
    let again = slow.requests();
    assert_eq!(again.len(), 1, "asked again, with the object as it is now");
    assert_eq!(again[0]["object"]["data"], json!({"x": "1", "y": "2", "z": "3"}));
    let stored = cluster.get(path.clone()).await.ok(200);
    assert_eq!(stored["data"]["patched"], "yes");
    cluster.shutdown().await;
}

#[tokio::test]
async fn an_update_of_a_version_that_passed_meanwhile_is_a_conflict() {
    let cluster = TestCluster::start().await;
    let made = cluster.post(MAPS, json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok(201);
    let slow = Slow::start(&cluster, "configmaps").await;
    let path = format!("{MAPS}/a");
    let mut changed = slow_map(json!({"x": "2"}));
    changed["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let other = slow.meanwhile(async |_| {
        cluster.merge(path.clone(), json!({"data": {"z": "3"}})).await.ok(200);
    });
    let (updated, _) = tokio::join!(cluster.put(path.clone(), changed), other);
    updated.ok(409);
    assert!(slow.requests().is_empty(), "nobody is asked about what cannot be");
    assert_eq!(cluster.get(path.clone()).await.ok(200)["data"], json!({"x": "1", "z": "3"}));
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_quota_that_was_used_up_meanwhile_refuses() {
    let cluster = TestCluster::start().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let used = cluster.get(MAPS).await.ok(200)["items"].as_array().unwrap().len();
    let hard = (used + 1).to_string();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": hard}}});
    cluster.post(quotas, quota).await.ok(201);
    let slow = Slow::start(&cluster, "configmaps").await;
    let other = slow.meanwhile(async |_| {
        cluster.post(MAPS, json!({"metadata": {"name": "quick"}})).await.ok(201);
    });
    let (created, _) = tokio::join!(cluster.post(MAPS, slow_map(json!({}))), other);
    let refused = created.ok(403);
    assert!(refused["message"].as_str().unwrap().contains("exceeded quota: q"), "{refused}");
    let shown = cluster.get(format!("{quotas}/q")).await.ok(200);
    assert_eq!(shown["status"]["used"]["count/configmaps"], hard);
    cluster.shutdown().await;
}

#[tokio::test]
async fn an_address_that_was_taken_meanwhile_is_not_given_twice() {
    let cluster = TestCluster::start().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, labels: Value, spec: Value| {
        let mut all = json!({"ports": [{"port": 80}]});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        json!({"metadata": {"name": name, "labels": labels}, "spec": all})
    };
    let slow = Slow::start(&cluster, "services").await;
    // What was reserved for the one that waits is nobody's yet.
    let other = slow.meanwhile(async |asked| {
        let taken = json!({"clusterIP": asked["object"]["spec"]["clusterIP"]});
        cluster.post(services, service("quick", json!({}), taken)).await.ok(201);
    });
    let created = cluster.post(services, service("slow", json!({"slow": "yes"}), json!({})));
    let (created, first) = tokio::join!(created, other);
    let made = created.ok(201);
    assert_ne!(made["spec"]["clusterIP"], first["object"]["spec"]["clusterIP"]);
    let last = slow.requests().pop().unwrap();
    assert_eq!(last["object"]["spec"]["clusterIP"], made["spec"]["clusterIP"], "asked about what was stored");
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_node_port_that_was_taken_meanwhile_is_not_given_twice() {
    let cluster = TestCluster::start().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, labels: Value, port: Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"type": "NodePort", "ports": [port]}});
    let port_of = |service: &Value| service["spec"]["ports"][0]["nodePort"].clone();
    let slow = Slow::start(&cluster, "services").await;
    let other = slow.meanwhile(async |asked| {
        let taken = json!({"port": 80, "nodePort": port_of(&asked["object"])});
        cluster.post(services, service("quick", json!({}), taken)).await.ok(201);
    });
    let created = cluster.post(services, service("slow", json!({"slow": "yes"}), json!({"port": 80})));
    let (created, first) = tokio::join!(created, other);
    let made = created.ok(201);
    assert!(port_of(&made).is_number() && port_of(&made) != port_of(&first["object"]), "{made}");
    let last = slow.requests().pop().unwrap();
    assert_eq!(port_of(&last["object"]), port_of(&made), "asked about what was stored");
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_namespace_that_ends_meanwhile_takes_no_object() {
    let cluster = TestCluster::start().await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "ends"}})).await.ok(201);
    let slow = Slow::start(&cluster, "configmaps").await;
    let maps = "/api/v1/namespaces/ends/configmaps";
    let other = slow.meanwhile(async |_| {
        cluster.delete("/api/v1/namespaces/ends").await.ok(200);
    });
    let (created, _) = tokio::join!(cluster.post(maps, slow_map(json!({}))), other);
    let refused = created.ok(403);
    let why = "unable to create new content in namespace ends because it is being terminated";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    cluster.get(format!("{maps}/a")).await.ok(404);
    cluster.shutdown().await;
}
