//! What upstream's integration tests of server-side apply (test/integration/apiserver/apply) look at, beyond `apply.rs`: who owns what
//! after many writes, how managers are cleared, renamed and merged, lists with keys, scales, statuses and permissions.

use std::time::Duration;

use auth::UserInfo;
use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn apply(cluster: &TestCluster, path: &str, manager: &str, config: &Value) -> Reply {
    let and = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{and}fieldManager={manager}");
    cluster.request("PATCH", path).typed("application/apply-patch+yaml", config.to_string()).send().await
}

async fn patch(cluster: &TestCluster, path: &str, form: &str, patch: Value) -> Reply {
    let media = format!("application/{form}+json");
    cluster.request("PATCH", path).typed(&media, patch.to_string()).send().await
}

/// `manager operation subresource`, in the order they are kept.
fn who(object: &Value) -> Vec<String> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| ["manager", "operation", "subresource"].map(|n| text(e, n)).join(" ")).collect()
}

fn fields(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let found = entries.into_iter().find(|entry| entry["manager"] == manager);
    found.unwrap_or_else(|| panic!("{manager} manages nothing of {object}"))["fieldsV1"].clone()
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn workload(kind: &str, spec: Value) -> Value {
    let mut out = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "i"}]}}}});
    for (name, value) in spec.as_object().expect("a map") {
        out["spec"][name] = value.clone();
    }
    out
}

fn containers(containers: Value) -> Value {
    let mut out = workload("Deployment", json!({}));
    out["spec"]["template"]["spec"]["containers"] = containers;
    out
}

