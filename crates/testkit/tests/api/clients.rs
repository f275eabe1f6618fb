//! TestCluster itself: quick to start, usable through kube-rs with and without a socket.

use std::time::Duration;

use auth::UserInfo;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use testkit::TestCluster;

/// How long that takes is printed, and stands in docs/performance.md: other tests share the two cores.
#[tokio::test]
async fn a_cluster_is_ready_when_it_has_started() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let env = env::Env::machine();
        let begun = env.monotonic();
        let cluster = TestCluster::start().await;
        assert_eq!(cluster.get("/readyz").await.text(), "ok");
        best = best.min(env.monotonic() - begun);
        cluster.shutdown().await;
    }
    println!("ready after {best:?}");
}

#[tokio::test]
async fn kube_clients_need_no_socket() {
    let cluster = TestCluster::start().await;
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).unwrap();
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

/// An hour of a client's life in no time.
#[tokio::test(start_paused = true)]
async fn kube_clients_live_in_virtual_time() {
    let cluster = TestCluster::simulated(7).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut events = maps.watch(&WatchParams::default().timeout(290), "0").await.unwrap().boxed();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "a-"}})).unwrap();
    let first = maps.create(&PostParams::default(), &map).await.unwrap();
    cluster.env().sleep(Duration::from_secs(200)).await;
    let second = maps.create(&PostParams::default(), &map).await.unwrap();
    let age = |map: &ConfigMap| serde_json::to_value(map).unwrap()["metadata"]["creationTimestamp"].clone();
    assert_eq!(age(&first), json!("2026-01-01T00:00:00Z"));
    assert_eq!(age(&second), json!("2026-01-01T00:03:20Z"));
    let mut names = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        match event {
            WatchEvent::Added(map) => names.push(map.metadata.name),
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, [first.metadata.name, second.metadata.name]);
    cluster.shutdown().await;
}

/// Requests over the wire, by hand: what a real client would send.
#[tokio::test]
async fn the_same_cluster_answers_on_a_socket() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    assert!(served.kubeconfig.contains(&format!("https://{}", served.address)), "{}", served.kubeconfig);
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    Api::default_namespaced(cluster.client()).create(&PostParams::default(), &map).await.unwrap();

    let path = "/api/v1/namespaces/default/configmaps/a";
    let admin = over_the_wire(&served, Some(served.pki.admin()), path).await;
    assert!(admin.starts_with("HTTP/1.1 200 OK\r\n"), "{admin}");
    assert!(
        admin.contains("\"name\":\"a\""),
        "what was written without a socket is read through one: {admin}"
    );
    let nobody = over_the_wire(&served, None, path).await;
    assert!(nobody.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{nobody}");
    assert!(over_the_wire(&served, None, "/readyz").await.ends_with("\r\n\r\nok"));
    cluster.shutdown().await;
    assert!(tokio::net::TcpStream::connect(served.address).await.is_err(), "the socket is closed");
}

async fn over_the_wire(
    served: &testkit::Served,
    identity: Option<&auth::pki::Identity>,
    path: &str,
) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut tls = crate::certificates::connect(served, identity).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A peer that closes without a TLS farewell is no error here.
    let _ = tls.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
