//! The ways to change or end a pod: resize, ephemeralcontainers, forced deletion. Answers and events are those of kube-apiserver
//! v1.36.4.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const PODS: &str = "/api/v1/namespaces/default/pods";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn create(cluster: &TestCluster, name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (member, value) in spec.as_object().unwrap() {
        pod["spec"][member] = value.clone();
    }
    cluster.post(PODS, pod).await.ok(201)
}

async fn strategic(cluster: &TestCluster, path: String, patch: Value) -> Reply {
    cluster.request("PATCH", path).typed(STRATEGIC, patch.to_string()).send().await
}

async fn resize(cluster: &TestCluster, name: &str, resources: Value) -> Reply {
    let patch = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    strategic(cluster, format!("{PODS}/{name}/resize"), patch).await
}

async fn debug(cluster: &TestCluster, container: Value) -> Reply {
    let patch = json!({"spec": {"ephemeralContainers": [container]}});
    strategic(cluster, format!("{PODS}/r/ephemeralcontainers"), patch).await
}

#[track_caller]
fn refused(reply: &Reply, field: &str, message: &str) {
    let status = reply.ok(422);
    let text = status["message"].as_str().unwrap();
    assert!(text.starts_with(&format!("Pod \"{}\" is invalid: {field}: {message}", "r")), "{text}");
    assert_eq!(status["details"]["causes"][0]["field"], field);
}

fn burstable() -> Value {
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}});
    json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
}

