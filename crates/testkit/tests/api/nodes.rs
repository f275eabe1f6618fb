//! NodeRestriction: a kubelet with every permission of RBAC still only changes its own objects.

use auth::UserInfo;
use serde_json::{Value, json};
use testkit::{Ask, Reply, TestCluster};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

struct Kubelet {
    cluster: TestCluster,
}

impl Kubelet {
    async fn new(seed: u64) -> Kubelet {
        let cluster = TestCluster::simulated(seed).await;
        let binding = json!({"metadata": {"name": "nodes-may-all"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]});
        cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.ok(201);
        Kubelet { cluster }
    }

    fn ask(&self, method: &str, path: impl Into<String>) -> Ask {
        self.cluster.request(method, path).by(UserInfo::new("system:node:n", &["system:nodes"]))
    }
    async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path).json(&body).send().await
    }
    async fn merge(&self, path: String, body: Value) -> Reply {
        self.ask("PATCH", path).typed("application/merge-patch+json", body.to_string()).send().await
    }
    async fn delete(&self, path: String) -> Reply {
        self.ask("DELETE", path).send().await
    }
}

#[track_caller]
fn refused(reply: Reply, want: &str) {
    let told = reply.ok(403)["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with(want), "wanted {want}\n   got {told}");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_changes_its_own_node_within_limits() {
    let kubelet = Kubelet::new(80).await;
    let node = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    refused(
        kubelet.post(NODES, node("m", json!({}))).await,
        "node \"n\" is not allowed to modify node \"m\"",
    );
    let labels = json!({"node-restriction.kubernetes.io/x": "1", "example.com/ok": "1", "k8s.io/role": "1"});
    refused(
        kubelet.post(NODES, node("n", labels)).await,
        "node \"n\" is not allowed to set the following labels: k8s.io/role, node-restriction.kubernetes.io/x",
    );
    let labels =
        json!({"kubernetes.io/hostname": "n", "a.node.kubernetes.io/ok": "1", "example.com/ok": "1"});
    kubelet.post(NODES, node("n", labels)).await.ok(201);
    let own = format!("{NODES}/n");
    kubelet.merge(own.clone(), json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}})).await.ok(200);
    kubelet
        .merge(format!("{own}/status"), json!({"status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}}}))
        .await
        .ok(200);
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    refused(kubelet.merge(own.clone(), taint).await, "node \"n\" is not allowed to modify taints");
    let label = json!({"metadata": {"labels": {"kubernetes.io/other": "x"}}});
    refused(kubelet.merge(own.clone(), label).await, "is not allowed to modify labels: kubernetes.io/other");
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}});
    refused(kubelet.merge(own.clone(), owner).await, "node \"n\" is not allowed to modify ownerReferences");
    kubelet.cluster.post(NODES, node("m", json!({}))).await.ok(201);
    refused(kubelet.delete(format!("{NODES}/m")).await, "node \"n\" is not allowed to modify node \"m\"");
    kubelet.delete(own).await.ok(200);
    let nobody = kubelet.cluster.request("POST", NODES).by(UserInfo::new("system:node:", &["system:nodes"]));
    refused(
        nobody.json(&node("x", json!({}))).send().await,
        "could not determine node from user \"system:node:\"",
    );
    kubelet.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_creates_mirror_pods_and_deletes_its_own() {
    let kubelet = Kubelet::new(81).await;
    let uid =
        kubelet.post(NODES, json!({"metadata": {"name": "n"}})).await.ok(201)["metadata"]["uid"].clone();
    let mirror = || {
        json!({
            "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": true}]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        })
    };
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 10] = [
        (
            |p| p["metadata"]["annotations"] = json!({}),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n\" can only create mirror pods",
        ),
        (
            |p| p["spec"]["nodeName"] = json!("m"),
            "node \"n\" can only create pods with spec.nodeName set to itself",
        ),
        (
            |p| p["metadata"]["ownerReferences"] = json!([]),
            "node \"n\" can only create pods with an owner reference set to itself",
        ),
        (
            |p| p["metadata"]["ownerReferences"][0]["name"] = json!("m"),
            "node \"n\" can only create pods with an owner reference set to itself",
        ),
        (
            |p| p["metadata"]["ownerReferences"][0]["controller"] = json!(false),
            "node \"n\" can only create pods with a controller owner reference set to itself",
        ),
        (
            |p| p["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(true),
            "node \"n\" must not set blockOwnerDeletion on an owner reference",
        ),
        (
            |p| p["spec"]["serviceAccountName"] = json!("default"),
            // The plugin for accounts comes before the one for nodes.
            "pods \"p\" is forbidden: a mirror pod may not reference service accounts",
        ),
        (
            |p| p["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "s"}}]),
            "pods \"p\" is forbidden: a mirror pod may not reference secrets",
        ),
        (
            |p| p["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "s"}}]),
            "node \"n\" can not create pods that reference configmaps",
        ),
        (
            |p| p["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}]),
            "node \"n\" can not create pods that reference persistentvolumeclaims",
        ),
    ];
    for (change, want) in cases {
        let mut pod = mirror();
        change(&mut pod);
        refused(kubelet.post(PODS, pod).await, want);
    }
    kubelet.post(PODS, mirror()).await.ok(201);
    refused(
        kubelet.merge(format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}})).await,
        "unexpected operation \"UPDATE\", node \"n\" can only create and delete mirror pods",
    );
    kubelet.merge(format!("{PODS}/p/status"), json!({"status": {"phase": "Running"}})).await.ok(200);
    refused(
        kubelet.merge(format!("{PODS}/p/status"), json!({"metadata": {"labels": {"a": "b"}}})).await,
        "node \"n\" cannot update labels through pod status",
    );
    let pod = json!({"metadata": {"name": "q"}, "spec": {"nodeName": "m", "containers": [{"name": "c", "image": "i"}]}});
    kubelet.cluster.post(PODS, pod).await.ok(201);
    refused(
        kubelet.merge(format!("{PODS}/q/status"), json!({"status": {"phase": "Running"}})).await,
        "node \"n\" can only update pod status for pods with spec.nodeName set to itself",
    );
    refused(
        kubelet.delete(format!("{PODS}/q")).await,
        "node \"n\" can only delete pods with spec.nodeName set to itself",
    );
    kubelet.delete(format!("{PODS}/p?gracePeriodSeconds=0")).await.ok(200);
    kubelet.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_reaches_only_its_own_leases_csinodes_slices_and_claims() {
    let kubelet = Kubelet::new(82).await;
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
    kubelet.post(LEASES, lease("n")).await.ok(201);
    refused(
        kubelet.post(LEASES, lease("m")).await,
        "can only access node lease with the same name as the requesting node",
    );
    refused(
        kubelet.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease("n")).await,
        "can only access leases in the \"kube-node-lease\" system namespace",
    );
    let csi_nodes = "/apis/storage.k8s.io/v1/csinodes";
    kubelet.post(csi_nodes, json!({"metadata": {"name": "n"}, "spec": {"drivers": []}})).await.ok(201);
    refused(
        kubelet.post(csi_nodes, json!({"metadata": {"name": "m"}, "spec": {"drivers": []}})).await,
        "can only access CSINode with the same name as the requesting node",
    );
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": node,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": []}})
    };
    kubelet.post(slices, slice("s", "n")).await.ok(201);
    refused(
        kubelet.post(slices, slice("t", "m")).await,
        "can only create ResourceSlice with the same NodeName as the requesting node",
    );
    kubelet.cluster.post(slices, slice("t", "m")).await.ok(201);
    refused(
        kubelet.delete(format!("{slices}/t")).await,
        "can only delete ResourceSlice with the same NodeName as the requesting node",
    );
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    refused(kubelet.post(claims, claim.clone()).await, "may only update PVC status");
    kubelet.cluster.post(claims, claim).await.ok(201);
    kubelet
        .merge(format!("{claims}/c/status"), json!({"status": {"capacity": {"storage": "1Gi"}}}))
        .await
        .ok(200);
    refused(
        kubelet.merge(format!("{claims}/c/status"), json!({"metadata": {"labels": {"a": "b"}}})).await,
        "is not allowed to update fields other than status.quantity and status.conditions: metadata differs",
    );
    // Everything else is RBAC's.
    kubelet.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "m"}})).await.ok(201);
    kubelet.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_refused_an_eviction_before_its_body_is_read() {
    let kubelet = Kubelet::new(8901).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "m", "containers": [{"name": "c", "image": "i"}]}});
    kubelet.cluster.post(PODS, pod).await.ok(201);
    let body = json!({"metadata": {"name": "other"}});
    let want = "node n can only evict pods with spec.nodeName set to itself";
    refused(kubelet.post(&format!("{PODS}/p/eviction"), body).await, want);
}
