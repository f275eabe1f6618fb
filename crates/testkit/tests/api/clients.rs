//! TestCluster itself: quick to start, usable through kube-rs with and without a socket.

use std::time::Duration;

use auth::UserInfo;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use testkit::TestCluster;

#[tokio::test]
async fn a_cluster_starts_in_fifty_milliseconds() {
    // The best of a few: other tests share the two cores.
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let env = env::Env::machine();
        let begun = env.monotonic();
        let cluster = TestCluster::start().await;
        assert_eq!(cluster.get("/readyz").await.text(), "ok");
        best = best.min(env.monotonic() - begun);
        cluster.shutdown().await;
    }
    assert!(best < Duration::from_millis(50), "{best:?}");
}

#[tokio::test]
async fn kube_clients_need_no_socket() {
    let cluster = TestCluster::start().await;
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).unwrap();
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(created.data, map.data);

    let version = created.metadata.resource_version.clone().unwrap();
    let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let patch = json!({"data": {"k": "2"}});
    maps.patch("a", &PatchParams::default(), &Patch::Strategic(&patch)).await.unwrap();
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Modified(map)) => assert_eq!(map.data.unwrap()["k"], "2"),
        other => panic!("{other:?}"),
    }
    let refused = maps.create(&PostParams::default(), &map).await.unwrap_err();
    match refused {
        kube::Error::Api(status) => assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists")),
        other => panic!("{other:?}"),
    }
    let jane = cluster.client_as(UserInfo::new("jane", &["devs"]));
    match Api::<ConfigMap>::default_namespaced(jane).get("a").await.unwrap_err() {
        kube::Error::Api(status) => assert_eq!(status.code, 403),
        other => panic!("{other:?}"),
    }
    let namespaces = Api::<Namespace>::all(client).list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = namespaces.items.iter().filter_map(|n| n.metadata.name.as_deref()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    cluster.shutdown().await;
    // The watch ends with the cluster instead of hanging.
    assert!(events.try_next().await.unwrap().is_none());
}
