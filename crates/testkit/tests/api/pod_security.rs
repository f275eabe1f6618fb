//! PodSecurity over whole requests: labels of namespaces, pods, templates, existing pods.

use serde_json::{Value, json};
use store::{Commit, Guard, Op};
use testkit::TestCluster;

async fn namespace(cluster: &TestCluster, name: &str, labels: Value) {
    let labels: serde_json::Map<String, Value> = labels
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| (format!("pod-security.kubernetes.io/{k}"), v.clone()))
        .collect();
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": name, "labels": labels}})).await.ok(201);
}

fn pod(name: &str, context: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x", "securityContext": context}]}})
}

#[tokio::test(start_paused = true)]
async fn levels_and_versions_decide() {
    let cluster = TestCluster::simulated(71).await;
    namespace(&cluster, "b", json!({"enforce": "baseline"})).await;
    namespace(&cluster, "old", json!({"enforce": "restricted", "enforce-version": "v1.21"})).await;
    namespace(&cluster, "new", json!({"enforce": "restricted", "enforce-version": "v1.99"})).await;
    let at = |ns: &str| format!("/api/v1/namespaces/{ns}/pods");
    let plain = || pod("p", json!({}));
    cluster.post(at("b"), plain()).await.ok(201);
    let refused = |ns: &'static str| {
        let path = at(ns);
        async { cluster.post(path, plain()).await.ok(403)["message"].as_str().unwrap().to_owned() }
    };
    let rest = "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    let escalation = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)";
    assert_eq!(
        refused("old").await,
        format!("pods \"p\" is forbidden: violates PodSecurity \"restricted:v1.21\": {escalation}, {rest}")
    );
    assert_eq!(
        refused("new").await,
        format!(
            "pods \"p\" is forbidden: violates PodSecurity \"restricted:v1.99\": {escalation}, unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), {rest}"
        )
    );
    let good = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    for ns in ["old", "new"] {
        cluster.post(at(ns), pod("p", good.clone())).await.ok(201);
    }
    // Labels may change without another look, images may not.
    let path = format!("{}/p", at("b"));
    cluster
        .merge(
            "/api/v1/namespaces/b",
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}),
        )
        .await
        .ok(200);
    cluster.merge(path.clone(), json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}]).to_string();
    let reply = cluster.request("PATCH", path).typed("application/json-patch+json", image).send().await;
    assert_eq!(reply.status, 403, "{}", reply.text());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn warn_labels_warn_without_refusing() {
    let cluster = TestCluster::simulated(72).await;
    namespace(&cluster, "w", json!({"warn": "baseline"})).await;
    let bad = || pod("p", json!({"privileged": true}));
    let made = cluster.post("/api/v1/namespaces/w/pods", bad()).await;
    assert_eq!(made.status, 201);
    let words = "would violate PodSecurity \"baseline:latest\": privileged (container \"c\" must not set securityContext.privileged=true)";
    let told = |reply: &testkit::Reply| reply.warnings().join("|").replace("\\\"", "\"");
    assert!(told(&made).contains(words), "{}", told(&made));
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": bad()["spec"]["containers"]}});
    let cron = json!({"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}});
    let made = cluster.post("/apis/batch/v1/namespaces/w/cronjobs", cron).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(told(&made).contains(words), "{}", told(&made));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn labels_are_validated_and_stricter_ones_warn_about_existing_pods() {
    let cluster = TestCluster::simulated(73).await;
    let labels = |value: &str| json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": value}}});
    let broken = cluster.post("/api/v1/namespaces", labels("strict")).await.ok(422);
    assert_eq!(
        broken["message"],
        json!(
            "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"
        )
    );
    namespace(&cluster, "n", json!({})).await;
    for (name, context) in [
        ("b", json!({"privileged": true})),
        ("a", json!({"privileged": true})),
        ("c", json!({"privileged": true})),
        ("ok", json!({})),
        ("proc", json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
    ] {
        cluster.post("/api/v1/namespaces/n/pods", pod(name, context)).await.ok(201);
    }
    let reply = cluster.merge("/api/v1/namespaces/n", labels("baseline")).await;
    assert_eq!(reply.status, 200);
    let told: Vec<String> = reply.warnings().iter().map(|w| w.replace("\\\"", "\"")).collect();
    let wanted = [
        "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "a (and 2 other pods): privileged",
        "proc: non-default capabilities",
    ];
    assert_eq!(told.len(), wanted.len(), "{told:?}");
    for (told, wanted) in told.iter().zip(wanted) {
        assert!(told.contains(wanted), "{told}");
    }
    // Looser is fine without a word.
    assert!(cluster.merge("/api/v1/namespaces/n", labels("privileged")).await.warnings().is_empty());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_a_pod_and_labels_nobody_can_follow_are_audit_annotations() {
    let cluster = TestCluster::simulated(74).await;
    let path = "/api/v1/namespaces/default/pods";
    cluster.post(format!("{path}?dryRun=All"), pod("p", json!({}))).await.ok(201);
    // Nobody has anything to say of this one.
    cluster.post(path, pod("silent", json!({}))).await.ok(201);
    let told = cluster.get("/debug/admission?namespace=default").await.text();
    let policy = "  audit annotation pod-security.kubernetes.io/enforce-policy: privileged:latest";
    assert!(told.contains(policy) && !told.contains("silent"), "{told}");
    let metrics = cluster.get("/metrics").await.text();
    assert!(metrics.contains("\nsetpoint_audit_annotations_total 2\n"), "{metrics}");

    // As a server without the plugin, or an older one, may have left it.
    let labels =
        json!({"pod-security.kubernetes.io/warn": "odd", "pod-security.kubernetes.io/audit-version": "v2"});
    let broken = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "broken", "uid": "u", "labels": labels},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let key: store::Key = "/registry/namespaces/broken".into();
    let put = Op::Put { value: broken.to_string().into_bytes().into(), expires_at: None };
    let commit = Commit { guards: vec![(key.clone(), Guard::Absent)], ops: vec![(key, put)], removal: false };
    cluster.api().registry().engine().commit(commit).await.unwrap();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("p", json!({}))["spec"]});
    let set = json!({"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post("/apis/apps/v1/namespaces/broken/replicasets", set).await.ok(201);
    cluster.post("/api/v1/namespaces/broken/pods?dryRun=All", pod("p", json!({}))).await;
    let error = "  audit annotation pod-security.kubernetes.io/error: Failed to parse policy: [metadata.labels[pod-security.kubernetes.io/audit-version]: \
                 Invalid value: \"v2\": must be \"latest\" or \"v1.x\", metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"odd\": \
                 must be one of privileged, baseline, restricted]";
    for resource in ["replicasets", "pods"] {
        let told = cluster.get(format!("/debug/admission?namespace=broken&resource={resource}")).await.text();
        assert!(told.contains(error), "{told}");
    }
    cluster.shutdown().await;
}