fn pod(labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_written_however_late_it_comes() {
    let cluster = TestCluster::simulated(1).await;
    let later = || cluster.env().sleep(Duration::from_secs(5));
    // Times of creation and versions that are null are not there.
    let mut config = map("a", json!({"k": "v"}));
    config["metadata"]["creationTimestamp"] = Value::Null;
    config["metadata"]["resourceVersion"] = Value::Null;
    let made = apply(&cluster, &format!("{MAPS}/a"), "one", &config).await.ok(201);
    later().await;
    assert_eq!(apply(&cluster, &format!("{MAPS}/a"), "one", &config).await.ok(200), made);

    let path = format!("{DEPLOYMENTS}/web");
    let resources = json!([{"name": "web", "image": "i", "resources": {"limits": {"memory": "2048Mi"}}}]);
    let made = apply(&cluster, &path, "one", &containers(resources)).await.ok(201);
    assert_eq!(made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"], "2Gi");
    later().await;
    let same = cluster.put(format!("{path}?fieldManager=two"), made.clone()).await.ok(200);
    assert_eq!(same, made);
    let again =
        patch(&cluster, &path, "strategic-merge-patch", json!({"spec": {"replicas": 1}})).await.ok(200);
    assert_eq!(again, made);

    // An empty member that means something is not the same as none.
    let volumes = |volume: Value| {
        let mut pod = pod(json!({}));
        pod["spec"]["volumes"] = json!([volume]);
        pod
    };
    let with = apply(&cluster, &format!("{PODS}/p"), "one", &volumes(json!({"name": "v", "emptyDir": {}})))
        .await
        .ok(201);
    let without = apply(&cluster, &format!("{PODS}/p"), "one", &volumes(json!({"name": "v"}))).await.ok(200);
    assert_ne!(without["metadata"]["resourceVersion"], with["metadata"]["resourceVersion"]);
    let owned = fields(&without, "one")["f:spec"]["f:volumes"][r#"k:{"name":"v"}"#].clone();
    assert_eq!(owned, json!({".": {}, "f:name": {}}));
}

#[tokio::test]
async fn many_updates_are_gathered_and_applies_are_not() {
    let cluster = TestCluster::start().await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
    let config = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook", "labels": {"applied": "true"}}});
    apply(&cluster, path, "applier", &config).await.ok(201);
    let mut last = Value::Null;
    for n in 0..20 {
        let labels = json!({"metadata": {"labels": {format!("l{n}"): "1"}}});
        last = cluster.merge(format!("{path}?fieldManager=updater{n}"), labels).await.ok(200);
    }
    let who = who(&last);
    assert_eq!(who.len(), 11, "ten updates and an apply: {who:?}");
    assert_eq!(who[..2], ["applier Apply -", "ancient-changes Update -"]);
    let ancient =
        fields(&last, "ancient-changes")["f:metadata"]["f:labels"].as_object().map(serde_json::Map::len);
    assert_eq!(ancient, Some(11));
}

/// An update takes a field away from an applier, who meets it as a conflict, and may force.
#[tokio::test]
async fn an_update_takes_over_and_a_forced_apply_takes_back() {
    let cluster = TestCluster::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let config = workload("Deployment", json!({"replicas": 3}));
    let mut made = apply(&cluster, &path, "applier", &config).await.ok(201);
    made["spec"]["replicas"] = json!(4);
    cluster.put(format!("{path}?fieldManager=controller"), made).await.ok(200);
    let refused = apply(&cluster, &path, "applier", &config).await.ok(409);
    let causes = json!([{"reason": "FieldManagerConflict", "field": ".spec.replicas",
        "message": "conflict with \"controller\" using apps/v1"}]);
    assert_eq!(refused["details"]["causes"], causes);
    // Who leaves the field out leaves it to the controller.
    let left = apply(&cluster, &path, "applier", &workload("Deployment", json!({}))).await.ok(200);
    assert_eq!(left["spec"]["replicas"], 4);
    let forced = apply(&cluster, &format!("{path}?force=true"), "applier", &config).await.ok(200);
    assert_eq!((&forced["spec"]["replicas"], who(&forced)), (&json!(3), vec!["applier Apply -".to_owned()]));
}

#[tokio::test]
async fn items_of_lists_go_with_their_applier_whatever_others_added_to_them() {
    let cluster = TestCluster::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let mut made = apply(&cluster, &path, "applier", &workload("Deployment", json!({}))).await.ok(201);
    made["spec"]["template"]["spec"]["containers"][0]["workingDir"] = json!("/home");
    cluster.put(format!("{path}?fieldManager=controller"), made).await.ok(200);
    let other = apply(&cluster, &path, "applier", &containers(json!([{"name": "other", "image": "i"}])))
        .await
        .ok(200);
    let left = other["spec"]["template"]["spec"]["containers"].as_array().expect("containers").clone();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["name"], "other");
    assert_eq!(who(&other), ["applier Apply -"], "nothing is left of the controller's");

    // One port of two; the key that is left out has its default.
    let ports = |ports: Value| containers(json!([{"name": "other", "image": "i", "ports": ports}]));
    let two = json!([{"containerPort": 80}, {"containerPort": 443, "protocol": "TCP"}]);
    apply(&cluster, &path, "applier", &ports(two)).await.ok(200);
    let one = apply(&cluster, &path, "applier", &ports(json!([{"containerPort": 80, "name": "http"}])))
        .await
        .ok(200);
    let left = &one["spec"]["template"]["spec"]["containers"][0]["ports"];
    assert_eq!(*left, json!([{"name": "http", "containerPort": 80, "protocol": "TCP"}]));
    let said = json!([{"containerPort": 80, "name": "web", "protocol": "TCP"}]);
    let refused = apply(&cluster, &path, "other", &ports(said)).await.ok(409);
    let named = r#".spec.template.spec.containers[name="other"].ports[containerPort=80,protocol="TCP"].name"#;
    assert_eq!(refused["details"]["causes"].as_array().map(Vec::len), Some(1), "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], named);
}

#[tokio::test]
async fn a_configuration_of_another_version_or_with_managers_is_refused() {
    let cluster = TestCluster::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let mut old = workload("Deployment", json!({}));
    old["apiVersion"] = json!("extensions/v1beta");
    let refused = apply(&cluster, &path, "one", &old).await.ok(400);
    assert_eq!(refused["message"], "invalid object type: extensions/v1beta, Kind=Deployment");
    let mut managed = map("a", json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    let refused = apply(&cluster, &format!("{MAPS}/a"), "one", &managed).await.ok(400);
    assert_eq!(refused["message"], "metadata.managedFields must be nil");
    managed["metadata"]["managedFields"] = json!([{"time": "yesterday"}]);
    let refused = apply(&cluster, &format!("{MAPS}/a"), "one", &managed).await.ok(500);
    assert_eq!(
        refused["message"],
        "failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: unable to convert unstructured object to \
         /v1, Kind=ConfigMap: parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\""
    );
    // Who owns nothing is not listed.
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let made = apply(&cluster, &format!("{MAPS}/a"), "one", &bare).await.ok(201);
    assert_eq!(made["metadata"].get("managedFields"), None, "{made}");
}

/// A version that is not served any more says nothing, and its manager begins anew.
#[tokio::test]
async fn managers_of_versions_that_are_gone_are_dropped() {
    let cluster = TestCluster::start().await;
    let mut sent = workload("Deployment", json!({}));
    sent["metadata"]["managedFields"] = json!([{"manager": "sidecar", "operation": "Apply",
        "apiVersion": "extensions/v1beta1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:sidecar": {}}}}}]);
    cluster.post(format!("{DEPLOYMENTS}?fieldManager=maker"), sent).await.ok(201);
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web",
        "labels": {"sidecar": "v1"}}, "spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "s"}]}}}});
    let now = apply(&cluster, &format!("{DEPLOYMENTS}/web"), "sidecar", &config).await.ok(200);
    assert_eq!(who(&now), ["sidecar Apply -", "maker Update -"]);
    let container = json!({r#"k:{"name":"sidecar"}"#: {".": {}, "f:image": {}, "f:name": {}}});
    let owned = json!({"f:metadata": {"f:labels": {"f:sidecar": {}}},
        "f:spec": {"f:template": {"f:spec": {"f:containers": container}}}});
    assert_eq!(fields(&now, "sidecar"), owned);
}

#[tokio::test]
async fn managers_are_cleared_by_every_verb() {
    let cluster = TestCluster::start().await;
    let (path, one) = (format!("{MAPS}/a"), map("a", json!({"k": "1"})));
    let empty = json!({"metadata": {"managedFields": [{}]}});
    for form in ["merge-patch", "strategic-merge-patch", "json-patch", "put", "put an empty list"] {
        // Forced: what was cleared belongs to before-first-apply.
        let made = apply(&cluster, &format!("{path}?force=true"), "one", &one).await.json();
        assert!(!who(&made).is_empty(), "{made}");
        let cleared = match form {
            "json-patch" => {
                let replace = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
                patch(&cluster, &path, form, replace).await
            }
            "put" | "put an empty list" => {
                let mut whole = made;
                whole["metadata"]["managedFields"] = if form == "put" { json!([{}]) } else { json!([]) };
                cluster.put(&*path, whole).await
            }
            form => patch(&cluster, &path, form, empty.clone()).await,
        };
        let cleared = cleared.ok(200);
        assert_eq!((form, cleared["metadata"].get("managedFields")), (form, None));
        assert_eq!(cleared["data"], json!({"k": "1"}), "{form}");
    }
    // An empty list in a merge patch clears, too; leaving them out of a PUT does not.
    let made = apply(&cluster, &format!("{path}?force=true"), "one", &one).await.ok(200);
    let mut whole = made.clone();
    whole["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    assert_eq!(cluster.put(&*path, whole).await.ok(200), made);
}

/// An object whose lists break the rules of apply can be written all the same; it is not tracked then.
#[tokio::test]
async fn objects_that_cannot_be_tracked_are_written_all_the_same() {
    let cluster = TestCluster::start().await;
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let mut twice = pod(json!({}));
    twice["spec"]["containers"][0]["env"] = env.clone();
    let made = cluster.post(PODS, twice).await.ok(201);
    assert_eq!(made["spec"]["containers"][0]["env"], env);
    let relabelled =
        cluster.merge(format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(relabelled["metadata"]["labels"], json!({"a": "b"}));
    let mut whole = relabelled;
    whole["metadata"]["labels"] = json!({"a": "c"});
    assert_eq!(
        cluster.put(format!("{PODS}/p"), whole).await.ok(200)["metadata"]["labels"],
        json!({"a": "c"})
    );
}

/// Items that a list has twice are owned as one; an apply that names the key refuses the list or takes all of them.
#[tokio::test]
async fn items_that_are_there_twice_have_one_owner() {
    let cluster = TestCluster::start().await;
    let mut twice = workload("DaemonSet", json!({}));
    let container = &mut twice["spec"]["template"]["spec"]["containers"][0];
    container["env"] =
        json!([{"name": "A", "value": "0"}, {"name": "PATH", "value": "1"}, {"name": "PATH", "value": "2"}]);
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let made = cluster.post(format!("{sets}?fieldManager=create"), twice.clone()).await.ok(201);
    let of = |object: &Value, manager: &str| {
        fields(object, manager)["f:spec"]["f:template"]["f:spec"]["f:containers"][r#"k:{"name":"web"}"#]["f:env"].clone()
    };
    let a = json!({".": {}, "f:name": {}, "f:value": {}});
    assert_eq!(of(&made, "create"), json!({".": {}, r#"k:{"name":"A"}"#: a, r#"k:{"name":"PATH"}"#: {}}));

    let mut config = workload("DaemonSet", json!({}));
    config["spec"]["template"]["spec"]["containers"][0] =
        json!({"name": "web", "env": [{"name": "PATH", "value": "3"}]});
    let refused = apply(&cluster, &format!("{sets}/web"), "apply", &config).await.ok(409);
    let field = r#".spec.template.spec.containers[name="web"].env[name="PATH"]"#;
    assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
    let forced = apply(&cluster, &format!("{sets}/web?force=true"), "apply", &config).await.ok(200);
    let left = json!([{"name": "A", "value": "0"}, {"name": "PATH", "value": "3"}]);
    assert_eq!(forced["spec"]["template"]["spec"]["containers"][0]["env"], left);
    assert_eq!(of(&forced, "create"), json!({".": {}, r#"k:{"name":"A"}"#: a}));
    let refused = apply(&cluster, &format!("{sets}/web"), "apply", &twice).await.ok(500);
    assert!(
        refused["message"].as_str().expect("a message").contains("duplicate entries for key [name=\"PATH\"]"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_subresource_is_no_way_to_the_managers_of_the_object() {
    let cluster = TestCluster::start().await;
    let path = format!("{PODS}/p");
    let before = apply(&cluster, &path, "one", &pod(json!({}))).await.ok(201);
    let sent = json!({"metadata": {"managedFields": [{"manager": "forged", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": {r#"k:{"name":"x"}"#: {".": {}}}}}}]},
        "status": {"conditions": [{"type": "Mine", "status": "True"}]}});
    let now = cluster.merge(format!("{path}/status?fieldManager=node"), sent).await.ok(200);
    assert_eq!(who(&now), ["one Apply -", "node Update status"]);
    assert_eq!(now["metadata"]["managedFields"][0], before["metadata"]["managedFields"][0]);
    let cleared = json!({"metadata": {"managedFields": [{}]}});
    let now = cluster.merge(format!("{path}/status?fieldManager=node"), cleared).await.ok(200);
    assert_eq!(who(&now), ["one Apply -", "node Update status"]);
}

/// Managers are told apart by name, operation, version and subresource; of two that become the same, the last one counts.
#[tokio::test]
async fn managers_that_get_the_same_name_become_one() {
    let cluster = TestCluster::start().await;
    let path = format!("{PODS}/p");
    let rename = async |change: fn(&mut Value)| {
        let mut object = cluster.get(&*path).await.ok(200);
        object["metadata"]["managedFields"].as_array_mut().expect("managers").iter_mut().for_each(change);
        cluster.put(&*path, object).await.ok(200)
    };
    let label = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {name: "1"}}});
    apply(&cluster, &path, "one", &pod(json!({"a": "1"}))).await.ok(201);
    apply(&cluster, &path, "two", &label("b")).await.ok(200);
    let renamed = rename(|entry| entry["manager"] = json!("both")).await;
    assert_eq!(who(&renamed), ["both Apply -"]);
    assert_eq!(fields(&renamed, "both"), json!({"f:metadata": {"f:labels": {"f:b": {}}}}));

    for name in ["c", "d"] {
        cluster.merge(format!("{path}?fieldManager=up-{name}"), label(name)).await.ok(200);
    }
    let renamed = rename(|entry| entry["manager"] = json!("all")).await;
    assert_eq!(who(&renamed), ["all Apply -", "all Update -"]);
    let updates = &renamed["metadata"]["managedFields"][1]["fieldsV1"];
    assert_eq!(*updates, json!({"f:metadata": {"f:labels": {"f:d": {}}}}));

    let phase = json!({"status": {"phase": "Running"}});
    let now = cluster.merge(format!("{path}/status?fieldManager=all"), phase).await.ok(200);
    assert_eq!(who(&now), ["all Apply -", "all Update -", "all Update status"]);
    let dropped = rename(|entry| drop(entry.as_object_mut().expect("an entry").remove("subresource"))).await;
    assert_eq!(who(&dropped), ["all Apply -", "all Update -"]);
    assert_eq!(dropped["metadata"]["managedFields"][1]["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

/// kubectl's annotation: fields it applied from its own side are no conflicts unless somebody changed them since.
#[tokio::test]
async fn what_kubectl_applied_from_its_side_is_its_own() {
    let cluster = TestCluster::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let last = workload("Deployment", json!({"replicas": 3}));
    let mut live = workload("Deployment", json!({"replicas": 100}));
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    cluster.post(format!("{DEPLOYMENTS}?fieldManager=maker"), live).await.ok(201);
    let image = |replicas: Value| {
        let mut config = workload("Deployment", replicas);
        config["spec"]["template"]["spec"]["containers"][0]["image"] = json!("new");
        config
    };
    let refused = apply(&cluster, &path, "kubectl", &image(json!({"replicas": 3}))).await.ok(409);
    assert_eq!(refused["details"]["causes"].as_array().map(Vec::len), Some(1), "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], ".spec.replicas");
    apply(&cluster, &path, "another", &image(json!({}))).await.ok(409);
    let now = apply(&cluster, &path, "kubectl", &image(json!({}))).await.ok(200);
    assert_eq!(now["spec"]["replicas"], 100);
    assert_eq!(now["spec"]["template"]["spec"]["containers"][0]["image"], "new");
}

/// A set from when a struct was owned as a whole does not stand in the way of those who own its members now.
#[tokio::test]
async fn a_struct_that_was_atomic_is_owned_by_its_members() {
    let cluster = TestCluster::start().await;
    let volumes = "/api/v1/persistentvolumes";
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "c", "namespace": "default", "uid": "u"});
    let made = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "16Mi"}, "claimRef": claim, "hostPath": {"path": "/tmp/v"}}});
    cluster.post(volumes, made).await.ok(201);
    let entry = |manager: &str, operation: &str, spec: Value| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec}});
    let managers = json!([
        entry("applier", "Apply", json!({"f:capacity": {"f:storage": {}}})),
        entry("binder", "Update", json!({"f:claimRef": {}}))
    ]);
    let path = format!("{volumes}/v");
    let set = json!({"metadata": {"managedFields": managers}});
    patch(&cluster, &format!("{path}?fieldManager=applier"), "strategic-merge-patch", set).await.ok(200);
    let config = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "16Mi"}, "claimRef": {"name": "c", "namespace": "default"}}});
    let now = apply(&cluster, &path, "applier", &config).await.ok(200);
    assert_eq!(now["spec"]["claimRef"], claim, "no conflict, and the uid stays");
    let own = json!({"f:capacity": {"f:storage": {}}, "f:claimRef": {"f:name": {}, "f:namespace": {}}});
    assert_eq!(fields(&now, "applier"), json!({"f:spec": own}));
    assert_eq!(fields(&now, "binder"), json!({"f:spec": {"f:claimRef": {}}}));
}

#[tokio::test]
async fn who_creates_by_applying_must_be_allowed_to_patch_and_to_create() {
    let cluster = TestCluster::start().await;
    let panda = || UserInfo::new("panda", &[]).authenticated();
    let applied = async || {
        let request = cluster.request("PATCH", format!("{PODS}/p?fieldManager=one")).by(panda());
        request.typed("application/apply-patch+yaml", pod(json!({})).to_string()).send().await
    };
    let allow = async |verb: &str| {
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let rules = json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
        cluster
            .post(format!("{rbac}/roles"), json!({"metadata": {"name": verb}, "rules": rules}))
            .await
            .ok(201);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": verb});
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "panda"}]);
        let binding = json!({"metadata": {"name": verb}, "roleRef": role, "subjects": subjects});
        cluster.post(format!("{rbac}/rolebindings"), binding).await.ok(201);
    };
    let forbidden = |verb: &str| {
        format!(
            "pods \"p\" is forbidden: User \"panda\" cannot {verb} resource \"pods\" in API group \"\" in the namespace \"default\""
        )
    };
    assert_eq!(applied().await.ok(403)["message"], forbidden("patch"));
    allow("patch").await;
    let refused = applied().await.ok(403);
    assert_eq!(refused["message"], forbidden("create"));
    assert_eq!(refused["details"], json!({"name": "p", "kind": "pods"}));
    allow("create").await;
    applied().await.ok(201);
    assert_eq!(applied().await.ok(200)["metadata"]["name"], "p", "and once it is there, to patch alone");
}

/// The replicas of every workload have the owners they have through its scale.
#[tokio::test]
async fn scales_share_the_owners_of_their_replicas() {
    let cluster = TestCluster::start().await;
    let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {"app": "web"},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "i"}]}}}});
    let of = |kind: &str| workload(kind, json!({"replicas": 1}));
    for (config, path) in [
        (of("Deployment"), DEPLOYMENTS),
        (of("StatefulSet"), "/apis/apps/v1/namespaces/default/statefulsets"),
        (of("ReplicaSet"), "/apis/apps/v1/namespaces/default/replicasets"),
        (controller, "/api/v1/namespaces/default/replicationcontrollers"),
    ] {
        let (path, scale) = (format!("{path}/web"), format!("{path}/web/scale"));
        let owners = async |replicas: u32, owners: &[&str]| {
            let object = cluster.get(&*path).await.ok(200);
            assert_eq!(object["spec"]["replicas"], replicas, "{path}");
            let entries = object["metadata"]["managedFields"].as_array().expect("managers").clone();
            let own = entries.iter().filter(|e| !e["fieldsV1"]["f:spec"]["f:replicas"].is_null());
            let own: Vec<&str> = own.filter_map(|e| e["manager"].as_str()).collect();
            assert_eq!(own, owners, "{path}: {entries:?}");
        };
        let to = |replicas: u32| {
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"replicas": replicas}})
        };
        apply(&cluster, &path, "applier", &config).await.ok(201);
        owners(1, &["applier"]).await;
        cluster.merge(format!("{scale}?fieldManager=scaler"), json!({"spec": {"replicas": 5}})).await.ok(200);
        owners(5, &["scaler"]).await;
        apply(&cluster, &path, "applier", &config).await.ok(409);
        apply(&cluster, &format!("{path}?force=true"), "applier", &config).await.ok(200);
        owners(1, &["applier"]).await;
        let refused = apply(&cluster, &scale, "applies-scale", &to(17)).await.ok(409);
        assert!(refused["message"].as_str().expect("a message").contains("\"applier\""), "{refused}");
        apply(&cluster, &format!("{scale}?force=true"), "applies-scale", &to(17)).await.ok(200);
        owners(17, &["applies-scale"]).await;
        cluster.put(format!("{scale}?fieldManager=replaces"), to(7)).await.ok(200);
        owners(7, &["replaces"]).await;
        apply(&cluster, &scale, "shares", &to(7)).await.ok(200);
        owners(7, &["shares", "replaces"]).await;
        cluster.merge(format!("{scale}?fieldManager=scaler"), json!({"spec": {"replicas": 5}})).await.ok(200);
        owners(5, &["scaler"]).await;
        // The status of a scale is read only.
        cluster
            .merge(format!("{scale}?fieldManager=nobody"), json!({"status": {"replicas": 42}}))
            .await
            .ok(200);
        owners(5, &["scaler"]).await;
    }
}

