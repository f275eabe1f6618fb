//! Priority and fairness through the whole chain: which requests are served, queued or rejected.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Caller, serve_stream};
use auth::UserInfo;
use bytes::Bytes;
use http_body_util::channel::Channel;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use testkit::{Ask, Reply, TestCluster};
use tokio::task::JoinHandle;

use crate::webhook_server::{self, WebhookServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

const EXECUTING: &str = "apiserver_flowcontrol_current_executing_seats{flow_schema=\"global-default\",priority_level=\"global-default\"}";

fn user(name: &str) -> UserInfo {
    UserInfo::new(name, &["workers"])
}

/// Users of the group `workers` may do anything; as plain users they are of the level global-default.
async fn cluster(seed: u64) -> TestCluster {
    let cluster = TestCluster::simulated(seed).await;
    allow_workers(&cluster).await;
    cluster
}

async fn allow_workers(cluster: &TestCluster) {
    let binding = json!({
        "metadata": {"name": "workers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "workers"}],
    });
    cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.ok(201);
}

/// A read of a version that is yet to come: it holds its seat until somebody gives up.
fn slow(cluster: &TestCluster, name: &str) -> Ask {
    cluster.request("GET", format!("{MAPS}/x?resourceVersion=1000000")).by(user(name))
}

fn send(cluster: &TestCluster, ask: Ask) -> JoinHandle<Reply> {
    cluster.env().spawn("asking", ask.send())
}

async fn figure(cluster: &TestCluster, series: &str) -> f64 {
    let text = cluster.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("{series} in {text}")).trim().parse().unwrap()
}

async fn seats(cluster: &TestCluster, level: &str) -> usize {
    let name = "apiserver_flowcontrol_current_limit_seats";
    figure(cluster, &format!("{name}{{priority_level=\"{level}\"}}")).await as usize
}

async fn settle(cluster: &TestCluster) {
    cluster.env().sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_waits_for_itself_and_others_are_served() {
    let cluster = cluster(1401).await;
    let seats = seats(&cluster, "global-default").await;
    assert!((24..=649).contains(&seats), "what it never lends, and what it may borrow: {seats}");
    let flood: Vec<_> = (0..seats + 320).map(|_| send(&cluster, slow(&cluster, "flood"))).collect();
    settle(&cluster).await;
    // Its hand is six queues of fifty: the others get a 429.
    let mut refused = Vec::new();
    let mut waiting = Vec::new();
    for task in flood {
        if task.is_finished() { refused.push(task.await.unwrap()) } else { waiting.push(task) }
    }
    assert_eq!((refused.len(), waiting.len()), (20, seats + 300));
    for reply in &refused {
        assert_eq!((reply.status, &*reply.text()), (429, "Too many requests, please try again later.\n"));
        assert_eq!(reply.content_type(), "text/plain; charset=utf-8");
        assert_eq!(reply.headers["retry-after"], "1");
        assert!(reply.headers.contains_key("x-kubernetes-pf-flowschema-uid"));
    }
    // Who keeps the cluster alive, and administrators, are of other levels.
    let node = UserInfo::new("system:node:n1", &["system:nodes"]);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = cluster.request("POST", lease).by(node).json(&json!({"metadata": {"name": "n1"}}));
    lease.send().await.ok(201);
    cluster.get(MAPS).await.ok(200);
    cluster.request("GET", "/readyz").unproven().send().await.ok(200);
    // Somebody else waits for a seat, and gets the first that is free, before the flood's three hundred.
    let other = send(&cluster, cluster.request("GET", MAPS).by(user("other")));
    settle(&cluster).await;
    assert!(!other.is_finished());
    waiting[0].abort();
    settle(&cluster).await;
    other.await.unwrap().ok(200);
    let reasons = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",priority_level=\"global-default\",reason=";
    assert_eq!(figure(&cluster, &format!("{reasons}\"queue-full\"}}")).await, 20.0);
    waiting.iter().for_each(JoinHandle::abort);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_come_hold_no_seat() {
    let cluster = cluster(1402).await;
    let (near, far) = tokio::io::duplex(64 << 10);
    let (api, known) = (cluster.api().clone(), Arc::new(user("slow").authenticated()));
    let served = async move { serve_stream(api, far, true, move |_| Caller::Known(known.clone())).await };
    cluster.env().spawn("server", served);
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
    cluster.env().spawn("client", connection);
    let mut half_sent = Vec::new();
    for _ in 0..250 {
        let (mut sender, body) = Channel::<Bytes>::new(1);
        sender.send_data(Bytes::from_static(b"{\"metadata\":")).await.unwrap();
        let request =
            http::Request::post(MAPS).header("content-type", "application/json").body(body).unwrap();
        client.ready().await.unwrap();
        half_sent.push((sender, cluster.env().spawn("half", client.send_request(request))));
    }
    settle(&cluster).await;
    assert_eq!(figure(&cluster, EXECUTING).await, 0.0);
    let map = |name: &str| json!({"metadata": {"name": name}});
    for name in ["same-flow", "b", "c"] {
        cluster.request("POST", MAPS).by(user("slow")).json(&map(name)).send().await.ok(201);
        cluster.request("POST", MAPS).by(user("other")).json(&map(&format!("o-{name}"))).send().await.ok(201);
    }
    // They are not waited for without end either.
    cluster.env().sleep(Duration::from_secs(30)).await;
    for (_sender, answer) in half_sent {
        assert_eq!(answer.await.unwrap().unwrap().status(), 408);
    }
    cluster.shutdown().await;
}

fn level(name: &str, limit_response: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": limit_response}},
    })
}

fn schema(name: &str, level: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"matchingPrecedence": 50, "priorityLevelConfiguration": {"name": level}, "rules": [{
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]}]},
    })
}

