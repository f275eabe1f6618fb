//! Deleting a namespace deletes what is in it: pods first, every kind, and then the namespace.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Resource, Verbs};
use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

use crate::garbage_collector::{cluster, create, eventually, is_there, steady};
use crate::interrupted::Interrupted;
use crate::kinds;

const NAMESPACES: &str = "/api/v1/namespaces";
const CONTROLLER: &[&str] = &["namespace-controller"];

fn controller(cluster: &TestCluster) -> ControlPlane {
    cluster.controllers(cluster.local_clients(), CONTROLLER)
}

fn at(name: &str) -> String {
    format!("{NAMESPACES}/{name}")
}

async fn namespace(cluster: &TestCluster, name: &str) -> String {
    create(cluster, NAMESPACES, json!({"metadata": {"name": name}})).await;
    cluster.settled().await;
    at(name)
}

async fn gone(cluster: &TestCluster, path: &str) {
    eventually(cluster, &format!("{path} is gone"), || async { !is_there(cluster, path).await }).await;
}

/// Status, reason and message of a condition.
async fn condition(cluster: &TestCluster, path: &str, kind: &str) -> (String, String, String) {
    let namespace = cluster.get(path).await.json();
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let all = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|c| c["type"] == kind).cloned().unwrap_or_default();
    (text(&found["status"]), text(&found["reason"]), text(&found["message"]))
}

fn pod(name: &str, grace_seconds: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": grace_seconds,
        "containers": [{"name": "c", "image": "i"}]}})
}

fn namespaced(cluster: &TestCluster) -> Vec<Arc<Resource>> {
    let wanted = |r: &&Arc<Resource>| {
        r.namespaced && r.storage.is_some() && r.verbs.contains(Verbs::CREATE | Verbs::DELETE)
    };
    let mut seen = std::collections::BTreeSet::new();
    let unseen = |r: &&Arc<Resource>| seen.insert(r.storage.as_ref().map(|s| s.id));
    cluster.catalog().resources().iter().filter(wanted).filter(unseen).cloned().collect()
}

async fn fill(cluster: &TestCluster) -> Vec<String> {
    let mut paths = Vec::new();
    for resource in &namespaced(cluster) {
        for n in 1..3 {
            let name = kinds::name(resource, n);
            create(cluster, &kinds::collection(resource), kinds::object(resource, &name)).await;
            paths.push(kinds::path(resource, &name));
        }
    }
    assert!(paths.len() > 50, "only {}", paths.len());
    paths
}

