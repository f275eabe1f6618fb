//! Bookmarks: an object of the watched kind with a version and the fields its type always writes.

use testkit::TestCluster;

/// Each kind that can be watched, and what kube-apiserver v1.36.4 writes behind the metadata of its bookmarks.
const BLANK: &[(&str, &str)] = &[
    ("/api/v1/configmaps", r#""#),
    ("/api/v1/endpoints", r#""#),
    (
        "/api/v1/events",
        r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#,
    ),
    ("/api/v1/limitranges", r#""spec":{"limits":null}"#),
    ("/api/v1/namespaces", r#""spec":{},"status":{}"#),
    (
        "/api/v1/nodes",
        r#""spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#,
    ),
    ("/api/v1/persistentvolumeclaims", r#""spec":{"resources":{}},"status":{}"#),
    ("/api/v1/persistentvolumes", r#""spec":{},"status":{}"#),
    ("/api/v1/pods", r#""spec":{"containers":null},"status":{}"#),
    ("/api/v1/podtemplates", r#""template":{"metadata":{},"spec":{"containers":null}}"#),
    ("/api/v1/replicationcontrollers", r#""spec":{},"status":{"replicas":0}"#),
    ("/api/v1/resourcequotas", r#""spec":{},"status":{}"#),
    ("/api/v1/secrets", r#""#),
    ("/api/v1/serviceaccounts", r#""#),
    ("/api/v1/services", r#""spec":{},"status":{"loadBalancer":{}}"#),
    (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        r#""spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#,
    ),
    ("/apis/apps/v1/controllerrevisions", r#""data":null,"revision":0"#),
    (
        "/apis/apps/v1/daemonsets",
        r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#,
    ),
    (
        "/apis/apps/v1/deployments",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#,
    ),
    (
        "/apis/apps/v1/replicasets",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}"#,
    ),
    (
        "/apis/apps/v1/statefulsets",
        r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}"#,
    ),
    (
        "/apis/events.k8s.io/v1/events",
        r#""eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#,
    ),
    (
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#,
    ),
    (
        "/apis/autoscaling/v1/horizontalpodautoscalers",
        r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"currentReplicas":0,"desiredReplicas":0}"#,
    ),
    (
        "/apis/batch/v1/cronjobs",
        r#""spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}"#,
    ),
    ("/apis/batch/v1/jobs", r#""spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#),
    (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        r#""spec":{"request":null,"signerName":""},"status":{}"#,
    ),
    ("/apis/networking.k8s.io/v1/ingressclasses", r#""spec":{}"#),
    ("/apis/networking.k8s.io/v1/ingresses", r#""spec":{},"status":{"loadBalancer":{}}"#),
    ("/apis/networking.k8s.io/v1/ipaddresses", r#""spec":{}"#),
    ("/apis/networking.k8s.io/v1/networkpolicies", r#""spec":{"podSelector":{}}"#),
    ("/apis/networking.k8s.io/v1/servicecidrs", r#""spec":{},"status":{}"#),
    (
        "/apis/policy/v1/poddisruptionbudgets",
        r#""spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        r#""roleRef":{"apiGroup":"","kind":"","name":""}"#,
    ),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", r#""rules":null"#),
    ("/apis/rbac.authorization.k8s.io/v1/rolebindings", r#""roleRef":{"apiGroup":"","kind":"","name":""}"#),
    ("/apis/rbac.authorization.k8s.io/v1/roles", r#""rules":null"#),
    ("/apis/storage.k8s.io/v1/csidrivers", r#""spec":{}"#),
    ("/apis/storage.k8s.io/v1/csinodes", r#""spec":{"drivers":null}"#),
    ("/apis/storage.k8s.io/v1/csistoragecapacities", r#""storageClassName":"""#),
    ("/apis/storage.k8s.io/v1/storageclasses", r#""provisioner":"""#),
    (
        "/apis/storage.k8s.io/v1/volumeattachments",
        r#""spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}"#,
    ),
    ("/apis/storage.k8s.io/v1/volumeattributesclasses", r#""driverName":"""#),
    ("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", r#""spec":{}"#),
    ("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", r#""spec":{}"#),
    ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", r#""#),
    ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", r#""spec":{},"status":{}"#),
    ("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", r#""spec":{}"#),
    ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", r#""#),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        r#""spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}"#,
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", r#""value":0"#),
    ("/apis/coordination.k8s.io/v1/leases", r#""spec":{}"#),
    ("/apis/node.k8s.io/v1/runtimeclasses", r#""handler":"""#),
    ("/apis/discovery.k8s.io/v1/endpointslices", r#""addressType":"","endpoints":null,"ports":null"#),
    ("/apis/resource.k8s.io/v1/deviceclasses", r#""spec":{}"#),
    ("/apis/resource.k8s.io/v1/resourceclaims", r#""spec":{"devices":{"requests":null}},"status":{}"#),
    (
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        r#""spec":{"metadata":{},"spec":{"devices":{"requests":null}}}"#,
    ),
    (
        "/apis/resource.k8s.io/v1/resourceslices",
        r#""spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}"#,
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        r#""spec":{"priorityLevelConfiguration":{"name":""},"matchingPrecedence":0},"status":{}"#,
    ),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        r#""spec":{"type":""},"status":{}"#,
    ),
];

const QUERY: &str = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true\
                     &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Dnone";

/// The one of these kinds with an annotation that stands for a number of the internal form.
const NUMBERED: &str = "/apis/apps/v1/daemonsets";

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_an_empty_object_of_its_type() {
    let cluster = TestCluster::simulated(901).await;
    for (path, content) in BLANK {
        let reply = cluster.get(format!("{path}?{QUERY}")).await;
        let text = reply.text();
        let line = text.lines().next().unwrap_or_else(|| panic!("{path}: no event"));
        let behind = line.split_once("\"k8s.io/initial-events-end\":\"true\"}}").map(|(_, behind)| behind);
        let wanted = if content.is_empty() { "}}".to_owned() } else { format!(",{content}}}}}") };
        assert_eq!(behind, Some(wanted.as_str()), "{path}: {line}");
        let number = "\"annotations\":{\"deprecated.daemonset.template.generation\":\"0\",\"k8s.io/initial-events-end\"";
        assert_eq!(line.contains(number), *path == NUMBERED, "{path}: {line}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_watchable_kind_has_a_recorded_bookmark() {
    let cluster = TestCluster::simulated(902).await;
    let mut versions = vec!["/api/v1".to_owned()];
    for group in cluster.get("/apis").await.ok(200)["groups"].as_array().unwrap() {
        let of = group["versions"].as_array().unwrap().iter();
        versions.extend(of.map(|v| format!("/apis/{}", v["groupVersion"].as_str().unwrap())));
    }
    for version in versions {
        for resource in cluster.get(&version).await.ok(200)["resources"].as_array().unwrap() {
            let watched = resource["verbs"].as_array().unwrap().iter().any(|v| v == "watch");
            let path = format!("{version}/{}", resource["name"].as_str().unwrap());
            assert!(!watched || BLANK.iter().any(|(known, _)| *known == path), "{path}");
        }
    }
    cluster.shutdown().await;
}
