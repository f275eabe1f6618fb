//! `generateName`: the name is generated after mutating admission, so earlier checks of a name see none.

use auth::UserInfo;
use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn kubelet() -> UserInfo {
    UserInfo::new("system:node:n", &["system:nodes", "system:authenticated"])
}

fn generated(base: &str, rest: Value) -> Value {
    let mut body = json!({"metadata": {"generateName": base}});
    for (name, value) in rest.as_object().unwrap() {
        match name.as_str() {
            "metadata" => value.as_object().unwrap().iter().for_each(|(n, v)| body[name][n] = v.clone()),
            _ => body[name] = value.clone(),
        }
    }
    body
}

async fn post_as(cluster: &TestCluster, who: &UserInfo, path: &str, body: &Value) -> Reply {
    cluster.request("POST", path).by(who.clone()).json(body).send().await
}

/// What `who` is told, for each of the bodies.
async fn refused(cluster: &TestCluster, who: &UserInfo, rows: &[(&str, Value, &str)]) {
    for (path, body, want) in rows {
        let reply = post_as(cluster, who, path, body).await.ok(403);
        assert_eq!(reply["message"], json!(want), "{path} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_names_its_objects_itself() {
    let cluster = TestCluster::simulated(4101).await;
    let lease = json!({"spec": {"holderIdentity": "n", "leaseDurationSeconds": 40}});
    let drivers = json!({"spec": {"drivers": []}});
    let rows = |base: &'static str| {
        [
            (NODES, generated(base, json!({})), "nodes"),
            (LEASES, generated(base, lease.clone()), "leases.coordination.k8s.io"),
            (CSI_NODES, generated(base, drivers.clone()), "csinodes.storage.k8s.io"),
        ]
    };
    let why = [
        "node \"n\" is not allowed to modify node \"\"",
        "can only access node lease with the same name as the requesting node",
        "can only access CSINode with the same name as the requesting node",
    ];
    // The name it is entitled to as the beginning, in whole, and another's.
    for base in ["n", "n-", "m"] {
        for ((path, body, resource), why) in rows(base).into_iter().zip(why) {
            let want = format!("{resource} \"{base}\" is forbidden: {why}");
            refused(&cluster, &kubelet(), &[(path, body.clone(), &want)]).await;
            let dry = format!("{path}?dryRun=All");
            refused(&cluster, &kubelet(), &[(&dry, body, &want)]).await;
        }
    }
    // No name at all is refused as well, and before the object is looked at.
    let empty = json!({"metadata": {}});
    let want = format!("nodes \"Unknown\" is forbidden: {}", why[0]);
    refused(&cluster, &kubelet(), &[(NODES, empty, &want)]).await;
    // With a name of its own, `generateName` means nothing.
    for (path, mut body, _) in rows("m") {
        body["metadata"]["name"] = json!("n");
        post_as(&cluster, &kubelet(), path, &body).await.ok(201);
    }
    for path in [NODES, LEASES, CSI_NODES] {
        let names = cluster.get(path).await.ok(200);
        let names: Vec<&Value> =
            names["items"].as_array().unwrap().iter().map(|o| &o["metadata"]["name"]).collect();
        assert_eq!(names, ["n"], "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_may_use_generated_names_where_any_name_is_allowed() {
    let cluster = TestCluster::simulated(4102).await;
    let node = post_as(&cluster, &kubelet(), NODES, &json!({"metadata": {"name": "n"}})).await.ok(201);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "controller": true, "uid": node["metadata"]["uid"]});
    let mirror = json!({
        "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    let slice = json!({"spec": {"driver": "d.example.com", "nodeName": "n", "devices": [],
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}});
    let event = json!({"involvedObject": {"kind": "Node", "name": "n", "namespace": "default"}});
    for (path, rest) in [
        (PODS, mirror),
        ("/apis/resource.k8s.io/v1/resourceslices", slice),
        ("/api/v1/namespaces/default/events", event),
    ] {
        let made = post_as(&cluster, &kubelet(), path, &generated("any-", rest)).await.ok(201);
        assert!(made["metadata"]["name"].as_str().unwrap().starts_with("any-"), "{made}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rules_with_resource_names_do_not_match_generated_names() {
    let cluster = TestCluster::simulated(4103).await;
    let who = UserInfo::new("ann", &["system:authenticated"]);
    let role = json!({"metadata": {"name": "ann"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": ["web-"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["escalate"], "resourceNames": ["web-"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"], "verbs": ["create"]},
    ]});
    cluster.post(&format!("{RBAC}/clusterroles"), role).await.ok(201);
    let binding = json!({"metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ann"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), binding.clone()).await.ok(201);
    let roles = format!("{RBAC}/clusterroles");
    let bindings = format!("{RBAC}/clusterrolebindings");
    let mut admin = binding;
    admin["metadata"] = json!({"generateName": "web-"});
    admin["roleRef"]["name"] = json!("system:discovery");
    let more = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    // The words name no object: there is none yet.
    let role_refused = "clusterroles.rbac.authorization.k8s.io is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) \
         is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}";
    refused(&cluster, &who, &[
        (
            "/api/v1/namespaces/default/configmaps",
            generated("web-", json!({})),
            "configmaps is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (&roles, generated("web-", more), role_refused),
    ])
    .await;
    admin["roleRef"]["name"] = json!("system:node");
    let told = post_as(&cluster, &who, &bindings, &admin).await.ok(403);
    let told = told["message"].as_str().unwrap();
    assert!(
        told.starts_with("clusterrolebindings.rbac.authorization.k8s.io is forbidden: user \"ann\""),
        "{told}"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_creates_needs_the_permission_to_create() {
    let cluster = TestCluster::simulated(4105).await;
    let who = UserInfo::new("ann", &["system:authenticated"]);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let role = |name: &str, verbs: &[&str], names: &[&str]| {
        json!({"metadata": {"name": name}, "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs, "resourceNames": names}]})
    };
    let roles = format!("{RBAC}/clusterroles");
    for (name, verbs, names) in [("update", ["update"], &[][..]), ("create", ["create"], &["mine"][..])] {
        cluster.post(&roles, role(name, &verbs, names)).await.ok(201);
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
        cluster.post(&format!("{RBAC}/clusterrolebindings"), binding).await.ok(201);
    }
    let put = |name: &str, query: &str| {
        let body = json!({"metadata": {"name": name}, "spec": {"leaseDurationSeconds": 9}});
        cluster.request("PUT", format!("{leases}/{name}{query}")).by(who.clone()).json(&body).send()
    };
    let want = "leases.coordination.k8s.io \"other\" is forbidden: User \"ann\" cannot create resource \"leases\" in API group \
                \"coordination.k8s.io\" in the namespace \"default\"";
    for query in ["", "?dryRun=All"] {
        assert_eq!(put("other", query).await.ok(403)["message"], json!(want));
    }
    cluster.get(&format!("{leases}/other")).await.ok(404);
    // A right by name is enough here: the path names the object.
    put("mine", "").await.ok(201);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn validation_and_allocation_see_the_generated_name() {
    let cluster = TestCluster::simulated(4104).await;
    let message = |reply: Value| reply["message"].as_str().unwrap().to_owned();
    // Names that are reserved or must match the object.
    let class = generated("system-", json!({"value": 1}));
    let told = message(cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", class).await.ok(422));
    let reserved =
        "\" is invalid: metadata.name: Forbidden: priority class names with 'system-' prefix are reserved";
    assert!(with_suffix("PriorityClass.scheduling.k8s.io \"system-", reserved, &told), "{told}");
    // No letters are put behind an address.
    let parent =
        json!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}});
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    let made = cluster.post(addresses, generated("10.96.7.7", parent)).await.ok(201);
    assert_eq!(made["metadata"]["name"], "10.96.7.7");

    // A namespace is labelled, and a service's addresses are recorded, with the name that was made.
    let made = cluster.post("/api/v1/namespaces", generated("kube-system", json!({}))).await.ok(201);
    let name = &made["metadata"]["name"];
    assert!(name.as_str().unwrap().len() > "kube-system".len());
    assert_eq!(&made["metadata"]["labels"]["kubernetes.io/metadata.name"], name);
    let service = generated("web-", json!({"spec": {"ports": [{"port": 80}]}}));
    let made = cluster.post("/api/v1/namespaces/default/services", service).await.ok(201);
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    let address = cluster.get(&format!("{addresses}/{address}")).await.ok(200);
    assert_eq!(address["spec"]["parentRef"]["name"], made["metadata"]["name"]);

    // Quotas and pod security speak of the object that would have been.
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).await.ok(201);
    let told = message(
        cluster.post("/api/v1/namespaces/default/configmaps", generated("web-", json!({}))).await.ok(403),
    );
    assert!(with_suffix("configmaps \"web-", "\" is forbidden: exceeded quota: q, ", &told), "{told}");
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    cluster.merge("/api/v1/namespaces/default", label).await.ok(200);
    let pod = generated(
        "web-",
        json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]}}),
    );
    let told = message(cluster.post(PODS, pod).await.ok(403));
    assert!(with_suffix("pods \"web-", "\" is forbidden: violates PodSecurity", &told), "{told}");
    cluster.shutdown().await;
}

/// `told` is `before`, five letters and `after`.
fn with_suffix(before: &str, after: &str, told: &str) -> bool {
    told.strip_prefix(before).and_then(|rest| rest.get(5..)).is_some_and(|rest| rest.starts_with(after))
}