/// Custom resources have the rules of their schemas: lists with keys and their defaults, finalizers as a set, defaults that are
/// nobody's, unknown fields that are refused.
#[tokio::test(start_paused = true)]
async fn custom_resources_are_applied_by_their_schemas() {
    let cluster = TestCluster::simulated(3).await;
    let port = json!({"type": "object", "required": ["containerPort"], "properties": {"name": {"type": "string"},
        "containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}});
    let ports = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"], "items": port});
    let spec = json!({"type": "object", "properties": {"schedule": {"type": "string"}, "replicas": {"type": "integer"},
        "class": {"type": "string", "default": "plain"}, "ports": ports}});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crons.example.io"}, "spec": {"group": "example.io", "scope": "Cluster",
            "names": {"plural": "crons", "singular": "cron", "kind": "Cron"}, "versions": [version]}});
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.ok(201);
    let crons = "/apis/example.io/v1/crons";
    cluster.until("crons are served", || async { cluster.get(crons).await.status == 200 }).await;

    let path = format!("{crons}/c");
    let cron = |spec: Value| json!({"apiVersion": "example.io/v1", "kind": "Cron", "metadata": {"name": "c"}, "spec": spec});
    let mut config =
        cron(json!({"schedule": "*", "replicas": 1, "ports": [{"name": "x", "containerPort": 80}]}));
    config["metadata"]["finalizers"] = json!(["example.io/one"]);
    let made = apply(&cluster, &path, "one", &config).await.ok(201);
    assert_eq!(made["spec"]["class"], "plain");
    assert_eq!(made["spec"]["ports"], json!([{"name": "x", "containerPort": 80, "protocol": "TCP"}]));
    let item = json!({".": {}, "f:containerPort": {}, "f:name": {}});
    let owned = json!({"f:schedule": {}, "f:replicas": {}, "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: item}});
    let finalizers = json!({"f:finalizers": {r#"v:"example.io/one""#: {}}});
    assert_eq!(fields(&made, "one"), json!({"f:metadata": finalizers, "f:spec": owned}));
    cluster.env().sleep(Duration::from_secs(5)).await;
    assert_eq!(apply(&cluster, &path, "one", &config).await.ok(200), made, "defaults change nothing");

    let two = json!({"metadata": {"finalizers": ["example.io/one", "example.io/two"]}});
    cluster.merge(&*path, two.clone()).await.ok(200);
    let again = apply(&cluster, &path, "one", &config).await.ok(200);
    assert_eq!(
        again["metadata"]["finalizers"], two["metadata"]["finalizers"],
        "a set keeps what others added"
    );
    cluster.merge(&*path, json!({"spec": {"replicas": 5}})).await.ok(200);
    let refused = apply(&cluster, &path, "one", &config).await.ok(409);
    assert_eq!(refused["details"]["causes"].as_array().map(Vec::len), Some(1), "{refused}");
    let forced = apply(&cluster, &format!("{path}?force=true"), "one", &config).await.ok(200);
    assert_eq!(forced["spec"]["replicas"], 1);

    let renamed = cron(json!({"ports": [{"name": "y", "containerPort": 80, "protocol": "TCP"}]}));
    let refused = apply(&cluster, &path, "two", &renamed).await.ok(409);
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        r#".spec.ports[containerPort=80,protocol="TCP"].name"#
    );
    let another = cron(json!({"ports": [{"name": "y", "containerPort": 8080}]}));
    let both = apply(&cluster, &path, "two", &another).await.ok(200);
    assert_eq!(both["spec"]["ports"].as_array().map(Vec::len), Some(2));
    let unknown = apply(&cluster, &path, "two", &cron(json!({"unknown": 1}))).await.ok(500);
    assert!(
        unknown["message"]
            .as_str()
            .expect("a message")
            .contains(".spec.unknown: field not declared in schema"),
        "{unknown}"
    );
    let mut absent = cron(json!({"replicas": 1}));
    absent["metadata"]["name"] = json!("absent");
    cluster.put(format!("{crons}/absent"), absent).await.ok(404);
}
