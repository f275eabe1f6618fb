//! Answers that only make sense if one knows kube-apiserver's implementation; clients rely on them.

use serde_json::{Value, json};
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::test(start_paused = true)]
async fn a_dry_run_shows_the_version_the_client_sent() {
    let cluster = TestCluster::simulated(41).await;
    let body = |version| json!({"metadata": {"name": "m", "resourceVersion": version}});
    let shown = cluster.post(format!("{MAPS}?dryRun=All"), body("5")).await.ok(201);
    assert_eq!(shown["metadata"]["resourceVersion"], "5");
    let shown = cluster.post(format!("{MAPS}?dryRun=All"), body("")).await.ok(201);
    assert_eq!(shown["metadata"].get("resourceVersion"), None);
    assert_eq!(cluster.post(MAPS, body("5")).await.status, 500);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_field_selector_gets_its_kinds_error() {
    let cluster = TestCluster::simulated(42).await;
    for (path, words) in [
        (PODS, "field label not supported: a.b"),
        ("/apis/events.k8s.io/v1/events", "field label not supported: a.b"),
        (JOBS, "field label \"a.b\" not supported for Job"),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: a.b",
        ),
        (MAPS, "\"a.b\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    ] {
        let refused = cluster.get(format!("{path}?fieldSelector=a.b%3Dc")).await.ok(400);
        assert_eq!(refused["message"], words);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_page_continues_while_any_object_follows_selected_or_not() {
    let cluster = TestCluster::simulated(43).await;
    crate::lists::with_maps(&cluster, 4).await;
    // m002 is the last even one, and m003 follows it.
    let page = cluster.get(format!("{MAPS}?limit=1&labelSelector=even%3Dtrue")).await.ok(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let page =
        cluster.get(format!("{MAPS}?limit=1&labelSelector=even%3Dtrue&continue={token}")).await.ok(200);
    assert_eq!(page["items"][0]["metadata"]["name"], "m002");
    let token = page["metadata"]["continue"].as_str().unwrap();
    let page =
        cluster.get(format!("{MAPS}?limit=1&labelSelector=even%3Dtrue&continue={token}")).await.ok(200);
    assert_eq!(page["items"], json!([]));
    assert_eq!(page["metadata"].get("continue"), None);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_jobs_without_a_policy_warns_even_when_it_is_refused() {
    let cluster = TestCluster::simulated(44).await;
    let warned =
        |reply: testkit::Reply| reply.warnings().iter().any(|w| w.contains("child pods are preserved"));
    let missing = cluster.delete(format!("{JOBS}/none")).await;
    assert_eq!(missing.status, 404);
    assert!(warned(missing));
    assert!(warned(cluster.delete(JOBS).await));
    assert!(!warned(cluster.delete(format!("{JOBS}/none?propagationPolicy=Orphan")).await));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_that_does_not_fit_is_shown_itself() {
    let cluster = TestCluster::simulated(45).await;
    cluster.post(MAPS, json!({"metadata": {"name": "m"}})).await.ok(201);
    let strategic = "application/strategic-merge-patch+json";
    let patch = |query: &str, body: &'static str| {
        cluster.request("PATCH", format!("{MAPS}/m{query}")).typed(strategic, body)
    };
    let refused = patch("", r#"{"metadata":{"labels":"x"}}"#).send().await.ok(422);
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "Invalid value: \"map[metadata:map[labels:x]]\": cannot restore map from string"
    );
    let refused =
        patch("?fieldValidation=Strict", r#"{"nope":1,"data":{"a":"b","a":"c"}}"#).send().await.ok(422);
    let said = refused["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(said.starts_with("Invalid value: \"map[data:map[a:c] nope:1]\""), "{said}");
    let end = "strict decoding error: duplicate field \"data.a\", unknown field \"nope\"";
    assert!(said.ends_with(end), "{said}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_table_of_nothing_has_null_rows_where_the_kind_has_no_columns() {
    let cluster = TestCluster::simulated(46).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (path, rows) in [
        ("/api/v1/namespaces/default/limitranges", json!(null)),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", json!(null)),
        (PODS, json!([])),
    ] {
        let shown = cluster.request("GET", path).accept(table).send().await.ok(200);
        assert_eq!(shown["rows"], rows, "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_external_name_keeps_no_internal_traffic_policy() {
    let cluster = TestCluster::simulated(47).await;
    let external = json!({"type": "ExternalName", "externalName": "x.y", "internalTrafficPolicy": "Local"});
    let body = |spec| json!({"metadata": {"name": "s"}, "spec": spec});
    let made = cluster.post(SERVICES, body(external)).await.ok(201);
    assert_eq!(made["spec"].get("internalTrafficPolicy"), None);
    let bad = json!({"type": "ExternalName", "externalName": "x.y", "internalTrafficPolicy": "Bad"});
    assert_eq!(cluster.post(format!("{SERVICES}?dryRun=All"), body(bad)).await.status, 422);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_version_is_a_400_for_events_and_a_500_for_cached_kinds() {
    let cluster = TestCluster::simulated(48).await;
    let events = "/api/v1/namespaces/default/events/e?resourceVersion=x";
    assert_eq!(cluster.get(events).await.status, 400);
    assert_eq!(cluster.get(format!("{MAPS}/m?resourceVersion=x")).await.status, 500);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn paths_too_deep_for_the_api_are_refused_with_a_status() {
    let cluster = TestCluster::simulated(49).await;
    for path in
        ["/api/v1/namespaces/default/pods/a/b/c", "/apis/apps/v1/namespaces/default/deployments/a/b/c"]
    {
        let refused = cluster.get(path).await.ok(404);
        assert_eq!(refused["message"], "the server could not find the requested resource");
    }
    assert_eq!(cluster.post("/apis", json!({})).await.ok(200)["kind"], "APIGroupList");
    assert_eq!(cluster.post("/api/v1", json!({})).await.status, 405);
    cluster.shutdown().await;
}

/// Go's decoder makes `[]` an empty list and leaves what is absent nil; rules and defaults tell the two apart, storage does not.
#[tokio::test(start_paused = true)]
async fn empty_values_are_validated_and_not_stored() {
    let cluster = TestCluster::simulated(45).await;
    let scaler = |policies: serde_json::Value| {
        json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"},
            "behavior": {"scaleUp": {"policies": policies}}}})
    };
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers?dryRun=All";
    let refused = cluster.post(scalers, scaler(json!([]))).await.ok(422);
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "Required value: must specify at least one Policy"
    );
    cluster.post(scalers, scaler(json!(null))).await.ok(201);

    let pod = json!({"metadata": {"name": "p", "labels": {}}, "spec": {"containers": [{"name": "c", "image": "i"}],
        "resources": {"claims": [], "requests": {"cpu": "1"}}}});
    let refused = cluster.post(format!("{PODS}?dryRun=All"), pod).await.ok(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.resources.claims");

    let map = cluster
        .post(MAPS, json!({"metadata": {"name": "e", "labels": {}, "finalizers": []}, "data": {}}))
        .await;
    let map = map.ok(201);
    assert_eq!((map.get("data"), map["metadata"].get("labels")), (None, None));
    // A patch that empties what is there leaves nothing, and one that empties nothing changes nothing.
    let again = cluster
        .merge(format!("{MAPS}/e"), json!({"data": {}, "metadata": {"annotations": {}}}))
        .await
        .ok(200);
    assert_eq!(again["metadata"]["resourceVersion"], map["metadata"]["resourceVersion"]);

    // Read back from storage the empty map is none, and is filled in then.
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}, "allocatable": {}}});
    let node = cluster.post("/api/v1/nodes?dryRun=All", node).await.ok(201);
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "1"}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_version_fails_a_create_only_at_its_end() {
    let cluster = TestCluster::simulated(141).await;
    let body = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let shown = cluster.post(format!("{MAPS}?dryRun=All"), body("a", "Bad Value!")).await.ok(201);
    assert_eq!(shown["metadata"]["resourceVersion"], "Bad Value!");
    for (name, version) in [("a", "Bad Value!"), ("b", "0"), ("c", "+5")] {
        let made = cluster.post(MAPS, body(name, version)).await.ok(201);
        assert_ne!(made["metadata"]["resourceVersion"], version);
    }
    let refused = cluster.post(MAPS, body("d", "5")).await.ok(500);
    assert_eq!(refused["message"], "resourceVersion should not be set on objects to be created");
    assert_eq!(cluster.post(MAPS, body("Bad_", "5")).await.status, 422, "the store comes last");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_without_a_name_gets_one() {
    let cluster = TestCluster::simulated(142).await;
    let path = "/api/v1/namespaces/default/limitranges";
    let body = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "100"}}]}});
    assert_eq!(cluster.post(format!("{path}?dryRun=All"), body.clone()).await.status, 201);
    for _ in 0..2 {
        let made = cluster.post(path, body.clone()).await.ok(201);
        let name = made["metadata"]["name"].as_str().unwrap();
        assert_eq!(name.len(), 36);
        assert_eq!(cluster.get(format!("{path}/{name}")).await.ok(200), made);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_name_of_an_ip_address_gets_no_suffix() {
    let cluster = TestCluster::simulated(143).await;
    let body = |base: &str| {
        json!({"metadata": {"generateName": base},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}})
    };
    let path = "/apis/networking.k8s.io/v1/ipaddresses";
    let refused = cluster.post(path, body("Bad_")).await.ok(422);
    assert_eq!(refused["details"]["name"], "Bad_");
    let made = cluster.post(path, body("10.9.8.7")).await.ok(201);
    assert_eq!(made["metadata"]["name"], "10.9.8.7");
    let taken = cluster.post(path, body("10.9.8.7")).await.ok(409);
    assert_eq!(
        taken["message"],
        "ipaddresses.networking.k8s.io \"10.9.8.7\" already exists, the server was not able to generate a unique name for the object"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn admin_access_to_devices_needs_a_namespace_label() {
    let cluster = TestCluster::simulated(144).await;
    let exactly = json!({"deviceClassName": "c", "adminAccess": true});
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": exactly}]}});
    let all = |namespace: &str| {
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}");
        [
            (format!("{path}/resourceclaims"), json!({"metadata": {"name": "c"}, "spec": spec})),
            (
                format!("{path}/resourceclaimtemplates"),
                json!({"metadata": {"name": "c"}, "spec": {"spec": spec}}),
            ),
        ]
    };
    for (path, body) in all("default") {
        let refused = cluster.post(&path, body).await.ok(422);
        let cause = &refused["details"]["causes"][0];
        assert_eq!(cause["field"], "spec.devices.requests[0].adminAccess", "{path}");
        assert_eq!(
            cause["message"],
            "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
        );
    }
    let labels = json!({"resource.kubernetes.io/admin-access": "true"});
    cluster
        .post("/api/v1/namespaces", json!({"metadata": {"name": "admins", "labels": labels}}))
        .await
        .ok(201);
    for (path, body) in all("admins") {
        cluster.post(&path, body).await.ok(201);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_without_labels_takes_those_of_the_template_it_came_with() {
    let cluster = TestCluster::simulated(145).await;
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template}, "status": {"active": 1}});
    let made = cluster.post(JOBS, job.clone()).await.ok(201);
    assert_eq!(made["metadata"]["labels"]["job-name"], "j");
    let path = format!("{JOBS}/j/status");
    let put = cluster.request("PUT", path).typed("application/json", job.to_string()).send().await.ok(200);
    assert_eq!(put["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(put["spec"], made["spec"]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_deprecated_topology_is_dropped() {
    let cluster = TestCluster::simulated(146).await;
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let endpoint = json!({"addresses": ["10.0.0.1"], "deprecatedTopology": {"kubernetes.io/hostname": "n"}});
    let body = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [endpoint]});
    let made = cluster.post(path, body).await.ok(201);
    assert_eq!(made["endpoints"][0].get("deprecatedTopology"), None, "v1 does not take it");
    assert_eq!(made["endpoints"][0].get("nodeName"), None, "and nobody had it before");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_account_with_an_invalid_name_is_not_looked_up() {
    let cluster = TestCluster::simulated(147).await;
    let spec = json!({"serviceAccountName": "a.b/c", "containers": [{"name": "c", "image": "i"}]});
    let refused = cluster.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await.ok(403);
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: error looking up service account default/a.b/c: invalid resource name \"a.b/c\": [may not contain '/']"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_of_upstreams_three_servers_names_its_own_scheme() {
    let cluster = TestCluster::simulated(148).await;
    for (path, scheme) in [
        (MAPS, "pkg/api/legacyscheme/scheme.go:30"),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "pkg/apiserver/apiserver.go:55"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", "pkg/apiserver/scheme/scheme.go:28"),
    ] {
        let refused = cluster.post(path, json!({"kind": "Nonsense"})).await.ok(400);
        let message = refused["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("in scheme \"{scheme}\"")), "{message}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_but_meaningful_member_is_a_change() {
    let cluster = TestCluster::simulated(149).await;
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = |peer: serde_json::Value| json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{"from": [peer]}]}});
    let web = json!({"matchLabels": {"a": "b"}});
    let made = cluster.post(path, policy(json!({"podSelector": web, "namespaceSelector": {}}))).await.ok(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let body = policy(json!({"podSelector": web})).to_string();
    let put = cluster.request("PUT", format!("{path}/p")).typed("application/json", body);
    assert_eq!(put.send().await.ok(200)["metadata"]["generation"], 2);
    cluster.shutdown().await;
}

