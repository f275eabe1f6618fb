//! What is left of pods that nobody knows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use testkit::TestCluster;

use super::fake::Case;
use super::{Quick, open_with};
use crate::config::Config;
use crate::generate::{UserNamespaces, UserRanges};
use crate::pods::{Changes, Facts, NodeEvents, garbage};

#[tokio::test(start_paused = true)]
async fn the_users_of_a_pod_that_is_gone_are_free_for_others() {
    let (cluster, folder) = (TestCluster::simulated(44).await, tempfile::tempdir().unwrap());
    let mut config = Config::new("n", folder.path().to_owned());
    config.user_ranges_directory = folder.path().join("user-ranges");
    let left = UserRanges::load(&config).unwrap().range("gone").unwrap();
    let features = cri::RuntimeHandlerFeatures { user_namespaces: true, ..Default::default() };
    let handler = cri::RuntimeHandler { name: String::new(), features: Some(features) };
    let facts = Facts { handlers: vec![handler], ..Facts::default() };
    let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
    let runtime = Arc::new(Quick::new());
    let changes = Changes::default();
    let silent = NodeEvents::new("n", |_, _, _, _, _| {});
    let opened = open_with((facts, silent), folder.path(), &cluster, client, runtime, &changes, |_| ()).await;
    let (pods, _stopper) = opened;
    let shared = &pods.shared;
    let mut known = BTreeSet::new();
    for _ in 0..2 {
        known = garbage::collect_directories(shared, &known).await;
    }
    assert!(!folder.path().join("pods/gone").exists());
    assert_eq!(shared.user_ranges.as_ref().unwrap().range("new"), Ok(left));
}

#[tokio::test(start_paused = true)]
async fn a_node_tells_that_it_cannot_look_for_dead_containers() {
    let case = Case::new("{containers: [{name: c, image: 'i:1'}]}", |_| {}).await;
    case.runtime.unlisted.store(u32::MAX, Ordering::Relaxed);
    case.cluster.env().sleep(Duration::from_secs(61)).await;
    let told = "ContainerGCFailed: rpc error: code = Unavailable desc = busy".to_owned();
    assert!(case.of_node.lock().contains(&told), "{:?}", case.of_node.lock());
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_dead_container_goes_before_it() {
    let case = Case::new("{containers: [{name: c, image: 'i:1'}]}", |_| {}).await;
    let config = &case.pods.shared.parts.config;
    let folder = container_log::pod_directory(&config.pod_logs_directory, "d", "gone", "u-1");
    let log = container_log::container_log(&folder, "c", 0);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "2026-01-01T00:00:00Z stdout F said\n").unwrap();
    let labels = [("namespace", "d"), ("name", "gone"), ("uid", "u-1")];
    let labels = labels.map(|(name, value)| (format!("io.kubernetes.pod.{name}"), value.to_owned()));
    let metadata = Some(cri::ContainerMetadata { name: "c".to_owned(), attempt: 0 });
    let state = cri::ContainerState::Exited as i32;
    let (id, labels) = ("c-0".to_owned(), labels.into());
    let dead = cri::Container { id, metadata, labels, state, ..Default::default() };
    case.runtime.dead.lock().push(dead);
    case.runtime.unremoved.store(1, Ordering::Relaxed);
    garbage::collect_containers(&case.pods.shared, true).await;
    assert_eq!(case.runtime.unremoved.load(Ordering::Relaxed), 0, "it was to be removed");
    assert!(!log.exists(), "who is killed now must not leave it");
}
