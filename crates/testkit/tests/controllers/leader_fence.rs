//! Writes of a leader are fenced by its lease: the store refuses those of a deposed leader.

use std::sync::Arc;

use client::resources::{CONFIG_MAPS, PODS};
use client::{Client, DeleteOptions, ListOptions, Patch, WriteOptions};
use object::Value;
use serde_json::json;
use testkit::TestCluster;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn tree(json: serde_json::Value) -> Value {
    codec::json::parse(json.to_string().as_bytes(), None).expect("JSON")
}

fn fenced(cluster: &TestCluster, holder: &str) -> Arc<dyn Client> {
    let clients = cluster.local_clients().fenced("kube-system", "the-part", holder);
    clients.expect("in process terms are known").user("kubernetes-admin", &["system:masters"])
}

async fn held_by(cluster: &TestCluster, holder: &str, renewed: &str) {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
    cluster.merge(format!("{LEASES}/the-part"), json!({"spec": spec})).await.ok(200);
}

fn eviction(name: &str) -> Value {
    tree(json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}))
}

/// A running pod that a budget allows to go: its eviction is counted in the budget first.
async fn spoken_for(cluster: &TestCluster) -> Arc<client::Obj> {
    let (pods, budgets) =
        ("/api/v1/namespaces/default/pods", "/apis/policy/v1/namespaces/default/poddisruptionbudgets");
    let labels = json!({"app": "kept"});
    let pod = json!({"metadata": {"name": "kept", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    cluster.post(pods, pod).await.ok(201);
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge(format!("{pods}/kept/status"), running).await.ok(200);
    let budget = json!({"metadata": {"name": "kept"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}}});
    cluster.post(budgets, budget).await.ok(201);
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1,
        "desiredHealthy": 0, "expectedPods": 1}});
    cluster.merge(format!("{budgets}/kept/status"), allowed).await.ok(200);
    let admin = cluster.local_clients().user("kubernetes-admin", &["system:masters"]);
    admin.get(PODS.at("default", "kept")).await.expect("it was just made")
}

#[tokio::test(start_paused = true)]
async fn every_write_of_a_deposed_leader_is_refused_and_nothing_is_written() {
    let cluster = TestCluster::simulated(71).await;
    let (first, second) = (fenced(&cluster, "first"), fenced(&cluster, "second"));
    let map = |name: &str| tree(json!({"metadata": {"name": name, "namespace": "default"}}));
    let refused =
        first.create(CONFIG_MAPS.within("default"), map("too-early"), WriteOptions::default()).await;
    assert_eq!(refused.map(drop).unwrap_err().code, 409, "nobody leads yet");

    cluster.post(LEASES, json!({"metadata": {"name": "the-part"}})).await.ok(201);
    held_by(&cluster, "first", "2026-01-01T00:00:00.000000Z").await;
    let held = first
        .create(CONFIG_MAPS.within("default"), map("held"), WriteOptions::default())
        .await
        .expect("it leads");
    held_by(&cluster, "first", "2026-01-01T00:00:02.000000Z").await;
    let label = |value: &str| Patch::Merge(tree(json!({"metadata": {"labels": {"by": value}}})));
    first
        .patch(CONFIG_MAPS.of(&held), label("first"), WriteOptions::default())
        .await
        .expect("it still leads after a renewal");
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    });
    cluster.settled().await;
    let pod =
        first.create(PODS.within("default"), tree(pod), WriteOptions::default()).await.expect("it leads");
    let kept = spoken_for(&cluster).await;

    // Somebody else takes over; the first does not know.
    held_by(&cluster, "second", "2026-01-01T00:00:20.000000Z").await;
    let before = cluster.api().registry().table().revision();
    let mut binding = Value::map();
    binding.map_at(&["metadata"]).set("name", "p");
    binding.map_at(&["target"]).set("name", "n1");
    let mut stale = runtime::tree(&held);
    stale.map_at(&["metadata"]).remove("resourceVersion");
    let answers = [
        first.create(CONFIG_MAPS.within("default"), map("late"), WriteOptions::default()).await.map(drop),
        first
            .update(
                CONFIG_MAPS.of(&held),
                {
                    stale.map_at(&["data"]).set("a", "b");
                    stale
                },
                WriteOptions::default(),
            )
            .await
            .map(drop),
        first.patch(CONFIG_MAPS.of(&held), label("late"), WriteOptions::default()).await.map(drop),
        first
            .patch(
                PODS.of(&pod).sub("status"),
                Patch::Merge(tree(json!({"status": {"phase": "Running"}}))),
                WriteOptions::default(),
            )
            .await
            .map(drop),
        first.act(PODS.of(&pod).sub("binding"), binding, WriteOptions::default()).await,
        first.delete(CONFIG_MAPS.of(&held), DeleteOptions::default()).await,
        first
            .delete(
                PODS.of(&pod),
                DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() },
            )
            .await,
        first.delete(PODS.of(&pod), DeleteOptions::default()).await,
        first
            .delete_collection(
                CONFIG_MAPS.within("default"),
                DeleteOptions::default(),
                ListOptions::default(),
            )
            .await,
        first
            .delete_collection(PODS.within("default"), DeleteOptions::default(), ListOptions::default())
            .await,
        first.act(PODS.of(&pod).sub("eviction"), eviction("p"), WriteOptions::default()).await,
        first.act(PODS.of(&kept).sub("eviction"), eviction("kept"), WriteOptions::default()).await,
    ];
    for (nth, answer) in answers.into_iter().enumerate() {
        let status = answer.expect_err("a deposed leader writes nothing");
        assert_eq!(status.code, 409, "{nth}: {}", status.message);
        assert!(
            status.message.contains("is over: lease kube-system/the-part is held by \"second\""),
            "{}",
            status.message
        );
    }
    assert_eq!(cluster.api().registry().table().revision(), before, "nothing was written");

    second
        .patch(CONFIG_MAPS.of(&held), label("second"), WriteOptions::default())
        .await
        .expect("the new leader writes");
    second.delete(PODS.of(&pod), DeleteOptions::default()).await.expect("and deletes");
    second
        .act(PODS.of(&kept).sub("eviction"), eviction("kept"), WriteOptions::default())
        .await
        .expect("and evicts");
    first.get(CONFIG_MAPS.of(&held)).await.expect("reading is for everybody");
    cluster.shutdown().await;
}