/// One level with few seats, of the users `flood` and `other`.
async fn narrow_level(cluster: &TestCluster) {
    let queue = json!({"type": "Queue", "queuing": {"queues": 1, "queueLengthLimit": 50, "handSize": 1}});
    let narrow = cluster.post(format!("{FLOW}/prioritylevelconfigurations"), level("narrow", queue)).await;
    let uid = narrow.ok(201)["metadata"]["uid"].as_str().unwrap().to_owned();
    for name in ["flood", "other"] {
        cluster.post(format!("{FLOW}/flowschemas"), schema(name, "narrow", name)).await.ok(201);
    }
    for name in ["flood", "other"] {
        while cluster.request("GET", MAPS).by(user(name)).send().await.headers["x-kubernetes-pf-prioritylevel-uid"]
            != uid
        {
            settle(cluster).await;
        }
    }
}

/// Asked about ConfigMaps that are created.
async fn hook_of_maps(cluster: &TestCluster, server: &WebhookServer, kind: &str, name: &str, more: Value) {
    let mut hook = json!({
        "name": format!("{name}.example.io"), "clientConfig": server.config("/"), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
    cluster.post(path, json!({"metadata": {"name": name}, "webhooks": [hook]})).await.ok(201);
}

/// Webhooks are real sockets, so time is real too.
#[tokio::test]
async fn a_webhook_that_hangs_keeps_nobody_from_being_served() {
    let cluster = TestCluster::start().await;
    allow_workers(&cluster).await;
    narrow_level(&cluster).await;
    let server = WebhookServer::start(|_, _| webhook_server::Reply::Never).await;
    hook_of_maps(&cluster, &server, "validating", "never", json!({})).await;

    let more_than_seats = seats(&cluster, "narrow").await + 5;
    let flood: Vec<_> = (0..more_than_seats)
        .map(|n| {
            let map = json!({"metadata": {"name": format!("m{n}")}});
            send(&cluster, cluster.request("POST", MAPS).by(user("flood")).json(&map))
        })
        .collect();
    server.is_asked_times(more_than_seats).await;
    cluster.request("GET", MAPS).by(user("other")).send().await.ok(200);
    assert!(flood.iter().all(|task| !task.is_finished()), "they still wait for the webhook");
    flood.iter().for_each(JoinHandle::abort);
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_a_bounded_number_of_requests_whoever_was_asked_before() {
    let cluster = TestCluster::start().await;
    allow_workers(&cluster).await;
    narrow_level(&cluster).await;
    let first = WebhookServer::start(|_, review| {
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        webhook_server::Reply::Review(
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )
    })
    .await;
    let labelled = json!({"objectSelector": {"matchLabels": {"asks": "both"}}});
    hook_of_maps(&cluster, &first, "mutating", "first", labelled).await;
    let last = WebhookServer::start(|_, _| webhook_server::Reply::Never).await;
    hook_of_maps(&cluster, &last, "validating", "last", json!({})).await;

    let ask = |name: String, labels: Value| {
        let map = json!({"metadata": {"name": name, "labels": labels}});
        send(&cluster, cluster.request("POST", MAPS).by(user("flood")).json(&map))
    };
    // A quarter of all that may wait for one webhook without a seat. A few at a time: the queue is short.
    const OF_A_USER: usize = 160;
    let mut waiting = Vec::new();
    let of_flood = "{flow_schema=\"flood\",priority_level=\"narrow\"}";
    let (taken, queued) = (
        format!("apiserver_flowcontrol_current_executing_seats{of_flood}"),
        format!("apiserver_flowcontrol_current_inqueue_requests{of_flood}"),
    );
    let in_flight = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
    while waiting.len() < OF_A_USER {
        let begun = waiting.len();
        waiting.extend((begun..begun + 40).map(|n| ask(format!("m{n}"), json!({}))));
        while figure(&cluster, in_flight).await < waiting.len() as f64 || figure(&cluster, &taken).await > 0.0
        {
            settle(&cluster).await;
        }
    }
    let (seats, more) = (seats(&cluster, "narrow").await, 5);
    waiting.extend((0..seats + more).map(|n| ask(format!("both{n}"), json!({"asks": "both"}))));
    // Those that have passed the first one take seats again, and keep them.
    while figure(&cluster, &taken).await < seats as f64 || figure(&cluster, &queued).await < more as f64 {
        assert!(waiting.iter().all(|task| !task.is_finished()), "all wait for the webhook, or for a seat");
        settle(&cluster).await;
    }
    waiting.iter().for_each(JoinHandle::abort);
    cluster.shutdown().await;
}

#[tokio::test]
async fn large_objects_that_wait_for_a_webhook_keep_nobody_from_being_served() {
    let cluster = TestCluster::start().await;
    allow_workers(&cluster).await;
    let server = WebhookServer::start(|_, _| webhook_server::Reply::Never).await;
    hook_of_maps(&cluster, &server, "validating", "never", json!({})).await;
    // More than may be decoded at once.
    let many = 2 * std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let large = |n: usize| {
        let map = json!({"metadata": {"name": format!("m{n}")}, "data": {"a": "x".repeat(80 << 10)}});
        send(&cluster, cluster.request("POST", MAPS).json(&map))
    };
    let waiting: Vec<_> = (0..many).map(large).collect();
    server.is_asked_times(many).await;
    cluster.request("GET", MAPS).by(user("jane")).send().await.ok(200);
    assert!(waiting.iter().all(|task| !task.is_finished()), "they still wait for the webhook");
    waiting.iter().for_each(JoinHandle::abort);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn objects_take_effect_as_they_come_and_go() {
    let cluster = cluster(1403).await;
    let uid = |reply: &Reply, header: &str| {
        reply.headers.get(header).map(|uid| uid.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let judged = async || {
        let reply = cluster.request("GET", MAPS).by(user("jane")).send().await;
        assert_eq!(reply.status, 200);
        (uid(&reply, "x-kubernetes-pf-flowschema-uid"), uid(&reply, "x-kubernetes-pf-prioritylevel-uid"))
    };
    let uid_of = async |path: String| {
        let object = cluster.get(path).await.ok(200);
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let of_default = (
        uid_of(format!("{FLOW}/flowschemas/global-default")).await,
        uid_of(format!("{FLOW}/prioritylevelconfigurations/global-default")).await,
    );
    assert_eq!(judged().await, of_default);
    // A schema without its level matches nobody.
    let janes = cluster.post(format!("{FLOW}/flowschemas"), schema("janes", "strict", "jane")).await.ok(201);
    settle(&cluster).await;
    assert_eq!(judged().await, of_default);
    let strict = level("strict", json!({"type": "Reject"}));
    let strict = cluster.post(format!("{FLOW}/prioritylevelconfigurations"), strict).await.ok(201);
    settle(&cluster).await;
    let text = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(judged().await, (text(&janes), text(&strict)));
    // One of 246 shares of 600: three seats, and nowhere to wait.
    let held: Vec<_> = (0..3).map(|_| send(&cluster, slow(&cluster, "jane"))).collect();
    settle(&cluster).await;
    assert_eq!(cluster.request("GET", MAPS).by(user("jane")).send().await.status, 429);
    let refused = "{code=\"429\",component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"LIST\",version=\"v1\"}";
    assert_eq!(figure(&cluster, &format!("apiserver_request_terminations_total{refused}")).await, 1.0);
    let page = cluster.get("/debug/api_priority_and_fairness/dump_priority_levels").await.text();
    let line = page.lines().find(|line| line.starts_with("strict,")).unwrap();
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    assert_eq!(cells, ["strict", "0", "false", "false", "0", "3", "4", "1", "0", "0"], "{page}");
    let page =
        cluster.get("/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1").await.text();
    let of_jane = page.lines().filter(|line| line.contains("jane,") && line.contains("strict,")).count();
    assert_eq!(of_jane, 3, "{page}");
    assert!(
        page.lines()
            .any(|line| line.contains("/api/v1/namespaces/default/configmaps/x") && line.ends_with(' ')),
        "{page}"
    );
    let queues = cluster.get("/debug/api_priority_and_fairness/dump_queues").await.text();
    assert_eq!(queues.lines().filter(|line| line.starts_with("global-default,")).count(), 128);
    cluster.get("/debug/api_priority_and_fairness/other").await.ok(404);
    let strangers =
        cluster.request("GET", "/debug/api_priority_and_fairness/dump_queues").by(UserInfo::new("x", &[]));
    assert_eq!(strangers.send().await.status, 403);
    // Without its level again; who is served there is served to the end.
    cluster.delete(format!("{FLOW}/prioritylevelconfigurations/strict")).await.ok(200);
    settle(&cluster).await;
    assert_eq!(judged().await, of_default);
    assert!(held.iter().all(|task| !task.is_finished()));
    held.iter().for_each(JoinHandle::abort);
    cluster.env().sleep(Duration::from_secs(11)).await;
    let page = cluster.get("/debug/api_priority_and_fairness/dump_priority_levels").await.text();
    assert!(!page.contains("strict"), "{page}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_403_names_its_priority_level_and_a_401_does_not() {
    let cluster = cluster(1404).await;
    let forbidden = cluster.request("GET", MAPS).by(UserInfo::new("x", &[])).send().await;
    assert_eq!(forbidden.status, 403);
    assert!(forbidden.headers.contains_key("x-kubernetes-pf-prioritylevel-uid"));
    let unknown = cluster.request("GET", MAPS).unproven().header("authorization", "Bearer x").send().await;
    assert_eq!(unknown.status, 401);
    assert!(!unknown.headers.contains_key("x-kubernetes-pf-prioritylevel-uid"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn lists_take_seats_by_their_size_until_they_are_fetched() {
    let cluster = cluster(1405).await;
    for at in 0..30 {
        let map = json!({"metadata": {"name": format!("m{at}")}, "data": {"text": "x".repeat(20_000)}});
        cluster.post(MAPS, map).await.ok(201);
    }
    // Some 600 KB are seven seats.
    let mut list = cluster.request("GET", MAPS).by(user("jane")).stream().await;
    assert_eq!(figure(&cluster, EXECUTING).await, 7.0);
    assert!(list.next_bytes().await.is_some());
    assert_eq!(figure(&cluster, EXECUTING).await, 7.0);
    // Nobody fetches the rest: others can have the seats, and the answer goes on where it was.
    cluster.env().sleep(Duration::from_secs(3)).await;
    assert_eq!(figure(&cluster, EXECUTING).await, 0.0);
    let mut rest = 0;
    while let Some(bytes) = list.next_bytes().await {
        rest += bytes.len();
    }
    assert!(rest > 300_000, "{rest}");
    // A page takes fewer, and a watch of changes holds none once it has begun.
    let page = cluster.request("GET", format!("{MAPS}?limit=9")).by(user("jane")).stream().await;
    assert_eq!(figure(&cluster, EXECUTING).await, 2.0);
    drop(page);
    let revision =
        cluster.get(MAPS).await.ok(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let changes = format!("{MAPS}?watch=1&resourceVersion={revision}");
    let watch = cluster.request("GET", changes).by(user("jane")).stream().await;
    assert_eq!(figure(&cluster, EXECUTING).await, 0.0);
    drop(watch);
    // One that begins with what there is takes what the list of it would.
    let watch = cluster.request("GET", format!("{MAPS}?watch=1")).by(user("jane")).stream().await;
    assert_eq!(figure(&cluster, EXECUTING).await, 7.0);
    cluster.env().sleep(Duration::from_secs(3)).await;
    assert_eq!(figure(&cluster, EXECUTING).await, 0.0);
    drop(watch);
    cluster.shutdown().await;
}