/// A block in a form that is no longer taken still says which addresses it means.
#[tokio::test(start_paused = true)]
async fn all_invalid_blocks_of_a_network_policy_are_reported_at_once() {
    let cluster = TestCluster::simulated(325).await;
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let refused = |cidr: &'static str, except: Value| {
        let cluster = &cluster;
        async move {
            let block = json!({"ipBlock": {"cidr": cidr, "except": except}});
            let policy = json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{"from": [block]}]}});
            let status = cluster.post(path, policy).await.ok(422);
            let causes = status["details"]["causes"].as_array().unwrap().clone();
            let told = |cause: &Value| {
                let field =
                    cause["field"].as_str().unwrap().trim_start_matches("spec.ingress[0].from[0].ipBlock.");
                format!("{field}: {}", cause["message"].as_str().unwrap())
            };
            causes.iter().map(told).collect::<Vec<_>>()
        }
    };
    let zeros = "must not have leading 0s in IP or prefix length";
    let outside = "must be a strict subset of `cidr`";
    let none = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    assert_eq!(
        refused("010.0.0.0/8", json!(["10.1.0.0/16", "11.0.0.0/16", "10.01.0.0/16", "x"])).await,
        [
            format!("cidr: Invalid value: \"010.0.0.0/8\": {zeros}"),
            format!("except[1]: Invalid value: \"11.0.0.0/16\": {outside}"),
            format!("except[2]: Invalid value: \"10.01.0.0/16\": {zeros}"),
            format!("except[3]: Invalid value: \"x\": {none}"),
        ]
    );
    assert_eq!(
        refused("10.0.0.0/08", json!(["10.0.0.0/07"])).await,
        [
            format!("cidr: Invalid value: \"10.0.0.0/08\": {zeros}"),
            format!("except[0]: Invalid value: \"10.0.0.0/07\": {zeros}"),
            format!("except[0]: Invalid value: \"10.0.0.0/07\": {outside}"),
        ]
    );
    assert_eq!(
        refused("10.0.0.1/8", json!(["11.0.0.0/16"])).await,
        [
            "cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length".to_owned(),
            format!("except[0]: Invalid value: \"11.0.0.0/16\": {outside}"),
        ]
    );
    assert_eq!(refused("x", json!(["y"])).await, [format!("cidr: Invalid value: \"x\": {none}")]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn ip_families_are_detected_in_invalid_cidrs_too() {
    let cluster = TestCluster::simulated(327).await;
    let node = |cidrs: Value| json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": cidrs}});
    let told = |status: Value| status["details"]["causes"].as_array().unwrap().len();
    let dual = json!(["010.0.0.0/16", "fd00::/64"]);
    let one = cluster.post("/api/v1/nodes", node(dual)).await.ok(422);
    assert_eq!(
        one["message"],
        "Node \"n\" is invalid: spec.podCIDRs[0]: Invalid value: \"010.0.0.0/16\": must not have leading 0s in IP or prefix length"
    );
    let same = json!(["010.0.0.0/16", "10.1.0.0/16"]);
    assert_eq!(told(cluster.post("/api/v1/nodes", node(same.clone())).await.ok(422)), 2);
    let ranges = json!({"metadata": {"name": "r"}, "spec": {"cidrs": same}});
    let path = "/apis/networking.k8s.io/v1/servicecidrs";
    assert_eq!(told(cluster.post(path, ranges).await.ok(422)), 2);
    cluster.shutdown().await;
}

/// A policy without rules is not the same as no policy.
#[tokio::test(start_paused = true)]
async fn a_pod_failure_policy_cannot_be_added_to_a_job() {
    let cluster = TestCluster::simulated(326).await;
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    cluster.post(path, json!({"metadata": {"name": "j"}, "spec": {"template": template}})).await.ok(201);
    let replaced =
        "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"";
    for (spec, why) in [
        (
            json!({"podFailurePolicy": {"rules": []}}),
            format!("[{replaced}, spec.podFailurePolicy: Invalid value: {{\"Rules\":[]}}: field is immutable]"),
        ),
        (
            json!({"podFailurePolicy": {}}),
            format!("[{replaced}, spec.podFailurePolicy: Invalid value: {{\"Rules\":null}}: field is immutable]"),
        ),
        (
            json!({"successPolicy": {"rules": []}}),
            "[spec.successPolicy: Invalid value: {\"Rules\":[]}: requires indexed completion mode, spec.successPolicy: Invalid value: {\"Rules\":[]}: field is immutable]".to_owned(),
        ),
        (
            json!({"successPolicy": {}}),
            "[spec.successPolicy: Invalid value: {\"Rules\":null}: requires indexed completion mode, spec.successPolicy: Invalid value: {\"Rules\":null}: field is immutable]".to_owned(),
        ),
        (json!({"completions": 0}), "spec.completions: Invalid value: 0: field is immutable".to_owned()),
        (
            json!({"managedBy": ""}),
            "[spec.managedBy: Required value, spec.managedBy: Invalid value: \"\": field is immutable]".to_owned(),
        ),
    ] {
        let status = cluster.merge(format!("{path}/j"), json!({"spec": spec})).await.ok(422);
        assert_eq!(status["message"], format!("Job.batch \"j\" is invalid: {why}"));
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn uncounted_pods_of_a_finished_job_are_shown_as_go_prints_them() {
    let cluster = TestCluster::simulated(354).await;
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": template}});
    cluster.post(JOBS, job).await.ok(201);
    for (pods, shown) in [
        (json!({"succeeded": ["a", "b"], "failed": []}), r#"{"Succeeded":["a","b"],"Failed":[]}"#),
        (json!({"failed": ["x"]}), r#"{"Succeeded":null,"Failed":["x"]}"#),
    ] {
        let condition = |name: &str| json!({"type": name, "status": "True"});
        let status = json!({"status": {
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            "startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:00:01Z",
            "uncountedTerminatedPods": pods}});
        let ask = cluster.request("PATCH", format!("{JOBS}/j/status"));
        let refused = ask.typed("application/merge-patch+json", status.to_string()).send().await.ok(422);
        let start = "Job.batch \"j\" is invalid: status.uncountedTerminatedPods: Invalid value: ";
        assert_eq!(refused["message"], format!("{start}{shown}: must be empty for finished job"));
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_data_of_a_revision_keeps_the_order_of_its_members() {
    let cluster = TestCluster::simulated(355).await;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let body = |data: &str, revision: u8| {
        format!(r#"{{"metadata":{{"name":"r"}},"revision":{revision},"data":{data}}}"#)
    };
    let send = |method: &str, path: String, body: String| {
        cluster.request(method, path).typed("application/json", body).send()
    };
    send("POST", path.to_owned(), body(r#"{"b":1,"a":{}}"#, 1)).await.ok(201);
    let one = format!("{path}/r");
    let words =
        r#"ControllerRevision.apps "r" is invalid: data: Invalid value: {"a":{},"b":1}: field is immutable"#;
    let refused = send("PUT", one.clone(), body(r#"{"a":{},"b":1}"#, 2)).await.ok(422);
    assert_eq!(refused["message"], words);
    send("PUT", one, body(r#"{"b":1,"a":{}}"#, 2)).await.ok(200);
    cluster.shutdown().await;
}
