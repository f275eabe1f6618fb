//! Warnings as clients see them: headers of any response.

use serde_json::{Value, json};
use testkit::TestCluster;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const ENDPOINTS_GO: &str =
    "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "x"}]}}}})
}

const OLD_LABEL: &str = "299 - \"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \\\"kubernetes.io/os\\\" instead\"";

#[tokio::test(start_paused = true)]
async fn warnings_of_a_kind_are_sent_in_headers() {
    let cluster = TestCluster::simulated(1).await;
    let created = cluster.post(DEPLOYMENTS, deployment("a.b")).await;
    created.ok(201);
    assert_eq!(
        created.warnings(),
        [
            "299 - \"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]\"",
            OLD_LABEL
        ]
    );
    let dry = cluster.post(format!("{DEPLOYMENTS}?dryRun=All"), deployment("c")).await;
    dry.ok(201);
    assert_eq!(dry.warnings(), [OLD_LABEL]);

    // The template did not change: not again. A scale counts as a new generation.
    let patched = |body: Value| {
        cluster
            .request("PATCH", format!("{DEPLOYMENTS}/a.b"))
            .typed("application/merge-patch+json", body.to_string())
    };
    assert_eq!(patched(json!({"metadata": {"labels": {"x": "y"}}})).send().await.warnings(), [""; 0]);
    assert_eq!(patched(json!({"spec": {"paused": true}})).send().await.warnings(), [OLD_LABEL]);
    let scaled = cluster
        .request("PATCH", format!("{DEPLOYMENTS}/a.b/scale"))
        .typed("application/merge-patch+json", json!({"spec": {"replicas": 3}}).to_string());
    assert_eq!(scaled.send().await.warnings(), [OLD_LABEL]);

    // What decoding found comes first; a refused write is told only what is wrong.
    let mut odd = deployment("d");
    odd["junk"] = json!(1);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"});
    odd["metadata"]["ownerReferences"] = json!([owner, owner]);
    let odd = cluster.post(DEPLOYMENTS, odd).await;
    assert_eq!(odd.ok(201)["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(
        odd.warnings(),
        [
            "299 - \"unknown field \\\"junk\\\"\"",
            "299 - \".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u\"",
            OLD_LABEL
        ]
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_deprecated_resource_says_so_on_every_verb() {
    let cluster = TestCluster::simulated(2).await;
    let one = format!("{ENDPOINTS}/e");
    let body = json!({"metadata": {"name": "e"}});
    let mut replies = vec![cluster.post(ENDPOINTS, body.clone()).await, cluster.get(&one).await];
    replies.push(cluster.get(ENDPOINTS).await);
    replies.push(cluster.get("/api/v1/endpoints").await);
    replies.push(cluster.request("PUT", &one).typed("application/json", body.to_string()).send().await);
    let patch = cluster.request("PATCH", &one).typed("application/merge-patch+json", "{}".to_owned());
    replies.push(patch.send().await);
    replies.push(cluster.get(format!("{ENDPOINTS}?watch=1&timeoutSeconds=1")).await);
    replies.push(cluster.delete(&one).await);
    replies.push(cluster.delete(ENDPOINTS).await);
    for reply in &replies {
        assert!(reply.status < 300, "{}", reply.text());
        assert_eq!(reply.warnings(), [ENDPOINTS_GO], "{}", reply.text());
    }
    let missing = cluster.get(&one).await;
    assert_eq!((missing.status, missing.warnings()), (404, vec![ENDPOINTS_GO.to_owned()]));
    let twice = cluster.post(ENDPOINTS, json!({"metadata": {"name": "f"}, "junk": 1})).await;
    assert_eq!(twice.warnings(), [ENDPOINTS_GO, "299 - \"unknown field \\\"junk\\\"\""]);

    let statuses = cluster.get("/api/v1/componentstatuses").await;
    statuses.ok(200);
    assert_eq!(statuses.warnings(), ["299 - \"v1 ComponentStatus is deprecated in v1.19+\""]);
    for fine in ["/api/v1/configmaps", "/apis/discovery.k8s.io/v1/endpointslices"] {
        assert_eq!(cluster.get(fine).await.warnings(), [""; 0], "{fine}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_job_that_orphans_its_pods_warns() {
    let cluster = TestCluster::simulated(3).await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x"}]}}}})
    };
    cluster.post(jobs, job("a")).await.ok(201);
    cluster.post(jobs, job("b")).await.ok(201);
    let said = cluster.delete(format!("{jobs}/a")).await.warnings();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("299 - \"child pods are preserved by default when jobs are deleted;"),
        "{said:?}"
    );
    let said = cluster.delete(format!("{jobs}/b?propagationPolicy=Background")).await.warnings();
    assert_eq!(said, [""; 0]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn fields_of_features_that_are_off_are_dropped() {
    let cluster = TestCluster::simulated(4).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [
        {"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"}}], "os": {"name": "linux"}}});
    let stored = cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
    assert_eq!(stored["spec"].get("schedulingGroup"), None);
    assert_eq!(stored["spec"]["containers"][0].get("lifecycle"), None);

    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str, spec: Value| {
        let mut claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        for (key, value) in spec.as_object().unwrap() {
            claim["spec"][key] = value.clone();
        }
        claim
    };
    let of_claim = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "x"});
    let spec =
        cluster.post(claims, claim("a", json!({"dataSource": of_claim}))).await.ok(201)["spec"].clone();
    assert_eq!((&spec["dataSource"], &spec["dataSourceRef"]), (&of_claim, &of_claim));
    let spec =
        cluster.post(claims, claim("b", json!({"dataSourceRef": of_claim}))).await.ok(201)["spec"].clone();
    assert_eq!((&spec["dataSource"], &spec["dataSourceRef"]), (&of_claim, &of_claim));
    let odd = json!({"apiGroup": "example.com", "kind": "Thing", "name": "x"});
    let spec = cluster.post(claims, claim("c", json!({"dataSource": odd}))).await.ok(201)["spec"].clone();
    assert_eq!((spec.get("dataSource"), spec.get("dataSourceRef")), (None, None));
    let spec = cluster.post(claims, claim("d", json!({"dataSourceRef": odd}))).await.ok(201)["spec"].clone();
    assert_eq!((&spec["dataSource"], &spec["dataSourceRef"]), (&odd, &odd));
    let mut away = of_claim.clone();
    away["namespace"] = json!("elsewhere");
    let spec = cluster.post(claims, claim("e", json!({"dataSourceRef": away}))).await.ok(201)["spec"].clone();
    assert_eq!((spec.get("dataSource"), spec.get("dataSourceRef")), (None, None));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_handler_get_no_deprecation_warning() {
    let cluster = TestCluster::simulated(11).await;
    let body = json!({"metadata": {"name": "a"}});
    assert_eq!(cluster.post(ENDPOINTS, body.clone()).await.warnings(), [ENDPOINTS_GO]);
    let object = format!("{ENDPOINTS}/a");
    let patch = cluster.request("PATCH", &object).typed("application/nonsense", "{}");
    for (reply, status) in [
        (cluster.request("GET", &object).accept("application/nonsense").send().await, 406),
        (cluster.post(&object, body).await, 405),
        (patch.send().await, 415),
    ] {
        assert_eq!((reply.status, reply.warnings()), (status, Vec::new()));
    }
    let absent = cluster.get(format!("{ENDPOINTS}/absent")).await;
    assert_eq!((absent.status, absent.warnings()), (404, vec![ENDPOINTS_GO.to_owned()]));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn warnings_of_a_kind_are_sent_with_refusals_of_admission() {
    let cluster = TestCluster::simulated(12).await;
    let spec = json!({"overhead": {"memory": "1.5"}, "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    let refused = cluster.post("/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.warnings(),
        [r#"299 - "spec.overhead[memory]: fractional byte value \"1500m\" is invalid, must be an integer""#]
    );
    cluster.shutdown().await;
}
