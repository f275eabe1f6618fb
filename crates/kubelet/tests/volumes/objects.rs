//! What the node knows of the objects its pods name.

use kubelet::objects::{ObjectError, TokenWanted};
use serde_json::json;
use testkit::TestCluster;

use crate::node::{CONFIG_MAPS, TestNode, uid};

fn map_volume(name: &str) -> serde_json::Value {
    json!([{"name": "config", "configMap": {"name": name}}])
}

/// Over HTTP, in memory.
async fn remote(seed: u64) -> TestNode {
    let cluster = TestCluster::simulated(seed).await;
    let client = client::Clients::user(&cluster.http_clients(), "system:node:n1", &["system:nodes"]);
    TestNode::with(cluster, client)
}

#[tokio::test(start_paused = true)]
async fn an_object_is_watched_while_a_pod_names_it() {
    watched(TestNode::new(1).await).await;
    watched(remote(1).await).await;
}

async fn watched(node: TestNode) {
    let get =
        async |name: &str| node.objects.config_map("default", name).await.map(|obj| obj.name().to_owned());
    let unknown = ObjectError::NotRegistered { namespace: "default".into(), name: "app".into() };
    assert_eq!(get("app").await, Err(unknown.clone()));
    assert_eq!(unknown.to_string(), "object \"default\"/\"app\" not registered");

    let (one, two) = (node.pod("one", map_volume("app")).await, node.pod("two", map_volume("app")).await);
    let asked = node.cluster.env().monotonic();
    let missing = get("app").await.unwrap_err();
    // The clock is virtual: it stands still unless somebody was refused at first and tried again.
    assert_eq!(asked.elapsed(), std::time::Duration::ZERO);
    assert!(missing.is_not_found());
    assert_eq!(missing.to_string(), "configmap \"app\" not found");
    node.config_map("app", json!({"a": "1"})).await;
    node.until_told(uid(&two)).await;
    assert_eq!(get("app").await.as_deref(), Ok("app"));

    assert_eq!(node.objects.watched(), 1);
    node.objects.unregister(uid(&one));
    assert_eq!(get("app").await.as_deref(), Ok("app"), "the other pod still names it");
    node.cluster.delete(format!("{CONFIG_MAPS}/app")).await.ok(200);
    node.until_told(uid(&two)).await;
    assert!(get("app").await.unwrap_err().is_not_found());
    node.objects.unregister(uid(&two));
    assert_eq!(node.objects.watched(), 0);
    assert_eq!(get("app").await, Err(unknown));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_names_what_it_names_now() {
    let node = TestNode::new(2).await;
    node.config_map("a", json!({})).await;
    node.config_map("b", json!({})).await;
    let mut pod = node.pod("web", map_volume("a")).await;
    assert!(node.objects.config_map("default", "a").await.is_ok());
    let debug = runtime::parse("[{name: debug, envFrom: [{configMapRef: {name: b}}]}]");
    pod.map_at(&["spec"]).set("ephemeralContainers", debug.unwrap_or_else(|_| panic!("a list")));
    node.objects.register(&pod);
    // The node may see it only once the server knows that the pod names it.
    let body = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "i", "envFrom": [{"configMapRef": {"name": "b"}}]}]}});
    let path = "/api/v1/namespaces/default/pods/web/ephemeralcontainers";
    node.cluster.merge(path, body).await.ok(200);
    node.cluster
        .until("b is known", || async { node.objects.config_map("default", "b").await.is_ok() })
        .await;
    assert_eq!(node.objects.watched(), 2);
    pod.map_at(&["spec"]).remove("ephemeralContainers");
    node.objects.register(&pod);
    assert_eq!(node.objects.watched(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_immutable_object_is_not_watched_on() {
    let node = TestNode::new(3).await;
    let body = json!({"metadata": {"name": "fixed"}, "immutable": true, "data": {"a": "1"}});
    node.cluster.post(CONFIG_MAPS, body).await.ok(201);
    let pod = node.pod("web", map_volume("fixed")).await;
    let first = node.objects.config_map("default", "fixed").await.unwrap();
    node.cluster
        .merge(format!("{CONFIG_MAPS}/fixed"), json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .ok(200);
    node.cluster.env().sleep(std::time::Duration::from_secs(60)).await;
    let later = node.objects.config_map("default", "fixed").await.unwrap();
    assert_eq!(first.revision(), later.revision());
    assert!(!node.told.lock().iter().any(|told| told == uid(&pod)));
}

#[tokio::test(start_paused = true)]
async fn objects_no_pod_of_the_node_names_are_refused() {
    let node = TestNode::new(4).await;
    node.cluster.post(CONFIG_MAPS, json!({"metadata": {"name": "other"}})).await.ok(201);
    // Registered, but the server knows of no such pod.
    let pod = runtime::parse(
        "{metadata: {name: x, namespace: default, uid: u}, spec: {volumes: [{name: a, configMap: {name: other}}]}}",
    );
    node.objects.register(&pod.unwrap_or_else(|_| panic!("a pod")));
    let error = node.objects.config_map("default", "other").await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "failed to sync configmap cache: timed out waiting for the condition");
}

/// Both ways to the API.
#[tokio::test(start_paused = true)]
async fn tokens_are_kept_until_they_are_due() {
    let local = TestNode::new(5).await;
    tokens(local).await;
    tokens(remote(6).await).await;
}

async fn tokens(node: TestNode) {
    // A node may ask for tokens that a pod's volumes hold, and for no others.
    let token = |audience: &str| json!({"serviceAccountToken": {"path": format!("t{audience}"), "audience": audience}});
    let volumes = json!([{"name": "tokens", "projected": {"sources": [token(""), token("vault")]}}]);
    let pod = node.pod("web", volumes).await;
    let wanted = TokenWanted {
        namespace: "default",
        account: "default",
        pod_name: "web",
        pod_uid: uid(&pod),
        audience: "",
        expiration_seconds: Some(3600),
    };
    let first = node.objects.token(&wanted).await.unwrap();
    assert_eq!(first.split('.').count(), 3);
    let pass = async |seconds| node.cluster.env().sleep(std::time::Duration::from_secs(seconds)).await;
    pass(2800).await;
    assert_eq!(node.objects.token(&wanted).await.as_ref(), Ok(&first));
    pass(100).await;
    let second = node.objects.token(&wanted).await.unwrap();
    assert_ne!(second, first, "renewed at four fifths of its life");
    let vault = node.objects.token(&TokenWanted { audience: "vault", ..wanted }).await.unwrap();
    assert_ne!(vault, second);
    assert!(node.objects.token(&TokenWanted { audience: "bank", ..wanted }).await.is_err());

    // The pod is gone: no new token, and the old one only as long as it is good.
    node.cluster.delete("/api/v1/namespaces/default/pods/web?gracePeriodSeconds=0").await.ok(200);
    pass(2900).await;
    assert_eq!(node.objects.token(&wanted).await.as_ref(), Ok(&second));
    pass(1000).await;
    let error = node.objects.token(&wanted).await.unwrap_err().to_string();
    assert!(
        error.starts_with("token \"default\"/\"default\"/[]string(nil)/3600/v1.BoundObjectReference{"),
        "{error}"
    );
    node.objects.unregister(uid(&pod));
    let error = node.objects.token(&wanted).await.unwrap_err().to_string();
    assert!(error.starts_with("failed to fetch token: "), "{error}");
}

/// kube-apiserver's own cache may be behind the watch that told this node of the pod.
#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_again_until_the_server_knows_the_pod_as_well() {
    let node = TestNode::new(7).await;
    let volumes =
        json!([{"name": "tokens", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": volumes});
    let body = json!({"metadata": {"name": "late"}, "spec": spec});
    let made = node.cluster.post("/api/v1/namespaces/default/pods", body).await.ok(201);
    let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
    let wanted = TokenWanted {
        namespace: "default",
        account: "default",
        pod_name: "late",
        pod_uid: &uid,
        audience: "",
        expiration_seconds: None,
    };
    let refused = node.objects.token(&wanted).await.unwrap_err().to_string();
    assert!(refused.starts_with("failed to fetch token: "), "{refused}");
    let bound = async {
        node.cluster.env().sleep(std::time::Duration::from_millis(100)).await;
        let body = json!({"metadata": {"name": "late"}, "target": {"kind": "Node", "name": "n1"}});
        node.cluster.post("/api/v1/namespaces/default/pods/late/binding", body).await.ok(201);
    };
    let (token, ()) = tokio::join!(node.objects.token(&wanted), bound);
    assert_eq!(token.unwrap().split('.').count(), 3);
}
