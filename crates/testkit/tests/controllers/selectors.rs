//! An owner with an invalid selector, as another version may have stored it, touches none of its children.

use serde_json::{Value as Json, json};
use store::{Commit, Op};
use testkit::TestCluster;

use crate::batch_steps::{PODS, items, pass, plane, until};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &[&str] = &[
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "job-controller",
    "ttl-after-finished-controller",
];

/// Writes past the API what its validation would refuse.
async fn store_raw(cluster: &TestCluster, group: &str, plural: &str, path: &str, selector: Json) {
    let name = path.rsplit('/').next().expect("a path has a last part");
    let catalog = cluster.catalog();
    let storage = catalog.find_storage(group, plural).expect("a resource of the catalogue");
    let (key, registry) = (storage.key("default", name), cluster.api().registry());
    let stored = registry.table().get(storage.id, &key).expect("it was created");
    let mut tree: Json = serde_json::from_slice(stored.body()).expect("stored objects are JSON");
    tree["spec"]["selector"] = selector;
    // As somebody who scaled it up: a controller that read it wrongly would act.
    if plural != "jobs" {
        tree["spec"]["replicas"] = json!(3);
    }
    let value = serde_json::to_vec(&tree).expect("JSON").into();
    let ops = vec![(key.into(), Op::Put { value, expires_at: None })];
    registry
        .engine()
        .commit(Commit { guards: Vec::new(), ops, removal: false })
        .await
        .expect("the store takes anything");
}

fn owned(list: &[Json]) -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().unwrap_or("nobody").to_owned();
    let pair = |o: &Json| (text(&o["metadata"]["name"]), text(&o["metadata"]["ownerReferences"][0]["uid"]));
    list.iter().map(pair).collect()
}

#[tokio::test(start_paused = true)]
async fn an_owner_with_an_invalid_selector_keeps_its_children_and_creates_none() {
    let unreadable = json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]});
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    });
    let selector = json!({"matchLabels": {"app": "web"}});
    let set = json!({"replicas": 2, "selector": selector, "template": template});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = json!("Never");
    let cases = [
        ("apps/v1", "deployments", set.clone(), vec![unreadable.clone(), Json::Null]),
        ("apps/v1", "replicasets", set.clone(), vec![unreadable.clone(), json!({}), Json::Null]),
        (
            "v1",
            "replicationcontrollers",
            json!({"replicas": 2, "selector": {"app": "web"}, "template": template}),
            vec![json!({}), Json::Null],
        ),
        ("batch/v1", "jobs", json!({"parallelism": 2, "template": job}), vec![unreadable, json!({})]),
    ];
    for (version, plural, spec, broken) in cases {
        for selector in broken {
            let how = format!("{plural} with {selector}");
            let cluster = TestCluster::simulated(31).await;
            let plane = plane(&cluster, CONTROLLERS);
            let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
            let all = format!("{root}/namespaces/default/{plural}");
            cluster.post(all.clone(), json!({"metadata": {"name": "web"}, "spec": spec})).await.ok(201);
            until(&cluster, PODS, &how, |list| list["items"].as_array().is_some_and(|l| l.len() == 2)).await;
            pass(&cluster, 5).await;
            let before = (owned(&items(&cluster, SETS).await), owned(&items(&cluster, PODS).await));
            let group = version.split_once('/').map_or("", |(group, _)| group);
            store_raw(&cluster, group, plural, &format!("{all}/web"), selector).await;
            pass(&cluster, 300).await;
            let after = (owned(&items(&cluster, SETS).await), owned(&items(&cluster, PODS).await));
            assert_eq!(before, after, "{how}");
            plane.stop().await;
            cluster.shutdown().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_selects_everything_by_hand_runs() {
    let cluster = TestCluster::simulated(32).await;
    let plane = plane(&cluster, CONTROLLERS);
    let template = json!({
        "metadata": {"labels": {"app": "any"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
    });
    let spec = json!({"manualSelector": true, "selector": {}, "template": template});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    cluster.post(jobs, json!({"metadata": {"name": "any"}, "spec": spec})).await.ok(201);
    until(&cluster, PODS, "its pod", |list| list["items"].as_array().is_some_and(|l| l.len() == 1)).await;
    plane.stop().await;
    cluster.shutdown().await;
}
