//! What an update may change, and what counts as a change, as kube-apiserver v1.36.4 answered the same requests.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const NS: &str = "/api/v1/namespaces/default";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn generation(reply: Value) -> i64 {
    reply["metadata"]["generation"].as_i64().unwrap()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

/// Makes an object of that path (`/…/plural`), which has this name.
async fn made(cluster: &TestCluster, path: &str, mut body: Value) -> String {
    body["metadata"]["name"] = json!("x");
    cluster.post(path, body).await.ok(201);
    format!("{path}/x")
}

async fn patch(cluster: &TestCluster, path: &str, media: &str, body: Value) -> Reply {
    cluster.request("PATCH", path).typed(media, body.to_string()).send().await
}

/// A pointer that is written as empty is no nil, and what may not change may not become it.
#[tokio::test(start_paused = true)]
async fn an_empty_pointer_is_a_change_of_an_immutable_field() {
    let cluster = TestCluster::simulated(730).await;
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    for (path, body, change, field) in [
        (
            format!("{NS}/persistentvolumeclaims"),
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            json!({"spec": {"selector": {}}}),
            "spec",
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs".into(),
            json!({"spec": {"template": template()}}),
            json!({"spec": {"template": {"spec": {"affinity": {}}}}}),
            "spec.template",
        ),
        (
            "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities".into(),
            json!({"storageClassName": "fast"}),
            json!({"nodeTopology": {}}),
            "nodeTopology",
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims".into(),
            json!({"spec": {"devices": {"requests": [request]}}}),
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "capacity": {}}}]}}}),
            "spec",
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events".into(),
            json!({"regarding": {"namespace": "default", "name": "web"}, "reason": "R", "type": "Normal", "action": "A",
                "eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "e.com/c", "reportingInstance": "i"}),
            json!({"related": {}}),
            "related",
        ),
        (
            "/api/v1/persistentvolumes".into(),
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}, "nodeAffinity":
                {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}),
            json!({"spec": {"storageos": {}}}),
            "spec.persistentvolumesource",
        ),
    ] {
        let object = made(&cluster, &path, body).await;
        let before = cluster.get(&object).await.ok(200);
        let refused = cluster.merge(&object, change).await.ok(422);
        let causes = refused["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{path}: {refused}");
        assert_eq!(cluster.get(&object).await.ok(200), before, "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_generation_moves_with_a_pointer_and_not_with_an_empty_list() {
    let cluster = TestCluster::simulated(731).await;
    let mut always = template();
    always["spec"]["restartPolicy"] = json!("Always");
    let body = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": always}});
    let set = made(&cluster, "/apis/apps/v1/namespaces/default/daemonsets", body).await;
    let pod = |member: &str, value: Value| json!({"spec": {"template": {"spec": {member: value}}}});
    let counted = "deprecated.daemonset.template.generation";
    for (member, value, wanted) in
        [("tolerations", json!([]), 1), ("affinity", json!({}), 2), ("affinity", json!(null), 3)]
    {
        let after = cluster.merge(&set, pod(member, value)).await.ok(200);
        assert_eq!(after["metadata"]["annotations"][counted], wanted.to_string());
        assert_eq!(generation(after), wanted, "{member}");
    }
    // Upstream compares these as they are: what is written as empty is not what is stored.
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = made(&cluster, policies, json!({"spec": {"podSelector": {}}})).await;
    for wanted in [2, 3] {
        assert_eq!(generation(cluster.merge(&policy, json!({"spec": {"egress": []}})).await.ok(200)), wanted);
    }
    // A slice is compared before what v1 does not take is dropped.
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice =
        made(&cluster, slices, json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}))
            .await;
    let old = json!([{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": ""}}]);
    let after = cluster.merge(&slice, json!({"endpoints": old})).await.ok(200);
    assert_eq!(after["endpoints"], json!([{"addresses": ["10.0.0.1"], "conditions": {}}]));
    assert_eq!(generation(after), 2);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_patch_may_not_take_away_the_version_where_updates_need_one() {
    let cluster = TestCluster::simulated(732).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = made(&cluster, leases, json!({"spec": {"holderIdentity": "h"}})).await;
    let words = "leases.coordination.k8s.io \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    for version in [json!(null), json!(""), json!("0")] {
        let refused = cluster.merge(&lease, json!({"metadata": {"resourceVersion": version}})).await.ok(422);
        assert_eq!(refused["message"], words);
    }
    let replaced = json!({"metadata": {"$patch": "replace", "name": "x"}});
    assert_eq!(patch(&cluster, &lease, STRATEGIC, replaced).await.ok(422)["message"], words);
    let map = made(&cluster, &format!("{NS}/configmaps"), json!({"data": {"a": "b"}})).await;
    cluster.merge(&map, json!({"metadata": {"resourceVersion": null}})).await.ok(200);
    // It is a number, however it is written.
    let mut object = cluster.get(&lease).await.ok(200);
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    object["metadata"]["resourceVersion"] = json!(format!("0{version}"));
    cluster.put(&lease, object).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_document_without_a_version_has_no_name() {
    let cluster = TestCluster::simulated(733).await;
    let map = made(&cluster, &format!("{NS}/configmaps"), json!({"data": {"a": "b"}})).await;
    let words = "the name of the object (x based on URL) was undeterminable: name must be provided";
    let reply = cluster.merge(&map, json!({"apiVersion": null})).await;
    let told: Vec<&str> =
        reply.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(told, [r#"299 - "unknown field \"data\"""#, r#"299 - "unknown field \"metadata\"""#]);
    assert_eq!(reply.ok(400)["message"], words);
    let removed = json!([{"op": "remove", "path": "/apiVersion"}]);
    assert_eq!(patch(&cluster, &map, JSON_PATCH, removed).await.ok(400)["message"], words);
    let strict = cluster.merge(format!("{map}?fieldValidation=Strict"), json!({"apiVersion": null})).await;
    let message = strict.ok(422)["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with(r#"strict decoding error: unknown field "data", unknown field "metadata""#));
    patch(&cluster, &map, STRATEGIC, json!({"apiVersion": null})).await.ok(200);
    cluster.merge(&map, json!({"kind": null})).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_is_as_sent_or_unchanged() {
    let cluster = TestCluster::simulated(734).await;
    // A prefix of names is the client's, on updates too.
    let map = made(&cluster, &format!("{NS}/configmaps"), json!({"data": {"a": "b"}})).await;
    let mut object = cluster.merge(&map, json!({"metadata": {"generateName": "g-"}})).await.ok(200);
    assert_eq!(object["metadata"]["generateName"], "g-");
    object["metadata"].as_object_mut().unwrap().remove("generateName");
    assert_eq!(cluster.put(&map, object).await.ok(200)["metadata"].get("generateName"), None);
    // Who writes a status does not set the time of deletion, and where all metadata stay, none of it is judged.
    let pod =
        made(&cluster, &format!("{NS}/pods"), json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}))
            .await;
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let limited = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}});
    let level = made(&cluster, levels, json!({"spec": limited})).await;
    let dying = json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}});
    for path in [format!("{pod}/status"), format!("{pod}/resize"), format!("{level}/status")] {
        let after = cluster.merge(&path, dying.clone()).await.ok(200);
        assert_eq!(after["metadata"].get("deletionTimestamp"), None, "{path}");
    }
    cluster.merge(&pod, dying.clone()).await.ok(422);
    cluster
        .merge(format!("{level}/status"), json!({"metadata": {"deletionGracePeriodSeconds": 5}}))
        .await
        .ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn empty_members_are_treated_as_upstream_does() {
    let cluster = TestCluster::simulated(735).await;
    // The feature is gone, and its status with it.
    let node = made(&cluster, "/api/v1/nodes", json!({})).await;
    let after = cluster.merge(format!("{node}/status"), json!({"status": {"config": {}}})).await.ok(200);
    assert_eq!(after["status"].get("config"), None);
    // A resize that speaks of resources of the pod and names none changes something else.
    let pod =
        made(&cluster, &format!("{NS}/pods"), json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}))
            .await;
    let refused = cluster.merge(format!("{pod}/resize"), json!({"spec": {"resources": {}}})).await.ok(422);
    let words = "Pod \"x\" is invalid: spec: Forbidden: only cpu and memory resources are mutable";
    assert_eq!(refused["message"], words);
    let claims =
        json!([{"op": "add", "path": "/spec/containers/0/resources/claims", "value": [{"name": "c"}]}]);
    let refused = patch(&cluster, &format!("{pod}/resize"), JSON_PATCH, claims).await.ok(422);
    let fields = refused["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]);
    assert_eq!(fields.collect::<Vec<_>>(), ["spec.containers[0].resources.claims[0]"]);
    // Not even an empty list of finalizers goes into a template of claims.
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let spec = json!({"metadata": {"finalizers": []}, "spec": {"devices": {"requests": [request]}}});
    let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    let refused = cluster.post(templates, json!({"metadata": {"name": "x"}, "spec": spec})).await.ok(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.metadata.finalizers");
    // The webhook of a conversion is held beside it.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    let definition = json!({"metadata": {"name": "as.example.com"}, "spec":
        {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
    cluster.post(definitions, definition).await.ok(201);
    let empty = json!({"spec": {"conversion": {"strategy": "None", "webhook": {}}}});
    let after = cluster.merge(format!("{definitions}/as.example.com"), empty).await.ok(200);
    assert_eq!(after["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(generation(after), 1);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_names_another_uid_is_a_broken_precondition() {
    let cluster = TestCluster::simulated(736).await;
    let mut always = template();
    always["spec"]["restartPolicy"] = json!("Always");
    let body = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": always}});
    let set = made(&cluster, "/apis/apps/v1/namespaces/default/replicasets", body).await;
    let scale = format!("{set}/scale");
    let mut wanted = cluster.get(&scale).await.ok(200);
    let uid = wanted["metadata"]["uid"].as_str().unwrap().to_owned();
    wanted["metadata"]["uid"] = json!("z");
    let failed = format!("Precondition failed: UID in precondition: z, UID in object meta: {uid}");
    let put = cluster.put(&scale, wanted).await.ok(409);
    let error = "StorageError: invalid object, Code: 4, Key: /registry/replicasets/default/x, ResourceVersion: 0, AdditionalErrorMsg";
    let words = format!("Operation cannot be fulfilled on replicasets.apps \"x\": {error}: {failed}");
    assert_eq!(put["message"], words);
    let patched = cluster.merge(&scale, json!({"metadata": {"uid": "z"}})).await.ok(409);
    let words = format!("Operation cannot be fulfilled on replicasets/scale.apps \"x\": {failed}");
    assert_eq!(patched["message"], words);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn immutable_fields_are_compared_as_sent() {
    let cluster = TestCluster::simulated(737).await;
    // Data that stay are compared as they are.
    let map = json!({"immutable": true, "data": {"a": "b"}});
    let map = made(&cluster, &format!("{NS}/configmaps"), map).await;
    let refused = cluster.merge(&map, json!({"binaryData": {}})).await.ok(422);
    let words =
        "ConfigMap \"x\" is invalid: binaryData: Forbidden: field is immutable when `immutable` is set";
    assert_eq!(refused["message"], words);
    // The affinity of a suspended job may be set, or removed.
    let job = json!({"spec": {"suspend": true, "template": template()}});
    let job = made(&cluster, "/apis/batch/v1/namespaces/default/jobs", job).await;
    let spec = |affinity: Value| json!({"spec": {"template": {"spec": {"affinity": affinity}}}});
    assert_eq!(generation(cluster.merge(&job, spec(json!({}))).await.ok(200)), 2);
    assert_eq!(generation(cluster.merge(&job, spec(json!(null))).await.ok(200)), 3);
    let term = json!({"topologyKey": "k", "labelSelector": {}});
    let pods = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    cluster.merge(&job, spec(pods)).await.ok(422);
    // A label without a name passes for the newer name of any other.
    let requirement =
        |key: &str| json!([{"matchExpressions": [{"key": key, "operator": "In", "values": ["n"]}]}]);
    let affinity = |key: &str| json!({"required": {"nodeSelectorTerms": requirement(key)}});
    let volume = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "local": {"path": "/x"}, "nodeAffinity": affinity("a")}});
    let volume = made(&cluster, "/api/v1/persistentvolumes", volume).await;
    for (key, immutable) in [("", false), ("b", true)] {
        let refused = cluster.merge(&volume, json!({"spec": {"nodeAffinity": affinity(key)}})).await.ok(422);
        let causes = refused["details"]["causes"].as_array().unwrap();
        assert_eq!(
            causes.iter().any(|cause| cause["field"] == "nodeAffinity"),
            immutable,
            "{key}: {refused}"
        );
    }
    // What is dropped because its feature is off was still a change.
    let slice = |device: Value| {
        json!({"spec": {"driver": "a.example.com", "nodeName": "n", "devices": [device],
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}})
    };
    let path = "/apis/resource.k8s.io/v1/resourceslices";
    let made = made(&cluster, path, slice(json!({"name": "d"}))).await;
    let gated = json!({"name": "d", "nodeAllocatableResourceMappings": {"a": {}}});
    let after = cluster.merge(&made, slice(gated)).await.ok(200);
    assert_eq!(after["spec"]["devices"], json!([{"name": "d"}]));
    assert_eq!(generation(after), 2);
    cluster.shutdown().await;
}

/// The root of a schema whose resource has a status may hold little, and an empty list is not nothing.
#[tokio::test(start_paused = true)]
async fn an_empty_list_at_the_root_of_a_schema_is_refused_beside_a_status() {
    let cluster = TestCluster::simulated(738).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let versions = |schema: Value| {
        json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}}])
    };
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    let definition = json!({"metadata": {"name": "as.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": names, "versions": versions(json!({"type": "object"}))}});
    cluster.post(definitions, definition).await.ok(201);
    let with = json!({"type": "object", "enum": [], "properties": {"a": {"type": "string"}}});
    let path = format!("{definitions}/as.example.com");
    let refused = cluster.merge(path, json!({"spec": {"versions": versions(with)}})).await.ok(422);
    let message = refused["details"]["causes"][0]["message"].as_str().unwrap();
    for part in [
        "Invalid value: {\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,\"Description\":\"\",\"Type\":\"object\",\"Nullable\":false,",
        "\"MultipleOf\":null,\"Enum\":[],\"MaxProperties\":null,",
        "\"Properties\":{\"a\":{\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,\"Description\":\"\",\"Type\":\"string\",",
        "\"XMapType\":null,\"XValidations\":null}: only [Description Type Format ",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_scale_gets_upstreams_error() {
    let cluster = TestCluster::simulated(7361).await;
    let mut always = template();
    always["spec"]["restartPolicy"] = json!("Always");
    let body = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": always}});
    let set = made(&cluster, "/apis/apps/v1/namespaces/default/replicasets", body).await;
    let scale = format!("{set}/scale");
    let unnamed = cluster.put(&scale, json!({"spec": {"replicas": 1}, "foo": 2})).await;
    assert_eq!(unnamed.headers.get("warning").unwrap(), r#"299 - "unknown field \"foo\"""#);
    unnamed.ok(400);
    let old = json!({"apiVersion": "extensions/v1beta1", "kind": "Scale", "spec": {"replicas": 1}});
    let words = "the API version in the data (extensions/v1beta1) does not match the expected API version (autoscaling/v1)";
    assert_eq!(cluster.put(&scale, old).await.ok(400)["message"], words);
    // A strategic patch is not decoded: numbers keep their lower bits.
    let large = json!({"spec": {"replicas": 2_147_483_648_u32}}).to_string();
    let strategic = "application/strategic-merge-patch+json";
    for (path, of) in [(&scale, "Scale.autoscaling"), (&set, "ReplicaSet.apps")] {
        let refused = cluster.request("PATCH", path).typed(strategic, large.clone()).send().await.ok(422);
        let words = format!(
            "{of} \"x\" is invalid: spec.replicas: Invalid value: -2147483648: must be greater than or equal to 0"
        );
        assert_eq!(refused["message"], words);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_in_a_dry_run_names_the_key_without_the_stores_prefix() {
    let cluster = TestCluster::simulated(7362).await;
    for (collection, key) in [
        ("/api/v1/namespaces/default/configmaps", "/configmaps/default/x"),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "/leases/default/x"),
    ] {
        let path = made(&cluster, collection, json!({})).await;
        let mut other = cluster.get(&path).await.ok(200);
        other["metadata"]["uid"] = json!("z");
        for (query, prefix) in [("?dryRun=All", ""), ("", "/registry")] {
            let told = cluster.put(format!("{path}{query}"), other.clone()).await.ok(409);
            let told = told["message"].as_str().unwrap();
            assert!(told.contains(&format!("Key: {prefix}{key}, ")), "{told}");
        }
    }
    cluster.shutdown().await;
}