#[tokio::test(start_paused = true)]
async fn a_resize_changes_cpu_and_memory_and_nothing_else() {
    let cluster = TestCluster::simulated(310).await;
    let created = create(&cluster, "r", burstable()).await;
    assert_eq!(created["metadata"]["generation"], 1);
    let resized = resize(&cluster, "r", json!({"requests": {"cpu": "200m"}})).await.ok(200);
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "200m"}));
    assert_eq!(resized["metadata"]["generation"], 2);
    assert_eq!(resized["status"]["qosClass"], "Burstable");
    // Everything but resources is read over.
    let patch = json!({
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "300m"}}}]},
    });
    strategic(&cluster, format!("{PODS}/r/resize"), patch).await.ok(200);
    let pod = cluster.get(format!("{PODS}/r/resize")).await.ok(200);
    let container = &pod["spec"]["containers"][0];
    assert_eq!((&container["image"], &pod["metadata"]["labels"]), (&json!("i"), &Value::Null));
    assert_eq!(container["resources"]["requests"]["cpu"], "300m");
    assert_eq!(pod["metadata"]["generation"], 3);

    let without = |patch: Value| {
        let cluster = &cluster;
        async move { resize(cluster, "r", patch).await }
    };
    let all = json!({"cpu": "1", "memory": "1Gi"});
    refused(
        &without(json!({"requests": all, "limits": all})).await,
        "spec",
        "Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
    );
    refused(
        &without(json!({"requests": {"cpu": "3"}})).await,
        "spec.containers[0].resources.requests",
        "Invalid value: \"3\": must be less than or equal to cpu limit of 1",
    );
    refused(
        &without(json!({"requests": {"ephemeral-storage": "1Gi"}})).await,
        "spec",
        "Forbidden: only cpu and memory resources are mutable",
    );
    // Not through the front door.
    let patch = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}});
    refused(
        &strategic(&cluster, format!("{PODS}/r"), patch).await,
        "spec",
        "Forbidden: pod updates may not change fields other than",
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_of_another_version_or_of_no_pod_is_refused() {
    let cluster = TestCluster::simulated(311).await;
    let mut pod = create(&cluster, "r", burstable()).await;
    pod["metadata"]["resourceVersion"] = json!("1");
    for door in ["resize", "ephemeralcontainers"] {
        let stale = cluster.put(format!("{PODS}/r/{door}"), pod.clone()).await.ok(409);
        assert_eq!(
            stale["message"],
            "Operation cannot be fulfilled on pods \"r\": the object has been modified; please apply your changes to the latest version and try again"
        );
        let absent = cluster.merge(format!("{PODS}/none/{door}"), json!({})).await.ok(404);
        assert_eq!(absent["message"], "pods \"none\" not found");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_resized_is_refused_as_a_whole() {
    let cluster = TestCluster::simulated(312).await;
    create(&cluster, "r", json!({"os": {"name": "windows"}})).await;
    let reply = resize(&cluster, "r", json!({"requests": {"cpu": "200m"}})).await;
    let status = reply.ok(422);
    assert_eq!(status["message"], "Pod \"r\" is invalid: []: Forbidden: windows pods cannot be resized");
    let causes = json!([
        {"reason": "FieldValueForbidden", "message": "Forbidden: windows pods cannot be resized", "field": "[]"},
    ]);
    assert_eq!(status["details"]["causes"], causes);

    let mirror = json!({
        "metadata": {"name": "static", "annotations": {"kubernetes.io/config.mirror": "hash"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    let made = cluster.post(PODS, mirror).await;
    made.ok(201);
    let status = resize(&cluster, "static", json!({"requests": {"cpu": "1"}})).await.ok(422);
    assert_eq!(status["message"], "Pod \"static\" is invalid: []: Forbidden: static pods cannot be resized");
    let patch = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    let status = strategic(&cluster, format!("{PODS}/static/ephemeralcontainers"), patch).await.ok(422);
    assert_eq!(
        status["message"],
        "Pod \"static\" is invalid: []: Forbidden: static pods do not support ephemeral containers"
    );
    let both = format!("{PODS}/r/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z");
    let status = cluster.get(both).await.ok(422);
    assert_eq!(
        status["message"],
        "PodLogOptions \"r\" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
    );
    assert_eq!(status["details"]["causes"][0]["field"], "[]");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_holds_for_a_resize_too() {
    let cluster = TestCluster::simulated(313).await;
    let range = json!({
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"memory": "1Gi"}}]},
    });
    cluster.post("/api/v1/namespaces/default/limitranges", range).await.ok(201);
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    create(&cluster, "r", json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})).await;
    let over = resize(&cluster, "r", json!({"requests": {"cpu": "3"}, "limits": {"cpu": "3"}})).await.ok(403);
    assert_eq!(
        over["message"],
        "pods \"r\" is forbidden: maximum cpu usage per Container is 2, but limit is 3"
    );
    let resized =
        resize(&cluster, "r", json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})).await.ok(200);
    let all = json!({"cpu": "2", "memory": "1Gi"});
    assert_eq!(resized["spec"]["containers"][0]["resources"], json!({"limits": all, "requests": all}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pod_level_requests_include_the_limit_range_defaults_of_containers() {
    let cluster = TestCluster::simulated(314).await;
    let range = json!({
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "64Mi"}}]},
    });
    cluster.post("/api/v1/namespaces/default/limitranges", range).await.ok(201);
    let two = json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]);
    let own = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
    let pod = create(&cluster, "a", json!({"resources": own, "containers": two})).await;
    assert_eq!(
        pod["spec"]["resources"],
        json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "128Mi"}})
    );
    assert_eq!(cluster.get(format!("{PODS}/a")).await.ok(200)["spec"], pod["spec"]);
    // What the pod itself limits was asked for before the containers got theirs.
    let pod = create(&cluster, "b", json!({"resources": {"limits": {"memory": "1Gi"}}})).await;
    let all = json!({"memory": "1Gi"});
    assert_eq!(pod["spec"]["resources"], json!({"limits": all, "requests": all}));
    let pod = create(&cluster, "d", json!({"resources": {}})).await;
    assert_eq!(pod["spec"]["resources"], json!({}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_can_be_added_but_not_changed_or_removed() {
    let cluster = TestCluster::simulated(315).await;
    create(&cluster, "r", burstable()).await;
    let debugged = debug(&cluster, json!({"name": "dbg", "image": "busybox"})).await.ok(200);
    let expected = json!([{
        "name": "dbg", "image": "busybox", "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
    }]);
    assert_eq!(debugged["spec"]["ephemeralContainers"], expected);
    assert_eq!(debugged["metadata"]["generation"], 2);

    let at = "spec.ephemeralContainers";
    let first = |member: &str| format!("{at}[0].{member}");
    let nothing = "Forbidden: cannot be set for an Ephemeral Container";
    let ports = json!({"name": "x", "image": "i", "ports": [{"containerPort": 80}]});
    refused(&debug(&cluster, ports).await, &first("ports"), nothing);
    let resources = json!({"name": "x", "image": "i", "resources": {"limits": {"cpu": "1"}}});
    refused(&debug(&cluster, resources).await, &first("resources"), nothing);
    let same = json!({"name": "c", "image": "i"});
    refused(&debug(&cluster, same).await, &first("name"), "Duplicate value: \"c\"");
    let nobody = json!({"name": "x", "image": "i", "targetContainerName": "zz"});
    refused(&debug(&cluster, nobody).await, &first("targetContainerName"), "Not found: \"zz\"");
    let changed = json!({"name": "dbg", "image": "other"});
    let why = "Forbidden: existing ephemeral containers \"dbg\" may not be changed\n@@ -1,6 +1,6 @@\n";
    refused(&debug(&cluster, changed).await, at, why);
    let path = format!("{PODS}/r/ephemeralcontainers");
    let gone = cluster.merge(path.as_str(), json!({"spec": {"ephemeralContainers": null}})).await;
    refused(&gone, at, "Forbidden: existing ephemeral containers \"dbg\" may not be removed\n");

    // The rest of the object is read over.
    let patch = json!({
        "metadata": {"labels": {"q": "r"}},
        "spec": {"activeDeadlineSeconds": 5, "ephemeralContainers": [{"name": "two", "image": "i"}]},
    });
    let pod = strategic(&cluster, path, patch).await.ok(200);
    assert_eq!(pod["spec"]["ephemeralContainers"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&pod["metadata"]["labels"], &pod["spec"]["activeDeadlineSeconds"]),
        (&Value::Null, &Value::Null)
    );

    let born = json!({
        "metadata": {"name": "r"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "ephemeralContainers": [{"name": "x", "image": "i"}]},
    });
    cluster.delete(format!("{PODS}/r")).await.ok(200);
    refused(&cluster.post(PODS, born).await, at, "Forbidden: cannot be set on create");
    cluster.shutdown().await;
}

/// Whoever watches sees the grace that was left, down to none, before the pod is gone.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_deleted_without_grace_is_first_modified() {
    let cluster = TestCluster::simulated(316).await;
    let asked: [&[Option<i64>]; 5] = [
        &[Some(30), Some(0)],
        &[Some(30), Some(1), Some(0)],
        &[None, Some(0)],
        &[Some(5), Some(-3), Some(0)],
        &[Some(1), Some(0)],
    ];
    for periods in asked {
        create(&cluster, "w", json!({"nodeName": "n1"})).await;
        let version = cluster.get(format!("{PODS}/w")).await.version();
        let mut watch =
            cluster.watch(format!("{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=5")).await;
        let mut expected = Vec::new();
        for period in periods {
            let query = period.map(|seconds| format!("?gracePeriodSeconds={seconds}")).unwrap_or_default();
            let answer = cluster.delete(format!("{PODS}/w{query}")).await.ok(200);
            let grace = match period {
                None => 30,
                Some(seconds) if *seconds < 0 => 1,
                Some(seconds) => *seconds,
            };
            assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], grace);
            assert_eq!(answer["metadata"]["generation"], 2);
            expected.push(("MODIFIED".to_owned(), grace));
        }
        expected.push(("DELETED".to_owned(), 0));
        let events = watch.rest().await.into_iter().map(|event| {
            let grace = event["object"]["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap();
            (event["type"].as_str().unwrap().to_owned(), grace)
        });
        assert_eq!(events.collect::<Vec<_>>(), expected, "{periods:?}");
    }
    cluster.shutdown().await;
}
