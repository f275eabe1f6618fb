//! A status is written through its subresource, and only when it changed: checks every request of every controller in an hour.

use std::time::Duration;

use client::resources::DEPLOYMENTS;
use client::{Clients, Patch, WriteOptions};
use object::Value;
use plane::{Plane, Settings};
use serde_json::json;
use testkit::TestCluster;
use testkit::requests::Requests;

use crate::faults::{cluster, hour, nodes};

/// The controllers, the scheduler and the nodes.
#[tokio::test(start_paused = true)]
async fn a_status_is_written_only_through_its_subresource_and_only_when_it_changed() {
    let cluster = cluster().await;
    let requests = Requests::new(&cluster, cluster.local_clients());
    let settings = Settings { nodes: nodes(), trust: cluster.trust(), ..Settings::default() };
    let plane = Plane::start(cluster.env(), requests.clone(), &settings);
    hour(&cluster).await;
    cluster.quiet(Duration::from_secs(120)).await;
    let seen = requests.seen();
    assert!(seen.wrongs.is_empty(), "{:#?}", seen.wrongs);
    for (who, what) in [
        ("deployment-controller", "deployments/status"),
        ("replicaset-controller", "replicasets/status"),
        ("replication-controller", "replicationcontrollers/status"),
        ("job-controller", "jobs/status"),
        ("cronjob-controller", "cronjobs/status"),
        ("daemon-set-controller", "daemonsets/status"),
        ("statefulset-controller", "statefulsets/status"),
        ("disruption-controller", "poddisruptionbudgets/status"),
        ("horizontal-pod-autoscaler", "horizontalpodautoscalers/status"),
        ("namespace-controller", "namespaces/status"),
        ("node-controller", "nodes/status"),
        ("node-controller", "pods/status"),
        ("persistent-volume-binder", "persistentvolumeclaims/status"),
        ("persistent-volume-binder", "persistentvolumes/status"),
        ("pod-garbage-collector", "pods/status"),
        ("certificate-controller", "certificatesigningrequests/status"),
        ("resourcequota-controller", "resourcequotas/status"),
        ("service-cidrs-controller", "servicecidrs/status"),
        ("system:node:sim-0", "pods/status"),
    ] {
        assert!(seen.count(who, what) > 0, "{who} never wrote {what}: {:#?}", seen.writes);
    }
    plane.stop().await;
    cluster.shutdown().await;
}

fn tree(json: serde_json::Value) -> Value {
    codec::json::parse(json.to_string().as_bytes(), None).expect("JSON")
}

/// The test above can fail: each wrong is seen, and what is right is not taken for one.
#[tokio::test(start_paused = true)]
async fn wrong_and_needless_status_writes_are_detected() {
    let cluster = TestCluster::simulated(81).await;
    let requests = Requests::new(&cluster, cluster.local_clients());
    let admin = requests.user("kubernetes-admin", &["system:masters"]);
    let wrongs = || requests.seen().wrongs.len();
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    let web = admin
        .create(DEPLOYMENTS.within("default"), tree(web), WriteOptions::default())
        .await
        .expect("it is new");
    let of = DEPLOYMENTS.at("default", "web");
    let status = |replicas: i64| tree(json!({"status": {"replicas": replicas, "observedGeneration": 1}}));

    admin.patch(of.sub("status"), Patch::Merge(status(1)), WriteOptions::default()).await.expect("a status");
    let mut body = runtime::tree(&admin.get(DEPLOYMENTS.of(&web)).await.expect("it is there"));
    body.map_at(&["metadata", "labels"]).set("a", "b");
    let written = admin.update(of, body, WriteOptions::default()).await.expect("an update");
    assert_eq!(wrongs(), 0, "{:#?}", requests.seen());

    admin
        .patch(of.sub("status"), Patch::Merge(status(1)), WriteOptions::default())
        .await
        .expect("the same status");
    assert_eq!(wrongs(), 1, "nothing changed");
    admin
        .update(of.sub("status"), runtime::tree(&written), WriteOptions::default())
        .await
        .expect("the same status");
    assert_eq!(wrongs(), 2, "nothing changed");
    let mut body = runtime::tree(&written);
    body.map_at(&["status"]).set("replicas", Value::Int(5));
    admin.update(of, body, WriteOptions::default()).await.expect("an update");
    assert_eq!(wrongs(), 3, "a status by an update of the resource");
    admin.patch(of, Patch::Merge(status(5)), WriteOptions::default()).await.expect("a patch");
    assert_eq!(wrongs(), 4, "a status by a patch of the resource");
    let json = json!([{"op": "add", "path": "/status/replicas", "value": 5}]);
    admin.patch(of, Patch::json(tree(json)).unwrap(), WriteOptions::default()).await.expect("a patch");
    assert_eq!(wrongs(), 5, "a status by a JSON patch of the resource");
    assert_eq!(requests.seen().count("kubernetes-admin", "deployments"), 5);
    assert_eq!(requests.seen().count("kubernetes-admin", "deployments/status"), 3);
    cluster.shutdown().await;
}
