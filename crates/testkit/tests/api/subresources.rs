//! Subresources of pods, services and nodes that change or reach something other than the object itself.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]},
    })
}

fn binding(pod: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
}

async fn bound(cluster: &TestCluster, name: &str) {
    cluster.post(PODS, pod(name)).await.ok(201);
    cluster.post(format!("{PODS}/{name}/binding"), binding(name, "n1")).await.ok(201);
}

/// What a node agent would report.
async fn running(cluster: &TestCluster, name: &str, ready: bool) {
    let ready = if ready { "True" } else { "False" };
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    cluster.merge(format!("{PODS}/{name}/status"), status).await.ok(200);
}

async fn evict(cluster: &TestCluster, name: &str) -> Reply {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    cluster.post(format!("{PODS}/{name}/eviction"), body).await
}

async fn budget(cluster: &TestCluster, name: &str, allowed: i64, healthy: i64, desired: i64) {
    let spec = json!({
        "metadata": {"name": name},
        "spec": {"minAvailable": desired, "selector": {"matchLabels": {"app": "web"}}},
    });
    cluster.post(BUDGETS, spec).await.ok(201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": desired, "expectedPods": healthy,
    }});
    cluster.merge(format!("{BUDGETS}/{name}/status"), status).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn a_binding_gives_a_pod_its_node_once() {
    let cluster = TestCluster::simulated(70).await;
    let created = cluster.post(PODS, pod("a")).await.ok(201);
    let mut with_labels = binding("a", "n1");
    with_labels["metadata"]["annotations"] = json!({"by": "me"});
    with_labels["metadata"]["labels"] = json!({"zone": "z"});
    let answer = cluster.post(format!("{PODS}/a/binding"), with_labels).await.ok(201);
    assert_eq!(answer["status"], "Success");
    assert_eq!(answer["code"], 201);
    let pod = cluster.get(format!("{PODS}/a")).await.ok(200);
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["metadata"]["annotations"]["by"], "me");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "zone": "z"}));
    assert_eq!(pod["metadata"]["generation"], created["metadata"]["generation"]);
    let scheduled = &pod["status"]["conditions"][0];
    assert_eq!((&scheduled["type"], &scheduled["status"]), (&json!("PodScheduled"), &json!("True")));

    let again = cluster.post(format!("{PODS}/a/binding"), binding("a", "n2")).await.ok(409);
    assert_eq!(
        again["message"],
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_does_not_fit_its_pod_is_refused() {
    let cluster = TestCluster::simulated(71).await;
    cluster.post(PODS, pod("a")).await.ok(201);
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    cluster.post(PODS, gated).await.ok(201);
    let refused = cluster.post(format!("{PODS}/gated/binding"), binding("gated", "n1")).await.ok(409);
    assert!(refused["message"].as_str().unwrap().ends_with("pod gated has non-empty .spec.schedulingGates"));

    let other = cluster.post(format!("{PODS}/a/binding"), binding("b", "n1")).await.ok(400);
    assert_eq!(other["message"], "name in URL does not match name in Binding object");
    cluster.post(format!("{PODS}/none/binding"), binding("none", "n1")).await.ok(404);
    let nowhere = cluster.post(format!("{PODS}/a/binding"), binding("a", "")).await.ok(500);
    assert_eq!(nowhere["message"], "target.name: Required value");

    let mut wrong_uid = binding("a", "n1");
    wrong_uid["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let conflict = cluster.post(format!("{PODS}/a/binding"), wrong_uid).await.ok(409);
    assert!(conflict["message"].as_str().unwrap().contains("Precondition failed: UID in precondition"));
    assert_eq!(cluster.get(format!("{PODS}/a")).await.json()["spec"].get("nodeName"), None);

    let dry = cluster.post(format!("{PODS}/a/binding?dryRun=All"), binding("a", "n1")).await;
    dry.ok(201);
    assert_eq!(cluster.get(format!("{PODS}/a")).await.json()["spec"].get("nodeName"), None);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_bindings_resource_binds_too() {
    let cluster = TestCluster::simulated(72).await;
    cluster.post(PODS, pod("a")).await.ok(201);
    cluster.post("/api/v1/namespaces/default/bindings", binding("a", "n1")).await.ok(201);
    assert_eq!(cluster.get(format!("{PODS}/a")).await.json()["spec"]["nodeName"], "n1");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn two_binders_never_both_win() {
    let cluster = TestCluster::simulated(73).await;
    cluster.post(PODS, pod("a")).await.ok(201);
    let one = cluster.post(format!("{PODS}/a/binding"), binding("a", "n1"));
    let two = cluster.post(format!("{PODS}/a/binding"), binding("a", "n2"));
    let (one, two) = tokio::join!(one, two);
    let mut codes = [one.status, two.status];
    codes.sort_unstable();
    assert_eq!(codes, [201, 409]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_an_eviction_is_a_deletion_with_a_condition() {
    let cluster = TestCluster::simulated(74).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", true).await;
    let answer = evict(&cluster, "a").await.ok(201);
    assert_eq!((&answer["status"], &answer["code"]), (&json!("Success"), &json!(201)));
    // It goes gracefully: the node agent has the last word.
    let gone = cluster.get(format!("{PODS}/a")).await.ok(200);
    assert!(gone["metadata"]["deletionTimestamp"].is_string());
    let conditions = gone["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "EvictionByEvictionAPI");

    cluster.post(PODS, pod("pending")).await.ok(201);
    evict(&cluster, "pending").await.ok(201);
    cluster.get(format!("{PODS}/pending")).await.ok(404);
    evict(&cluster, "absent").await.ok(404);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_as_many_go_as_it_allows() {
    let cluster = TestCluster::simulated(75).await;
    for name in ["a", "b", "c"] {
        bound(&cluster, name).await;
        running(&cluster, name, true).await;
    }
    budget(&cluster, "web", 1, 3, 2).await;
    let dry = json!({"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}});
    cluster.post(format!("{PODS}/a/eviction"), dry).await.ok(201);
    assert_eq!(cluster.get(format!("{BUDGETS}/web")).await.json()["status"]["disruptionsAllowed"], 1);

    // Three at once, one allowed.
    let (a, b, c) = tokio::join!(evict(&cluster, "a"), evict(&cluster, "b"), evict(&cluster, "c"));
    let mut codes = [a.status, b.status, c.status];
    codes.sort_unstable();
    assert_eq!(codes, [201, 429, 429]);
    let status = cluster.get(format!("{BUDGETS}/web")).await.json()["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["disruptedPods"].as_object().unwrap().len(), 1);
    assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
    let refused = [a, b, c].into_iter().find(|r| r.status == 429).unwrap().json();
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(refused["details"]["causes"][0]["reason"], "DisruptionBudget");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_needs_all_its_pods_refuses_with_its_numbers() {
    let cluster = TestCluster::simulated(76).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", true).await;
    budget(&cluster, "web", 0, 1, 1).await;
    let refused = evict(&cluster, "a").await.ok(429);
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "The disruption budget web needs 1 healthy pods and has 1 currently"
    );
    // A pod that is not ready may go as long as the others are enough.
    running(&cluster, "a", false).await;
    evict(&cluster, "a").await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn two_budgets_for_one_pod_are_not_supported() {
    let cluster = TestCluster::simulated(77).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", true).await;
    budget(&cluster, "one", 1, 3, 2).await;
    budget(&cluster, "two", 1, 3, 2).await;
    let answer = evict(&cluster, "a").await.ok(500);
    let message =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let failure = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500,
    });
    assert_eq!(answer, failure);
    cluster.get(format!("{PODS}/a")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn connections_to_a_pod_name_the_missing_node() {
    let cluster = TestCluster::simulated(78).await;
    cluster.post(PODS, pod("a")).await.ok(201);
    assert_eq!(cluster.get(format!("{PODS}/a/log")).await.status, 204);
    let exec = cluster.post(format!("{PODS}/a/exec?command=ls"), json!({})).await.ok(400);
    assert_eq!(exec["message"], "pod a does not have a host assigned");
    let container = cluster.get(format!("{PODS}/a/log?container=x")).await.ok(400);
    assert_eq!(container["message"], "container x is not valid for pod a");
    cluster.get(format!("{PODS}/a/log?tailLines=-1")).await.ok(422);
    assert_eq!(cluster.get(format!("{PODS}/a/proxy/")).await.ok(400)["message"], "address not allowed");

    cluster.post(format!("{PODS}/a/binding"), binding("a", "n1")).await.ok(201);
    // A missing object is reported as if it were of the kind in the path.
    let missing = |reply: Reply, kind: &str, name: &str| {
        let status = reply.ok(404);
        assert_eq!(status["message"], format!("{kind} \"{name}\" not found"));
        assert_eq!(status["details"], json!({"name": name, "kind": kind}));
    };
    missing(cluster.get(format!("{PODS}/a/log")).await, "pods", "n1");
    for door in ["attach", "exec?command=ls", "portforward"] {
        missing(cluster.post(format!("{PODS}/a/{door}"), json!({})).await, "pods", "n1");
    }
    missing(cluster.get("/api/v1/nodes/n1/proxy/metrics").await, "nodes", "n1");
    missing(cluster.get(format!("{SERVICES}/none/proxy/")).await, "services", "none");
    missing(cluster.get(format!("{SERVICES}/none:80/proxy/")).await, "services", "none");
    cluster
        .post(SERVICES, json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}))
        .await
        .ok(201);
    missing(cluster.get(format!("{SERVICES}/x/proxy/")).await, "services", "x");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_names_the_pod_and_the_namespace_of_its_path() {
    let cluster = TestCluster::simulated(79).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", true).await;
    for door in ["eviction", "binding"] {
        let body = json!({"metadata": {"name": "other", "namespace": "zz"}, "target": {"name": "n1"}});
        let refused = cluster.post(format!("{PODS}/a/{door}"), body).await.ok(400);
        assert_eq!(
            refused["message"],
            "the namespace of the provided object does not match the namespace sent on the request"
        );
    }
    let bindings = "/api/v1/namespaces/default/bindings";
    let named = |name: &str| json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    let refused = |reply: Reply| reply.ok(400)["message"].as_str().unwrap().to_owned();
    assert_eq!(refused(cluster.post(bindings, named("")).await), "Name parameter required.");
    assert_eq!(
        refused(cluster.post(bindings, named("a/b")).await),
        "Name parameter invalid: \"a/b\": may not contain '/'"
    );
    assert!(cluster.get(format!("{PODS}/a")).await.ok(200)["metadata"].get("deletionTimestamp").is_none());
    cluster.shutdown().await;
}

async fn evict_with(cluster: &TestCluster, name: &str, options: Value) -> Reply {
    let body = json!({"metadata": {"name": name}, "deleteOptions": options});
    cluster.post(format!("{PODS}/{name}/eviction"), body).await
}

async fn allowed(cluster: &TestCluster) -> Value {
    cluster.get(format!("{BUDGETS}/web")).await.ok(200)["status"]["disruptionsAllowed"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_checked_before_the_preconditions() {
    let cluster = TestCluster::simulated(320).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", true).await;
    budget(&cluster, "web", 0, 1, 1).await;
    let wrong_uid = json!({"preconditions": {"uid": "zz"}});
    let denied = evict_with(&cluster, "a", wrong_uid.clone()).await;
    assert_eq!(denied.headers.get("retry-after"), None, "a budget does not know when");
    let denied = denied.ok(429);
    assert_eq!(denied["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(denied["reason"], "TooManyRequests");
    let why = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!(denied["details"], json!({"causes": [{"reason": "DisruptionBudget", "message": why}]}));
    evict_with(&cluster, "a", json!({"dryRun": ["All"]})).await.ok(429);

    let set = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2}});
    cluster.merge(format!("{BUDGETS}/web/status"), set.clone()).await.ok(200);
    let uid = cluster.get(format!("{PODS}/a")).await.ok(200)["metadata"]["uid"].clone();
    let conflict = evict_with(&cluster, "a", wrong_uid).await.ok(409);
    let why = format!(
        "the UID in the precondition (zz) does not match the UID in record ({}). The object might have been deleted and then recreated",
        uid.as_str().unwrap()
    );
    assert_eq!(conflict["message"], format!("Operation cannot be fulfilled on Pod \"a\": {why}"));
    // What it took is taken.
    assert_eq!(allowed(&cluster).await, 0);
    cluster.merge(format!("{BUDGETS}/web/status"), set.clone()).await.ok(200);
    let version = cluster.get(format!("{PODS}/a")).await.version();
    let conflict =
        evict_with(&cluster, "a", json!({"preconditions": {"resourceVersion": "1"}})).await.ok(409);
    let why = format!(
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    assert_eq!(conflict["message"], format!("Operation cannot be fulfilled on Pod \"a\": {why}"));

    cluster.merge(format!("{BUDGETS}/web/status"), set).await.ok(200);
    let bad = evict_with(&cluster, "a", json!({"dryRun": ["Foo"]})).await.ok(422);
    assert_eq!(
        bad["message"],
        "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\""
    );
    evict_with(&cluster, "a", json!({"dryRun": ["All"]})).await.ok(201);
    assert_eq!(allowed(&cluster).await, 1);
    let exact = json!({"preconditions": {"resourceVersion": version, "uid": uid}});
    evict_with(&cluster, "a", exact).await.ok(201);
    assert_eq!(allowed(&cluster).await, 0);
    assert!(cluster.get(format!("{PODS}/a")).await.ok(200)["metadata"]["deletionTimestamp"].is_string());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unobserved_budget_refuses_with_retry_after() {
    let cluster = TestCluster::simulated(321).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", true).await;
    budget(&cluster, "web", 1, 2, 1).await;
    let behind = json!({"status": {"observedGeneration": 0}});
    cluster.merge(format!("{BUDGETS}/web/status"), behind).await.ok(200);
    let denied = evict(&cluster, "a").await;
    assert_eq!(denied.headers.get("retry-after").unwrap(), "10");
    let why = "The disruption budget web is still being processed by the server.";
    let details =
        json!({"causes": [{"reason": "DisruptionBudget", "message": why}], "retryAfterSeconds": 10});
    assert_eq!(denied.ok(429)["details"], details);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_unhealthy_pod_eviction_policy_concerns_only_unhealthy_pods() {
    let cluster = TestCluster::simulated(322).await;
    for (name, ready) in [("a", true), ("b", false), ("c", false)] {
        bound(&cluster, name).await;
        running(&cluster, name, ready).await;
    }
    budget(&cluster, "web", 0, 0, 1).await;
    let policy = |policy: &str, healthy: i64| {
        let spec = json!({"spec": {"unhealthyPodEvictionPolicy": policy}});
        let cluster = &cluster;
        async move {
            let generation =
                cluster.merge(format!("{BUDGETS}/web"), spec).await.ok(200)["metadata"]["generation"].clone();
            let status = json!({"status": {"observedGeneration": generation, "currentHealthy": healthy}});
            cluster.merge(format!("{BUDGETS}/web/status"), status).await.ok(200);
        }
    };
    let deleting = |name: &str| {
        let (cluster, path) = (&cluster, format!("{PODS}/{name}"));
        async move { cluster.get(path).await.ok(200)["metadata"].get("deletionTimestamp").is_some() }
    };
    policy("IfHealthyBudget", 0).await;
    let denied = evict(&cluster, "c").await.ok(429);
    let why = "The disruption budget web needs 1 healthy pods and has 0 currently";
    assert_eq!(denied["details"]["causes"][0]["message"], why);
    policy("AlwaysAllow", 0).await;
    evict(&cluster, "b").await.ok(201);
    assert!(deleting("b").await && !deleting("c").await);
    // One that goes already may be asked to again.
    evict(&cluster, "b").await.ok(201);
    policy("IfHealthyBudget", 1).await;
    evict(&cluster, "c").await.ok(201);
    assert!(deleting("c").await);
    policy("AlwaysAllow", 1).await;
    evict(&cluster, "a").await.ok(429);
    assert_eq!(allowed(&cluster).await, 0);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_scale_without_replicas_has_no_number() {
    let cluster = TestCluster::simulated(323).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (path, selector) in [
        ("/apis/apps/v1/namespaces/default/deployments", json!({"matchLabels": {"a": "b"}})),
        ("/apis/apps/v1/namespaces/default/replicasets", json!({"matchLabels": {"a": "b"}})),
        ("/apis/apps/v1/namespaces/default/statefulsets", json!({"matchLabels": {"a": "b"}})),
        ("/api/v1/namespaces/default/replicationcontrollers", json!({"a": "b"})),
    ] {
        let spec = json!({"replicas": 0, "selector": selector, "template": template});
        cluster.post(path, json!({"metadata": {"name": "x"}, "spec": spec})).await.ok(201);
        let scale = format!("{path}/x/scale");
        let none = cluster.get(scale.as_str()).await.ok(200);
        assert_eq!((&none["spec"], &none["status"]["replicas"]), (&json!({}), &json!(0)), "{path}");
        // A number that is not there can be replaced, but is not zero.
        let patch =
            |op: &str, value: i64| json!([{"op": op, "path": "/spec/replicas", "value": value}]).to_string();
        let json_patch = |body: String| {
            cluster.request("PATCH", scale.as_str()).typed("application/json-patch+json", body).send()
        };
        json_patch(patch("test", 0)).await.ok(422);
        assert_eq!(json_patch(patch("replace", 1)).await.ok(200)["spec"], json!({"replicas": 1}));
        let mut wanted = cluster.merge(scale.as_str(), json!({"spec": {"replicas": 0}})).await.ok(200);
        assert_eq!(wanted["spec"], json!({}));
        wanted["spec"] = json!({"replicas": 2});
        let two = cluster.put(scale.as_str(), wanted).await.ok(200);
        assert_eq!(two["spec"], json!({"replicas": 2}));
        assert_eq!(cluster.put(scale.as_str(), none_of(&two)).await.ok(200)["spec"], json!({}));
        assert_eq!(cluster.get(format!("{path}/x")).await.ok(200)["spec"]["replicas"], 0);
    }
    cluster.shutdown().await;
}

fn none_of(scale: &Value) -> Value {
    let mut none = scale.clone();
    none["spec"] = json!({});
    none
}

#[tokio::test(start_paused = true)]
async fn subresources_that_change_part_of_an_object_have_no_table() {
    let cluster = TestCluster::simulated(340).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let get = |subresource: &str, accept: String| {
        let path = format!("/api/v1/namespaces/default/pods/p{subresource}");
        let cluster = &cluster;
        async move { cluster.request("GET", path).header("accept", &accept).send().await }
    };
    for subresource in ["", "/status"] {
        assert_eq!(get(subresource, table.to_owned()).await.ok(200)["kind"], "Table", "{subresource}");
    }
    // As kubectl asks: what cannot be a Table comes as it is.
    for subresource in ["/resize", "/ephemeralcontainers"] {
        get(subresource, table.to_owned()).await.ok(406);
        let plain = get(subresource, format!("{table},application/json")).await.ok(200);
        assert_eq!(plain["kind"], "Pod", "{subresource}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_few_kinds_has_no_table() {
    let cluster = TestCluster::simulated(353).await;
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let ask = |method: &'static str, path: &str| {
        let ask = cluster.request(method, format!("{path}/status")).header("accept", table);
        if method == "GET" { ask } else { ask.typed("application/json", "{}".to_owned()) }
    };
    for path in [
        "/apis/apiregistration.k8s.io/v1/apiservices/none",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/none",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/none",
    ] {
        for method in ["GET", "PUT"] {
            ask(method, path).send().await.ok(406);
        }
        cluster.request("GET", path).header("accept", table).send().await.ok(404);
    }
    ask("GET", "/apis/batch/v1/namespaces/default/jobs/none").send().await.ok(404);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_is_negotiated_as_an_object_would_be() {
    let cluster = TestCluster::simulated(356).await;
    let ask = |accept: &str| {
        cluster.request("GET", "/api/v1/namespaces/default/pods/none/log").header("accept", accept).send()
    };
    for accept in ["*/*", "application/json, */*", "application/yaml", "text/plain, */*"] {
        ask(accept).await.ok(404);
    }
    let known = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    for accept in ["text/plain", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
        let words = format!("only the following media types are accepted: {known}");
        assert_eq!(ask(accept).await.ok(406)["message"], words, "{accept}");
    }
    let words = format!("406: Not Acceptable\n\nAvailable representations: text/plain, {known}");
    assert_eq!(ask("image/png").await.ok(406)["message"], words);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_evictable_unhealthy_pod_goes_whatever_version_is_named() {
    let cluster = TestCluster::simulated(7901).await;
    bound(&cluster, "a").await;
    running(&cluster, "a", false).await;
    budget(&cluster, "web", 0, 1, 1).await;
    let stale = json!({"preconditions": {"resourceVersion": "1"}});
    evict_with(&cluster, "a", stale.clone()).await.ok(201);
    // One the budget has no say in keeps to what the client named.
    cluster.post(PODS, pod("pending")).await.ok(201);
    evict_with(&cluster, "pending", stale).await.ok(409);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_bindings_resource_ignores_the_uid() {
    let cluster = TestCluster::simulated(7902).await;
    for name in ["a", "b"] {
        cluster.post(PODS, pod(name)).await.ok(201);
    }
    let mut with_uid = binding("a", "n1");
    with_uid["metadata"]["uid"] = json!("bad");
    cluster.post(format!("{PODS}/a/binding"), with_uid.clone()).await.ok(409);
    cluster.post("/api/v1/namespaces/default/bindings", with_uid).await.ok(201);
    let mut stale = binding("b", "n1");
    stale["metadata"]["resourceVersion"] = json!("1");
    cluster.post("/api/v1/namespaces/default/bindings", stale).await.ok(409);
    cluster.shutdown().await;
}
