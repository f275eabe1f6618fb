//! Connections to aggregated servers: used again, by everybody, for as long as what they were made for stays the same.

use env::Env;
use futures_util::future::join_all;
use serde_json::json;
use testkit::TestCluster;

use crate::aggregated_objects::flunder;
use crate::aggregated_server::*;

/// The handshakes it takes to ask so often, one after the other.
async fn handshakes(cluster: &TestCluster, server: &AggregatedServer, times: usize) -> usize {
    let before = server.handshakes();
    for _ in 0..times {
        cluster.get(FLUNDERS).await.ok(200);
    }
    server.handshakes() - before
}

/// It takes a few handshakes until the connections are there, and no more then: one of HTTP/1.1 may be back a little later than its answer,
/// and the server is asked five times at once whether it is available when its endpoints change.
async fn new_connections(cluster: &TestCluster, server: &AggregatedServer) {
    let first = handshakes(cluster, server, 3).await;
    assert!((1..=3 + 5).contains(&first), "{first} handshakes");
    reused(cluster, server).await;
}

async fn reused(cluster: &TestCluster, server: &AggregatedServer) {
    assert_eq!(handshakes(cluster, server, 10).await, 0);
}

async fn users_share_connections_until_something_changes(seed: u64, protocols: &[&str]) {
    let server = AggregatedServer::speaking(&Env::simulated(seed), "api.wardle.svc", protocols);
    let (cluster, server) = aggregating_by(server).await;
    handshakes(&cluster, &server, 3).await;
    reused(&cluster, &server).await;
    // Whoever asks, and each in his own name.
    let before = server.handshakes();
    for user in ["jane", "joe"] {
        let asked = cluster.request("GET", FLUNDERS).header("impersonate-user", user);
        asked.header("impersonate-group", "system:masters").send().await.ok(200);
        assert_eq!(server.asked(FLUNDERS).last().unwrap().header("x-remote-user"), user);
    }
    assert_eq!(server.handshakes(), before);
    // A body goes along too.
    cluster.post(FLUNDERS, json!({"metadata": {"name": "b"}})).await.ok(201);
    assert_eq!(server.handshakes(), before);
    // The server closed it meanwhile: nobody notices.
    server.cut();
    new_connections(&cluster, &server).await;
    // What it was made for is another.
    server.renew_front_proxy();
    new_connections(&cluster, &server).await;
    let trusting = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    let before = server.handshakes();
    cluster.merge(API_SERVICE, trusting).await.ok(200);
    while server.handshakes() == before {
        cluster.env().sleep(std::time::Duration::from_millis(10)).await;
        cluster.get(FLUNDERS).await.ok(200);
    }
    handshakes(&cluster, &server, 3).await;
    reused(&cluster, &server).await;
    let moved = json!({"endpoints": [{"addresses": ["10.1.2.4"], "conditions": {"ready": true}}]});
    cluster.merge(format!("{SLICES}/api-1"), moved).await.ok(200);
    new_connections(&cluster, &server).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn users_share_connections_of_http1_until_something_changes() {
    users_share_connections_until_something_changes(40, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn users_share_connections_of_http2_until_something_changes() {
    users_share_connections_until_something_changes(41, &["h2", "http/1.1"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_server_refused_to_look_at_it_gets_once_more() {
    let server = AggregatedServer::speaking(&Env::simulated(43), "api.wardle.svc", &["h2", "http/1.1"]);
    let (cluster, server) = aggregating_by(server).await;
    server.objects().put(flunder("b", json!([]))).await;
    const FLUNDER: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders/b";
    server.set(Mode::RefusesOnceAt(FLUNDER));
    let before = server.handshakes();
    cluster.delete(FLUNDER).await.ok(200);
    assert_eq!((server.asked(FLUNDER).len(), server.handshakes()), (2, before), "on the same connection");
    // Not what has a body, which is gone.
    server.set(Mode::RefusesOnceAt(FLUNDERS));
    cluster.post(FLUNDERS, json!({"metadata": {"name": "c"}})).await.ok(503);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn many_requests_at_once_share_few_connections_of_http2() {
    let server = AggregatedServer::speaking(&Env::simulated(42), "api.wardle.svc", &["h2", "http/1.1"]);
    let (cluster, server) = aggregating_by(server).await;
    handshakes(&cluster, &server, 1).await;
    let before = server.handshakes();
    // Its availability is checked meanwhile, by requests most of which are given up.
    cluster.env().sleep(std::time::Duration::from_secs(60)).await;
    for reply in join_all((0..60).map(|_| cluster.request("GET", FLUNDERS).send())).await {
        reply.ok(200);
    }
    assert_eq!(server.handshakes(), before);
    // Watches stay: when one connection has its share there is another.
    let mut watches = Vec::new();
    for _ in 0..100 {
        let mut watch = cluster.watch(format!("{FLUNDERS}?watch=1")).await;
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        watches.push(watch);
    }
    assert_eq!(server.handshakes(), before + 1);
    // One that does not answer is not asked again on the same connection; the others go on.
    server.set(Mode::Hangs);
    let env = cluster.env();
    let hung = env.timeout(std::time::Duration::from_secs(2), cluster.get(FLUNDERS)).await;
    assert!(hung.is_err());
    server.set(Mode::Serves);
    cluster.get(FLUNDERS).await.ok(200);
    server.tell(json!({"type": "MODIFIED", "object": {}})).await;
    assert_eq!(watches.last_mut().unwrap().next().await.unwrap()["type"], "MODIFIED");
    drop(watches);
    cluster.shutdown().await;
}

/// A quarter of the connections to other servers, nodes and pods, of which there are 16 however few there are of clients.
const FEW: usize = 4;

#[tokio::test(start_paused = true)]
async fn streams_of_http2_share_few_descriptors() {
    let server = AggregatedServer::speaking(&Env::simulated(44), "api.wardle.svc", &["h2", "http/1.1"]);
    let (cluster, server) = aggregating_by(server).await;
    cluster.api().limit_connections(1);
    let before = server.handshakes();
    let mut watches = Vec::new();
    for _ in 0..FEW * 40 {
        let mut watch = cluster.watch(format!("{FLUNDERS}?watch=1")).await;
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        watches.push(watch);
    }
    assert!(server.handshakes() - before <= 2);
    drop(watches);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_checked_however_much_clients_ask_of_it() {
    let (cluster, server) = aggregating(45).await;
    cluster.api().limit_connections(1);
    // What it serves is known by then.
    cluster.env().sleep(std::time::Duration::from_secs(10)).await;
    let mut watches = Vec::new();
    for _ in 0..FEW {
        let mut watch = cluster.watch(format!("{FLUNDERS}?watch=1")).await;
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        watches.push(watch);
    }
    cluster.get(FLUNDERS).await.ok(429);
    let checks = || server.asked(ROOT).iter().filter(|asked| asked.uri == ROOT).count();
    let before = checks();
    cluster.env().sleep(std::time::Duration::from_secs(70)).await;
    assert!(checks() >= before + 2, "{before} {}", checks());
    let shown = cluster.get(API_SERVICE).await.ok(200);
    assert_eq!(shown["status"]["conditions"][0]["reason"], "Passed", "{shown}");
    watches.pop();
    cluster.get(FLUNDERS).await.ok(200);
    drop(watches);
    cluster.shutdown().await;
}

/// They are called through this server; what is said of them is the same as of others.
#[tokio::test(start_paused = true)]
async fn calls_of_webhooks_that_a_server_has_use_connections_again_and_end_in_their_time() {
    const PATH: &str = "/apis/wardle.example.com/v1alpha1/admissionreviews";
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    for (seed, protocols) in [(1606, &["http/1.1"][..]), (1607, &["h2"])] {
        let server = AggregatedServer::speaking(&Env::simulated(seed), "api.wardle.svc", protocols);
        let (cluster, server) = aggregating_by(server).await;
        let hook = json!({"metadata": {"name": "hook"}, "webhooks": [{
            "name": "hook.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
            "clientConfig": {"service": {"namespace": "default", "name": "kubernetes", "path": PATH}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }]});
        cluster.post(configurations, hook).await.ok(201);
        let refused = async || {
            let map = json!({"metadata": {"name": "a"}});
            let refused = cluster.post("/api/v1/namespaces/default/configmaps", map).await.ok(500);
            refused["message"].as_str().unwrap().to_owned()
        };
        server.set(Mode::FailsAt(PATH));
        for _ in 0..3 {
            refused().await;
        }
        let before = server.handshakes();
        for _ in 0..10 {
            let why = refused().await;
            assert!(why.contains(r#"an error on the server ("oh")"#), "{why}");
        }
        assert_eq!(server.handshakes(), before, "{protocols:?}");
        server.set(Mode::HangsAt(PATH));
        let why = format!(
            "Internal error occurred: failed calling webhook \"hook.example.io\": failed to call webhook: \
             Post \"https://kubernetes.default.svc:443{PATH}?timeout=2s\": context deadline exceeded"
        );
        assert_eq!(refused().await, why);
        cluster.shutdown().await;
    }
}
