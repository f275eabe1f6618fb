//! Who is asked about a deletion and when, in which version of a custom resource; how a dry run in a body is told; what a webhook
//! that is down or slow costs.

use serde_json::{Value, json};
use testkit::TestCluster;

use crate::aggregated_server;
use crate::webhook_server::{Reply, WebhookServer};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A policy that refuses what its rule is about.
async fn refuse(cluster: &TestCluster, name: &str, rule: Value, message: &str) {
    let spec = json!({"matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "messageExpression": message}]});
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    cluster.post(format!("{GROUP}/validatingadmissionpolicies"), policy).await.ok(201);
    let spec = json!({"policyName": name, "validationActions": ["Deny"]});
    let binding = json!({"metadata": {"name": name}, "spec": spec});
    cluster.post(format!("{GROUP}/validatingadmissionpolicybindings"), binding).await.ok(201);
}

fn rule(group: &str, versions: Value, operation: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": versions, "operations": [operation], "resources": [resource]})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}})
}

fn message(refused: &Value) -> &str {
    refused["message"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_deletion_that_fails_a_precondition_or_is_under_way() {
    let cluster = TestCluster::simulated(2301).await;
    let namespaces = "/api/v1/namespaces";
    cluster.post(namespaces, json!({"metadata": {"name": "going"}})).await.ok(201);
    cluster.post(PODS, pod("going")).await.ok(201);
    cluster.post(MAPS, json!({"metadata": {"name": "kept"}})).await.ok(201);
    for path in [format!("{namespaces}/going"), format!("{PODS}/going")] {
        let marked = cluster.delete(&path).await.ok(200);
        assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    }
    for resource in ["namespaces", "pods", "configmaps"] {
        refuse(&cluster, resource, rule("", json!(["v1"]), "DELETE", resource), "'kept'").await;
    }
    let conditional = |path: String| {
        let options = json!({"preconditions": {"uid": "another"}});
        cluster.request("DELETE", path).json(&options).send()
    };
    conditional(format!("{MAPS}/kept")).await.ok(409);
    conditional(format!("{PODS}/going")).await.ok(409);
    for path in [format!("{namespaces}/going"), format!("{PODS}/going")] {
        cluster.delete(&path).await.ok(200);
    }
    // Less time than it has is a change, about which they are asked.
    let sooner = cluster.request("DELETE", format!("{PODS}/going")).json(&json!({"gracePeriodSeconds": 1}));
    assert!(message(&sooner.send().await.ok(422)).ends_with("kept"));
    assert!(message(&cluster.delete(format!("{MAPS}/kept")).await.ok(422)).ends_with("kept"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_exclusion_by_name_is_none_of_a_whole_collection() {
    let cluster = TestCluster::simulated(2306).await;
    refuse(&cluster, "kept", rule("", json!(["v1"]), "DELETE", "configmaps"), "'kept'").await;
    let mut excluded = rule("", json!(["v1"]), "DELETE", "configmaps");
    excluded["resourceNames"] = json!(["free"]);
    let but_free = json!({"spec": {"matchConstraints": {"excludeResourceRules": [excluded]}}});
    cluster.merge(format!("{GROUP}/validatingadmissionpolicies/kept"), but_free).await.ok(200);
    let free = json!({"metadata": {"name": "free", "labels": {"app": "a"}}});
    cluster.post(MAPS, free.clone()).await.ok(201);
    cluster.delete(format!("{MAPS}/free")).await.ok(200);
    // The same whether or not somebody else is asked too.
    cluster.post(MAPS, free).await.ok(201);
    let all = format!("{MAPS}?labelSelector=app%3Da");
    assert!(message(&cluster.delete(&all).await.ok(422)).ends_with("kept"));
    refuse(&cluster, "other", rule("", json!(["v1"]), "DELETE", "configmaps"), "'other'").await;
    cluster.delete(&all).await.ok(422);
    cluster.get(format!("{MAPS}/free")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_has_34_seconds_however_many_webhooks_hang() {
    let cluster = TestCluster::simulated(2307).await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let hook = |name: &str| {
        json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": url},
            "timeoutSeconds": 30, "failurePolicy": "Ignore", "rules": [rule("", json!(["v1"]), "*", "configmaps")]})
    };
    // Each has ten seconds for its handshake.
    let hooks = ["a", "b", "c", "d"].map(|name| hook(&format!("{name}.example.io")));
    let hooks = json!({"metadata": {"name": "hooks"}, "webhooks": hooks});
    cluster.post(format!("{GROUP}/mutatingwebhookconfigurations"), hooks).await.ok(201);
    let begun = cluster.env().monotonic();
    let refused = cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(504);
    assert_eq!((cluster.env().monotonic() - begun).as_secs(), 34);
    let wanted = "Timeout: request did not complete within requested timeout";
    assert!(message(&refused).starts_with(wanted), "{refused}");
    cluster.shutdown().await;
}

/// Gadgets, in v1alpha1 that is served no more, v2, and v1 that is stored.
async fn define_gadgets(cluster: &TestCluster) {
    let version = |name: &str, served: bool, storage: bool| {
        json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let versions = [version("v1alpha1", false, false), version("v2", true, false), version("v1", true, true)];
    let crd = json!({"metadata": {"name": "gadgets.example.io"}, "spec": {"group": "example.io", "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}, "versions": versions}});
    cluster.post(CRDS, crd).await.ok(201);
    for _ in 0..5000 {
        if cluster.get(gadgets("v2")).await.status == 200 {
            return;
        }
        cluster.env().sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("gadgets are not served");
}

fn gadgets(version: &str) -> String {
    format!("/apis/example.io/{version}/namespaces/default/gadgets")
}

fn gadget(version: &str) -> Value {
    json!({"apiVersion": format!("example.io/{version}"), "kind": "Gadget", "metadata": {"name": "g"}})
}

#[tokio::test(start_paused = true)]
async fn rules_may_name_a_version_that_is_served_no_more() {
    let cluster = TestCluster::simulated(2302).await;
    define_gadgets(&cluster).await;
    let shown = "request.kind.version + ' of ' + request.requestKind.version + ': ' + object.apiVersion";
    refuse(&cluster, "old", rule("example.io", json!(["v1alpha1"]), "CREATE", "gadgets"), shown).await;
    for version in ["v1", "v2"] {
        let refused = cluster.post(gadgets(version), gadget(version)).await.ok(422);
        let wanted = format!("v1alpha1 of {version}: example.io/v1alpha1");
        assert!(message(&refused).ends_with(&wanted), "{refused}");
    }
    // Of several, the definition's first, not the one that is stored.
    let both = json!({"spec": {"matchConstraints": {"resourceRules": [
        rule("example.io", json!(["v1", "v1alpha1"]), "CREATE", "gadgets")]}}});
    cluster.merge(format!("{GROUP}/validatingadmissionpolicies/old"), both).await.ok(200);
    let refused = cluster.post(gadgets("v2"), gadget("v2")).await.ok(422);
    assert!(message(&refused).ends_with("v1alpha1 of v2: example.io/v1alpha1"), "{refused}");
    let refused = cluster.post(gadgets("v1"), gadget("v1")).await.ok(422);
    assert!(message(&refused).ends_with("v1 of v1: example.io/v1"), "{refused}");
    cluster.get(gadgets("v1alpha1")).await.ok(404);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn match_conditions_of_webhooks_see_the_resource_of_the_request() {
    let cluster = TestCluster::simulated(2303).await;
    define_gadgets(&cluster).await;
    let elsewhere = "request.resource.version != 'v2' || request.kind.version != 'v1'";
    for kind in ["mutating", "validating"] {
        // Nobody answers there: a request that reaches it is refused.
        let hook = json!({"name": "hook.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule("example.io", json!(["v1"]), "CREATE", "gadgets")],
            "matchConditions": [{"name": "elsewhere", "expression": elsewhere}]});
        let configuration = json!({"metadata": {"name": "hook"}, "webhooks": [hook]});
        cluster.post(format!("{GROUP}/{kind}webhookconfigurations"), configuration).await.ok(201);
    }
    cluster.post(gadgets("v2"), gadget("v2")).await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dry_runs_that_the_body_asks_for_are_told_as_such() {
    let cluster = TestCluster::simulated(2304).await;
    cluster.post(MAPS, json!({"metadata": {"name": "free"}})).await.ok(201);
    cluster.post(PODS, pod("p")).await.ok(201);
    let dry = |path: String| cluster.request("DELETE", path).json(&json!({"dryRun": ["All"]})).send();
    let told = async |query: &str| cluster.get(format!("/debug/admission?{query}")).await.text();
    dry(format!("{MAPS}/free")).await.ok(200);
    let page = told("resource=configmaps").await;
    assert!(page.contains(" delete configmaps default/free (dry run) by "), "{page}");
    dry(MAPS.to_owned()).await.ok(200);
    let page = told("resource=configmaps").await;
    assert!(page.contains(" deletecollection configmaps default/free (dry run) by "), "{page}");
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    cluster.post(format!("{PODS}/p/eviction"), eviction).await.ok(201);
    let page = told("resource=pods").await;
    assert!(page.contains(" create pods/eviction default/p (dry run) by "), "{page}");
    refuse(&cluster, "kept", rule("", json!(["v1"]), "DELETE", "configmaps"), "'kept'").await;
    dry(format!("{MAPS}/free")).await.ok(422);
    let page = told("resource=configmaps&verdict=refused").await;
    assert!(page.contains(" delete configmaps default/free (dry run) by "), "{page}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_the_budget_of_a_dry_eviction() {
    let cluster = TestCluster::simulated(2305).await;
    cluster.post(PODS, pod("p")).await.ok(201);
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge(format!("{PODS}/p/status"), ready).await.ok(200);
    let selector = json!({"matchLabels": {"app": "a"}});
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 0, "selector": selector}});
    cluster.post(BUDGETS, budget).await.ok(201);
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1,
        "desiredHealthy": 0, "expectedPods": 1}});
    cluster.merge(format!("{BUDGETS}/b/status"), status).await.ok(200);
    refuse(&cluster, "b", rule("policy", json!(["v1"]), "UPDATE", "poddisruptionbudgets/status"), "'kept'")
        .await;
    let evict = |options: Value| {
        let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": options});
        cluster.post(format!("{PODS}/p/eviction"), eviction)
    };
    evict(json!({"dryRun": ["All"]})).await.ok(201);
    let budget = cluster.get(format!("{BUDGETS}/b")).await.ok(200);
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
    assert!(message(&evict(json!({})).await.ok(422)).ends_with("kept"));
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_webhook_that_is_down_does_not_keep_a_cluster_from_being_served() {
    let cluster = TestCluster::start().await;
    let hook = json!({"name": "hook.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [{"apiGroups": ["*"], "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"], "resources": ["*/*"]}]});
    let hooks = format!("{GROUP}/validatingwebhookconfigurations");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.post(&hooks, json!({"metadata": {"name": "hook"}, "webhooks": [hook]})).await.ok(201);
    for role in ["view", "edit"] {
        cluster.delete(format!("{roles}/{role}")).await.ok(200);
    }
    // As a restart does it.
    let mut bootstrap = apiserver::Bootstrap::new(cluster.api()).unwrap();
    let refused = bootstrap.attempt().await.unwrap_err();
    let missing = ["ClusterRole \"view\": ", "ClusterRole \"edit\": "];
    assert!(missing.iter().any(|missing| refused.message.starts_with(missing)), "{}", refused.message);
    assert!(refused.message.contains("failed calling webhook"), "{}", refused.message);
    assert!(refused.message.ends_with("; and 1 more"), "{}", refused.message);
    assert!(bootstrap.can_serve_incomplete());
    cluster.delete(format!("{hooks}/hook")).await.ok(200);
    // What was there already is the users' by now.
    cluster.delete(format!("{roles}/admin")).await.ok(200);
    bootstrap.attempt().await.unwrap();
    for role in ["view", "edit"] {
        cluster.get(format!("{roles}/{role}")).await.ok(200);
    }
    cluster.get(format!("{roles}/admin")).await.ok(404);
    cluster.shutdown().await;
}

#[tokio::test]
async fn the_time_of_webhooks_is_no_latency_of_this_server() {
    let cluster = TestCluster::start().await;
    let permits = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let later = permits.clone();
    let server = WebhookServer::start(move |_, review| {
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let kind = "AdmissionReview";
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": kind, "response": response});
        Reply::Later(later.clone(), answer)
    })
    .await;
    let hook = json!({"name": "hook.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": server.config("/"), "rules": [rule("", json!(["v1"]), "CREATE", "configmaps")]});
    let hooks = format!("{GROUP}/validatingwebhookconfigurations");
    cluster.post(&hooks, json!({"metadata": {"name": "hook"}, "webhooks": [hook]})).await.ok(201);
    let answered = async {
        server.is_asked().await;
        // So long that no machine takes it for its own work.
        cluster.env().sleep(std::time::Duration::from_millis(1500)).await;
        permits.add_permits(1);
    };
    let made = cluster.post(MAPS, json!({"metadata": {"name": "a"}}));
    let (made, ()) = tokio::join!(made, answered);
    made.ok(201);
    let metrics = cluster.get("/metrics").await.text();
    let sum = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| {
            line.starts_with(&format!("{name}_sum{{"))
                && line.contains("resource=\"configmaps\"")
                && line.contains("verb=\"POST\"")
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
    };
    let (whole, own) =
        (sum("apiserver_request_duration_seconds"), sum("apiserver_request_sli_duration_seconds"));
    assert!(whole > 1.4 && own < whole - 1.4, "{whole} {own}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_behind_the_service_kubernetes_is_called_through_this_server() {
    let (cluster, server) = aggregated_server::aggregating(2306).await;
    let path = format!("{}/admissionreviews", aggregated_server::ROOT);
    for config in [
        json!({"service": {"namespace": "default", "name": "kubernetes", "path": path}}),
        json!({"url": format!("https://kubernetes.default.svc{path}")}),
    ] {
        let hook = json!({"name": "hook.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": config, "rules": [rule("", json!(["v1"]), "CREATE", "configmaps")]});
        let hooks = format!("{GROUP}/validatingwebhookconfigurations");
        cluster.post(&hooks, json!({"metadata": {"name": "hook"}, "webhooks": [hook]})).await.ok(201);
        // Its answer is no review: that server knows none.
        server.set(aggregated_server::Mode::FailsAt("/apis/wardle.example.com/v1alpha1/admissionreviews"));
        let refused = cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(500);
        assert!(message(&refused).contains("failed calling webhook"), "{refused}");
        let asked = server.asked(&path);
        let asked = asked.last().expect("it is asked");
        assert!(asked.by_proxy && asked.method == "POST" && asked.uri.ends_with("?timeout=10s"));
        assert_eq!(asked.header("x-remote-user"), "system:apiserver");
        cluster.delete(format!("{hooks}/hook")).await.ok(200);
    }
    cluster.shutdown().await;
}