#[tokio::test(start_paused = true)]
async fn objects_of_every_kind_are_deleted_with_their_namespace() {
    let cluster = cluster(1).await;
    let plane = controller(&cluster);
    let doomed = namespace(&cluster, kinds::NAMESPACE).await;
    let spared = namespace(&cluster, "spared").await;
    create(&cluster, &format!("{spared}/configmaps"), json!({"metadata": {"name": "a"}})).await;
    let paths = fill(&cluster).await;
    cluster.delete(&doomed).await.ok(200);
    gone(&cluster, &doomed).await;
    for path in paths {
        assert!(!is_there(&cluster, &path).await, "{path} is left");
    }
    // Not even what nobody made by hand.
    let catalog = cluster.catalog();
    let storages = catalog.storages().iter().filter(|s| s.namespaced);
    let table = cluster.api().registry().table();
    for storage in storages {
        let within = table::Selection::everything(table::Scope::Namespace(kinds::NAMESPACE.into()));
        let left = table.list(storage.id, &within, None, None, 0).expect("the present is readable");
        assert!(left.items.is_empty(), "{} are left", storage.plural);
    }
    assert!(is_there(&cluster, &format!("{spared}/configmaps/a")).await);
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_deleted_before_everything_else() {
    let cluster = cluster(2).await;
    let plane = controller(&cluster);
    let doomed = namespace(&cluster, "doomed").await;
    create(&cluster, &format!("{doomed}/pods"), pod("slow", 40)).await;
    create(&cluster, &format!("{doomed}/configmaps"), json!({"metadata": {"name": "needed"}})).await;
    cluster.delete(&doomed).await.ok(200);
    let begun = cluster.env().now_seconds();
    eventually(&cluster, "the pod ends", || async {
        let pod = cluster.get(format!("{doomed}/pods/slow")).await.json();
        pod["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    assert!(
        cluster.env().now_seconds() - begun >= 5,
        "others get time to notice that the namespace is going"
    );
    cluster.env().sleep(Duration::from_secs(30)).await;
    assert!(
        is_there(&cluster, &format!("{doomed}/configmaps/needed")).await,
        "while a pod is there all else stays"
    );
    let failure = condition(&cluster, &doomed, "NamespaceDeletionContentFailure").await;
    assert_eq!(
        failure,
        (
            "False".into(),
            "ContentDeleted".into(),
            "All content successfully deleted, may be waiting on finalization".into()
        )
    );
    // Nobody ends the pod in its time.
    cluster.env().sleep(Duration::from_secs(60)).await;
    let failure = condition(&cluster, &doomed, "NamespaceDeletionContentFailure").await;
    assert_eq!(
        failure,
        (
            "True".into(),
            "ContentDeletionFailed".into(),
            "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: doomed for gvr: /v1, Resource=pods".into()
        )
    );
    let before = cluster.env().now_seconds();
    cluster.delete(format!("{doomed}/pods/slow?gracePeriodSeconds=0")).await.ok(200);
    gone(&cluster, &doomed).await;
    assert!(cluster.env().now_seconds() - before < 5, "the last pod wakes the controller");
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_pod_does_not_shorten_the_grace_period() {
    let cluster = cluster(7).await;
    let plane = controller(&cluster);
    let doomed = namespace(&cluster, "doomed").await;
    // The same name before: what is known of it must not count.
    create(&cluster, &format!("{doomed}/pods"), pod("p", 0)).await;
    cluster.delete(&doomed).await.ok(200);
    gone(&cluster, &doomed).await;

    let doomed = namespace(&cluster, "doomed").await;
    create(&cluster, &format!("{doomed}/pods"), pod("p", 40)).await;
    create(&cluster, &format!("{doomed}/configmaps"), json!({"metadata": {"name": "a"}})).await;
    cluster.delete(&doomed).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1)).await;
    cluster.delete(format!("{doomed}/pods/p?gracePeriodSeconds=0")).await.ok(200);
    cluster.env().sleep(Duration::from_millis(3900)).await;
    assert!(is_there(&cluster, &format!("{doomed}/configmaps/a")).await, "others still have time to notice");
    cluster.env().sleep(Duration::from_secs(1)).await;
    assert!(!is_there(&cluster, &doomed).await, "the grace is over");
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn remaining_finalizers_are_reported_and_waited_for() {
    let cluster = cluster(3).await;
    let plane = controller(&cluster);
    let doomed = namespace(&cluster, "doomed").await;
    for (collection, name) in [("configmaps", "a"), ("configmaps", "b"), ("secrets", "c")] {
        let held = json!({"metadata": {"name": name, "finalizers": ["example.com/hold"]}});
        create(&cluster, &format!("{doomed}/{collection}"), held).await;
    }
    create(&cluster, &format!("{doomed}/secrets"), json!({"metadata": {"name": "free"}})).await;
    cluster.delete(&doomed).await.ok(200);
    gone(&cluster, &format!("{doomed}/secrets/free")).await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    let namespace = cluster.get(&doomed).await.json();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let told: Vec<(&str, &str, &str, &str)> = namespace["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            let text = |name: &str| c[name].as_str().unwrap_or("");
            (text("type"), text("status"), text("reason"), text("message"))
        })
        .collect();
    assert_eq!(
        told,
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered"
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed"
            ),
            (
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization"
            ),
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances"
            ),
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances"
            ),
        ]
    );
    steady(&cluster).await;
    for (collection, name) in [("configmaps", "a"), ("configmaps", "b"), ("secrets", "c")] {
        let free = json!({"metadata": {"finalizers": null}});
        cluster.merge(format!("{doomed}/{collection}/{name}"), free).await.ok(200);
    }
    gone(&cluster, &doomed).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_keep_the_namespace() {
    let cluster = cluster(4).await;
    let plane = controller(&cluster);
    let body =
        json!({"metadata": {"name": "doomed"}, "spec": {"finalizers": ["example.com/z", "example.com/a"]}});
    create(&cluster, NAMESPACES, body).await;
    cluster.settled().await;
    let doomed = at("doomed");
    cluster.delete(&doomed).await.ok(200);
    eventually(&cluster, "this controller is done", || async {
        let namespace = cluster.get(&doomed).await.json();
        namespace["spec"]["finalizers"] == json!(["example.com/a", "example.com/z"])
    })
    .await;
    steady(&cluster).await;
    let remaining = condition(&cluster, &doomed, "NamespaceContentRemaining").await;
    assert_eq!(
        remaining,
        ("False".into(), "ContentRemoved".into(), "All content successfully removed".into())
    );
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_the_namespace_is_still_deleted() {
    // The first time nothing happens to it, and the writes are counted.
    const ENOUGH: i64 = 1_000_000;
    let mut all = 0;
    for share in [None, Some(1), Some(2), Some(3), Some(50), Some(98), Some(99), Some(100)] {
        let cluster = cluster(50).await;
        // The first few writes, then percents of all of them.
        let writes = match share {
            None => ENOUGH,
            Some(few) if few <= 3 => few,
            Some(percent) => all * percent / 100,
        };
        let clients = Interrupted::after(&cluster, writes);
        let plane = cluster.controllers(Arc::new(clients.clone()), CONTROLLER);
        let doomed = namespace(&cluster, kinds::NAMESPACE).await;
        fill(&cluster).await;
        cluster.delete(&doomed).await.ok(200);
        cluster.env().sleep(Duration::from_secs(30)).await;
        if share.is_none() {
            all = ENOUGH - clients.left();
            assert!(all > 30, "only {all} writes");
        } else {
            assert!(clients.is_dead(), "{writes}: the controller has more to write than that");
        }
        assert_eq!(is_there(&cluster, &doomed).await, writes < all, "after {writes} of {all} writes");
        plane.kill();
        let plane = controller(&cluster);
        gone(&cluster, &doomed).await;
        steady(&cluster).await;
        plane.stop().await;
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_late_events_do_not_keep_a_namespace() {
    let cluster = cluster(6).await;
    let clients = Interrupted::never(&cluster).meddling().late(2_000);
    let plane = cluster.controllers(Arc::new(clients), CONTROLLER);
    let doomed = namespace(&cluster, kinds::NAMESPACE).await;
    fill(&cluster).await;
    create(&cluster, &format!("{doomed}/pods"), pod("slow", 10)).await;
    cluster.delete(&doomed).await.ok(200);
    cluster.env().sleep(Duration::from_secs(8)).await;
    cluster.delete(format!("{doomed}/pods/slow?gracePeriodSeconds=0")).await.ok(200);
    gone(&cluster, &doomed).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_deleted_by_garbage_and_namespace_controller_together() {
    let cluster = cluster(5).await;
    let plane = cluster.control_plane();
    let doomed = namespace(&cluster, kinds::NAMESPACE).await;
    let paths = fill(&cluster).await;
    cluster.delete(format!("{doomed}?propagationPolicy=Foreground")).await.ok(200);
    gone(&cluster, &doomed).await;
    for path in paths {
        assert!(!is_there(&cluster, &path).await, "{path} is left");
    }
    plane.stop().await;
    cluster.shutdown().await;
}
