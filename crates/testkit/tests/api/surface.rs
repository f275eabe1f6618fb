//! What clients read first: discovery, health, version, metrics.

use serde_json::{Value, json};
use testkit::TestCluster;

#[tokio::test(start_paused = true)]
async fn discovery_lists_the_catalogue_and_nothing_else() {
    let cluster = TestCluster::simulated(60).await;
    let catalog = cluster.catalog().clone();
    let mut groups = 0;
    for group in catalog.groups() {
        for version in &group.versions {
            let (path, group_version) = if group.name.is_empty() {
                (format!("/api/{version}"), version.to_string())
            } else {
                (format!("/apis/{}/{version}", group.name), format!("{}/{version}", group.name))
            };
            let list = cluster.get(path.clone()).await.ok(200);
            assert_eq!(list["kind"], json!("APIResourceList"), "{path}");
            assert_eq!(list["groupVersion"], json!(group_version), "{path}");
            let listed = list["resources"].as_array().unwrap();
            let mut wanted = 0;
            for resource in catalog.resources_of(&group.name, version) {
                let find = |name: &str| listed.iter().find(|r| r["name"] == name);
                let row =
                    find(&resource.plural).unwrap_or_else(|| panic!("{path} lacks {}", resource.plural));
                assert_eq!(row["kind"], json!(resource.kind.as_str()));
                assert_eq!(row["namespaced"], json!(resource.namespaced));
                assert_eq!(row["verbs"], json!(resource.verbs.names().collect::<Vec<_>>()));
                for sub in &resource.subresources {
                    let name = format!("{}/{}", resource.plural, sub.name);
                    assert!(find(&name).is_some(), "{path} lacks {name}");
                }
                wanted += 1 + resource.subresources.len();
            }
            assert_eq!(listed.len(), wanted, "{path}");
            groups += 1;
        }
    }
    assert!(groups > 15);

    // The aggregated form says the same in one answer.
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let mut counted = 0;
    for root in ["/api", "/apis"] {
        let all = cluster.request("GET", root).accept(accept).send().await.ok(200);
        assert_eq!(all["kind"], json!("APIGroupDiscoveryList"));
        assert!(!all.to_string().contains("creationTimestamp"), "nothing here was ever created");
        for group in all["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                counted += version["resources"].as_array().unwrap().len();
            }
        }
    }
    assert_eq!(counted, catalog.resources().len());
    let old = cluster.get("/apis").await.ok(200);
    assert_eq!(old["kind"], json!("APIGroupList"));
    assert_eq!(old["groups"].as_array().unwrap().len(), catalog.groups().len() - 1);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn health_version_and_metrics_are_upstreams() {
    let cluster = TestCluster::simulated(61).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let reply = cluster.get(path).await;
        assert_eq!(
            (reply.text().as_str(), &reply.headers["x-content-type-options"]),
            ("ok", &"nosniff".parse().unwrap())
        );
        let told = cluster.get(format!("{path}?verbose")).await.text();
        assert!(told.starts_with("[+]ping ok\n") && told.ends_with("check passed\n"), "{told}");
        for line in told.lines().filter_map(|l| l.strip_prefix("[+]")) {
            let name = line.strip_suffix(" ok").unwrap_or_else(|| panic!("{line}"));
            assert_eq!(cluster.get(format!("{path}/{name}")).await.text(), "ok", "{path}/{name}");
        }
    }
    let version = cluster.get("/version").await.ok(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert_eq!((&version["emulationMajor"], &version["emulationMinor"]), (&json!("1"), &json!("36")));
    let compatible = (&version["minCompatibilityMajor"], &version["minCompatibilityMinor"]);
    assert_eq!(compatible, (&json!("1"), &json!("35")));
    let ours = version["gitVersion"].as_str().unwrap();
    assert!(ours.starts_with(apiserver::KUBERNETES_VERSION), "{ours}");
    cluster.get("/api/v1/namespaces/default/configmaps").await.ok(200);
    let metrics = cluster.get("/metrics").await.text();
    for name in [
        "apiserver_request_total",
        "apiserver_request_duration_seconds_bucket",
        "apiserver_longrunning_requests",
    ] {
        assert!(metrics.contains(&format!("# TYPE {}", name.trim_end_matches("_bucket"))), "no {name}");
    }
    assert!(metrics.contains("resource=\"configmaps\""), "{metrics}");

    cluster.api().begin_shutdown();
    assert_eq!(cluster.get("/readyz").await.status, 500, "not ready while going down");
    assert_eq!(cluster.get("/livez").await.status, 200, "but alive");
    cluster.shutdown().await;
}