/// The guard is the lease at one revision, and a renewal changes that: it is looked at again, nobody is refused.
#[tokio::test]
async fn lease_renewals_refuse_no_write() {
    let cluster = TestCluster::start().await;
    cluster.post(LEASES, json!({"metadata": {"name": "the-part"}})).await.ok(201);
    held_by(&cluster, "first", "2026-01-01T00:00:00.000000Z").await;
    let first = fenced(&cluster, "first");
    let writes = async {
        for n in 0..200 {
            let map = tree(json!({"metadata": {"name": format!("m{n}"), "namespace": "default"}}));
            first
                .create(CONFIG_MAPS.within("default"), map, WriteOptions::default())
                .await
                .expect("it leads");
            tokio::task::yield_now().await;
        }
    };
    let renewals = async {
        for n in 0..200 {
            held_by(&cluster, "first", &format!("2026-01-01T00:00:00.{n:06}Z")).await;
        }
    };
    tokio::join!(writes, renewals);
    assert!(cluster.get(format!("{MAPS}/m199")).await.ok(200)["metadata"]["uid"].is_string());
    cluster.shutdown().await;
}

/// A whole plane that lost its leases does not know it until its next renewal; what it does until then is refused.
#[tokio::test(start_paused = true)]
async fn a_deposed_control_plane_changes_nothing_before_it_notices() {
    let cluster = TestCluster::simulated(72).await;
    let candidate = Some(plane::Candidate { identity: "first".to_owned() });
    let settings =
        plane::Settings { candidate, nodes: Some(testkit::nodes(1)), ..plane::Settings::default() };
    let plane = plane::Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    let create = |name: &str| cluster.post(deployments, json!({"metadata": {"name": name}, "spec": spec}));
    create("led").await.ok(201);
    cluster
        .until("the leader works", || async {
            cluster.get(format!("{deployments}/led")).await.json()["status"]["readyReplicas"] == 1
        })
        .await;
    let sets = || async {
        let list = cluster.get("/apis/apps/v1/namespaces/default/replicasets").await.json();
        list["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(sets().await, 1);

    for lease in ["kube-controller-manager", "kube-scheduler"] {
        let holder =
            json!({"spec": {"holderIdentity": "second", "renewTime": "2036-01-01T00:00:00.000000Z"}});
        cluster.merge(format!("{LEASES}/{lease}"), holder).await.ok(200);
    }
    create("orphaned").await.ok(201);
    // Its next renewal is up to two seconds away; an unguarded leader would have made the replica set at once.
    cluster.env().sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(sets().await, 1, "a deposed leader made a replica set");
    plane.stop().await;
    cluster.shutdown().await;
}
