//! Claims of pods from templates: made, named in the pod's status, and gone when the pod does not need them.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{EVENTS, PODS, items, plane, set_status, steady, until};

pub const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const CONTROLLERS: &[&str] = &["resourceclaim-controller"];

pub fn pod(name: &str) -> Json {
    json!({"metadata": {"name": name}, "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        "containers": [{"name": "c", "image": "nginx", "resources": {"claims": [{"name": "gpu"}]}}]}})
}

fn devices() -> Json {
    json!({"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}}]}})
}

pub async fn template(cluster: &TestCluster) {
    let spec = json!({"metadata": {"labels": {"made": "here"}}, "spec": devices()});
    cluster.post(TEMPLATES, json!({"metadata": {"name": "gpus"}, "spec": spec})).await.ok(201);
}

pub fn named(pod: &Json) -> Option<String> {
    pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_a_claim_of_its_own_once_there_is_a_template() {
    let cluster = TestCluster::simulated(51).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(PODS, pod("a")).await.ok(201);
    let told = |list: &Json| !list["items"].as_array().expect("a list").is_empty();
    let events = until(&cluster, EVENTS, "why there is none", told).await;
    let event = &events["items"][0];
    assert_eq!(
        (&event["reason"], &event["type"]),
        (&json!("FailedResourceClaimCreation"), &json!("Warning"))
    );
    assert_eq!(
        event["message"],
        "PodResourceClaim gpu: resource claim template \"gpus\": resourceclaimtemplate.resource.k8s.io \"gpus\" not found"
    );
    template(&cluster).await;
    let path = format!("{PODS}/a");
    let pod = until(&cluster, &path, "the claim's name", |pod| named(pod).is_some()).await;
    let name = named(&pod).expect("just seen");
    assert!(name.starts_with("a-gpu-"), "{name}");
    let claim = cluster.get(format!("{CLAIMS}/{name}")).await.ok(200);
    assert_eq!(claim["metadata"]["labels"], json!({"made": "here"}));
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"], "gpu");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
    assert_eq!(claim["spec"]["devices"]["requests"][0]["name"], "one");
    // Deleted by mistake: made again.
    cluster.delete(format!("{CLAIMS}/{name}")).await.ok(200);
    let again = |pod: &Json| named(pod).is_some_and(|new| new != name);
    until(&cluster, &path, "another claim", again).await;
    assert_eq!(items(&cluster, CLAIMS).await.len(), 1);
    let mut metrics = String::new();
    plane.context.controllers.render_metrics(&mut metrics);
    for line in [
        "resourceclaim_controller_creates_total{admin_access=\"false\",status=\"success\"} 2\n",
        "resourceclaim_controller_resource_claims{admin_access=\"false\",allocated=\"false\",source=\"resource_claim_template\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_released_and_deleted_when_their_pods_are_done() {
    let cluster = TestCluster::simulated(52).await;
    let plane = plane(&cluster, CONTROLLERS);
    template(&cluster).await;
    let created = cluster.post(PODS, pod("a")).await.ok(201);
    let path = format!("{PODS}/a");
    let known = until(&cluster, &path, "the claim's name", |pod| named(pod).is_some()).await;
    // A second one that pods share: allocated, and reserved for this pod and one that is gone.
    let finalizer = json!(["resource.kubernetes.io/delete-protection"]);
    let shared = json!({"metadata": {"name": "shared", "finalizers": finalizer}, "spec": devices()});
    cluster.post(CLAIMS, shared).await.ok(201);
    let consumer = |name: &str, uid: &Json| json!({"resource": "pods", "name": name, "uid": uid});
    let status = json!({"status": {"allocation": {"devices": {}}, "reservedFor": [
        consumer("a", &created["metadata"]["uid"]), consumer("gone", &json!("0000"))]}});
    cluster.merge(format!("{CLAIMS}/shared/status"), status).await.ok(200);
    let path = format!("{CLAIMS}/shared");
    let one = |claim: &Json| claim["status"]["reservedFor"].as_array().is_some_and(|all| all.len() == 1);
    let left = until(&cluster, &path, "one reservation", one).await;
    assert!(left["status"].get("allocation").is_some());
    set_status(&cluster, &created, json!({"phase": "Succeeded"})).await;
    let own = format!("{CLAIMS}/{}", named(&known).expect("just seen"));
    until(&cluster, &own, "its end", |claim| claim["code"] == 404).await;
    // It is not the pod's own: it stays, and whoever comes next may have it. It was reserved, and named by no pod.
    cluster.merge(&path, json!({"metadata": {"labels": {"look": "again"}}})).await.ok(200);
    let free = until(&cluster, &path, "no reservation", |c| c["status"].get("reservedFor").is_none()).await;
    assert!(free["status"].get("allocation").is_none());
    assert!(free["metadata"].get("finalizers").is_none());
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}