/// A pod on a node goes in two steps: the node is told, and says when it is done.
#[tokio::test(start_paused = true)]
async fn a_bound_pod_has_a_grace_period() {
    let cluster = TestCluster::simulated(62).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 20,
        "containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok(201);
    let here = format!("{pods}/p");
    let seconds = |answer: &Value| answer["metadata"]["deletionGracePeriodSeconds"].clone();
    let going = cluster.delete(here.clone()).await.ok(200);
    assert_eq!((&going["kind"], seconds(&going)), (&json!("Pod"), json!(20)));
    assert_eq!(going["metadata"]["deletionTimestamp"], json!("2026-01-01T00:00:20Z"));
    let again = cluster.delete(format!("{here}?gracePeriodSeconds=60")).await.ok(200);
    assert_eq!(seconds(&again), json!(20), "a longer time is not given");
    let sooner = cluster.delete(format!("{here}?gracePeriodSeconds=5")).await.ok(200);
    assert_eq!(seconds(&sooner), json!(5), "a shorter one is");
    assert_eq!(cluster.get(here.clone()).await.status, 200);
    cluster.delete(format!("{here}?gracePeriodSeconds=0")).await.ok(200);
    assert_eq!(cluster.get(here).await.status, 404);
    cluster.shutdown().await;
}

/// Several resources may serve one storage: what is written through one is read, listed and watched through all.
#[tokio::test(start_paused = true)]
async fn one_object_is_seen_through_every_version() {
    let cluster = TestCluster::simulated(63).await;
    let (old, new) =
        ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let mut watch = cluster.watch(format!("{new}?watch=1&timeoutSeconds=1")).await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"},
        "reason": "Started", "message": "m", "type": "Normal", "count": 2, "source": {"component": "c"}});
    let made = cluster.post(old, event).await.ok(201);
    let seen = cluster.get(format!("{new}/e")).await.ok(200);
    assert_eq!((&seen["apiVersion"], &seen["kind"]), (&json!("events.k8s.io/v1"), &json!("Event")));
    assert_eq!(seen["metadata"], made["metadata"], "one object, one version");
    assert_eq!((&seen["regarding"]["name"], &seen["note"]), (&json!("p"), &json!("m")));
    assert_eq!((&seen["deprecatedCount"], &seen["deprecatedSource"]["component"]), (&json!(2), &json!("c")));
    assert_eq!(watch.next().await.unwrap(), json!({"type": "ADDED", "object": seen}));
    let list = cluster.get(format!("{new}?fieldSelector=regarding.name%3Dp")).await.ok(200);
    assert_eq!(list["items"][0]["regarding"], seen["regarding"]);
    assert_eq!(cluster.get(format!("{old}?fieldSelector=regarding.name%3Dp")).await.status, 400);

    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70});
    cluster.post(path("v1"), json!({"metadata": {"name": "h"}, "spec": spec})).await.ok(201);
    let v2 = cluster.get(format!("{}/h", path("v2"))).await.ok(200);
    let cpu = json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 70}}}]);
    assert_eq!(v2["spec"]["metrics"], cpu);
    let mut changed = v2.clone();
    changed["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = json!(50);
    cluster.put(format!("{}/h", path("v2")), changed).await.ok(200);
    let v1 = cluster.get(format!("{}/h", path("v1"))).await.ok(200);
    assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], json!(50));
    assert_eq!(v1["metadata"]["uid"], v2["metadata"]["uid"]);
    cluster.shutdown().await;
}

/// What a client has already is not sent again.
#[tokio::test(start_paused = true)]
async fn documents_have_tags_and_are_sent_once() {
    let cluster = TestCluster::simulated(63).await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept) in [
        ("/openapi/v2", "application/json"),
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/apis/apps/v1", "application/json"),
        ("/api", aggregated),
        ("/apis", aggregated),
    ] {
        let first = cluster.request("GET", path).accept(accept).send().await;
        first.ok(200);
        let tag = first.headers.get("etag").unwrap_or_else(|| panic!("{path} has no tag")).to_str().unwrap();
        let again = cluster.request("GET", path).accept(accept).header("if-none-match", tag).send().await;
        assert_eq!((again.status, again.bytes.len()), (304, 0), "{path}");
        let other = cluster.request("GET", path).accept(accept).header("if-none-match", "\"x\"").send().await;
        assert_eq!((other.status, &other.bytes), (200, &first.bytes), "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn aggregated_discovery_names_only_versions_that_are_not_the_resources_own() {
    let cluster = TestCluster::simulated(4301).await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let reply = cluster.request("GET", "/apis").header("accept", accept).send().await;
    assert_eq!(reply.headers.get("cache-control").unwrap(), "public");
    let all = reply.ok(200);
    let apps = all["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
    let resources = apps["versions"][0]["resources"].as_array().unwrap();
    let deployments = resources.iter().find(|r| r["resource"] == "deployments").unwrap();
    assert_eq!(deployments["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
    let subresources = deployments["subresources"].as_array().unwrap();
    let kind = |name: &str| &subresources.iter().find(|s| s["subresource"] == name).unwrap()["responseKind"];
    assert_eq!(*kind("scale"), json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(*kind("status"), json!({"group": "", "version": "", "kind": "Deployment"}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_openapi_document_is_an_empty_404() {
    let cluster = TestCluster::simulated(4302).await;
    for path in ["/openapi/v3/apis/nope/v1", "/openapi/v3/"] {
        let reply = cluster.get(path).await;
        assert_eq!((reply.status, reply.bytes.len()), (404, 0), "{path}");
        assert_eq!(reply.headers.get("content-type"), None, "{path}");
    }
    cluster.shutdown().await;
}
