//! The API over HTTP: every verb, watches and their ends, connections that break, and the same store as in process.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::{LocalClient, LocalClients};
use client::resources::{CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS};
use client::{
    Client, Clients, DeleteOptions, Event, FieldValidation, ListOptions, Patch, Propagation, Watch,
    WatchOptions, WriteOptions,
};
use client_http::{Config, HttpClient, HttpClients, Identities, Impersonate};
use object::Value;
use runtime::{Informers, Stopper};
use serde_json::json;
use testkit::{Served, TestCluster, admin};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

fn tree(value: serde_json::Value) -> Value {
    codec::json::parse(value.to_string().as_bytes(), None).unwrap()
}

fn map(name: &str) -> Value {
    tree(json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"k": "v <&> \u{1F600}"}}))
}

fn by_socket(cluster: &TestCluster, served: &Served) -> HttpClient {
    let config = Config::from_kubeconfig_text(&served.kubeconfig).unwrap();
    HttpClient::new(cluster.env().clone(), cluster.catalog().clone(), &config).unwrap()
}

/// The very bytes the server holds.
fn is_servers_own(cluster: &TestCluster, obj: &object::Obj) {
    let catalog = cluster.catalog();
    let storage = catalog.storage_of_key(obj.key()).unwrap();
    let held = cluster.api().registry().table().get(storage.id, obj.key()).expect("it is there");
    assert_eq!(String::from_utf8_lossy(held.body()), String::from_utf8_lossy(obj.body()));
    assert_eq!(held.revision(), obj.revision());
    assert_eq!((held.uid(), held.name(), held.namespace()), (obj.uid(), obj.name(), obj.namespace()));
}

async fn all_verbs(cluster: &TestCluster, client: &dyn Client) {
    let made = client.create(CONFIG_MAPS.within("default"), map("a"), WriteOptions::default()).await.unwrap();
    is_servers_own(cluster, &made);
    assert_eq!(made.label("app"), Some("a"));
    let again =
        client.create(CONFIG_MAPS.within("default"), map("a"), WriteOptions::default()).await.err().unwrap();
    assert_eq!((again.code, again.reason), (409, "AlreadyExists"));
    assert_eq!(again.details.unwrap().name, "a");

    let got = client.get(CONFIG_MAPS.of(&made)).await.unwrap();
    assert_eq!(got.body(), made.body());
    let missing = client.get(CONFIG_MAPS.at("default", "b")).await.err().unwrap();
    assert_eq!((missing.code, missing.message.as_str()), (404, "configmaps \"b\" not found"));

    // What a write says beside its object arrives.
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let answered = client.create(CONFIG_MAPS.within("default"), map("dry"), dry).await.unwrap();
    assert_eq!((answered.name(), answered.revision().0), ("dry", 0));
    assert_eq!(client.get(CONFIG_MAPS.at("default", "dry")).await.err().unwrap().code, 404);
    let strict = WriteOptions { field_validation: FieldValidation::Strict, ..WriteOptions::default() };
    let mut odd = map("odd");
    odd.make_map().set("unknown", "1");
    let refused = client.create(CONFIG_MAPS.within("default"), odd, strict).await.err().unwrap();
    assert!(refused.message.contains("unknown field \"unknown\""), "{}", refused.message);
    let pretended = DeleteOptions { dry_run: true, ..DeleteOptions::exactly(&made) };
    client.delete(CONFIG_MAPS.of(&made), pretended).await.unwrap();
    assert_eq!(client.get(CONFIG_MAPS.of(&made)).await.unwrap().revision(), made.revision());

    // Updates carry the version they were made from.
    let mut body = runtime::tree(&got);
    body.map_at(&["data"]).set("k", "new");
    let updated = client.update(CONFIG_MAPS.of(&got), body.clone(), WriteOptions::default()).await.unwrap();
    is_servers_own(cluster, &updated);
    let stale = client.update(CONFIG_MAPS.of(&got), body, WriteOptions::default()).await.err().unwrap();
    assert_eq!((stale.code, stale.reason), (409, "Conflict"));

    for patch in [
        Patch::Merge(tree(json!({"data": {"m": "1"}}))),
        Patch::Strategic(tree(json!({"data": {"s": "1"}}))),
        Patch::json(tree(json!([{"op": "add", "path": "/data/j", "value": "1"}]))).unwrap(),
    ] {
        is_servers_own(
            cluster,
            &client.patch(CONFIG_MAPS.of(&got), patch, WriteOptions::default()).await.unwrap(),
        );
    }
    let bad = client
        .patch(CONFIG_MAPS.of(&got), Patch::Merge(tree(json!({"data": {"/": "1"}}))), WriteOptions::default())
        .await;
    let bad = bad.err().unwrap();
    assert_eq!((bad.code, bad.reason), (422, "Invalid"));
    assert_eq!(bad.details.unwrap().causes[0].reason, "FieldValueInvalid");

    // Pages, selectors.
    for name in ["b", "c"] {
        client.create(CONFIG_MAPS.within("default"), map(name), WriteOptions::default()).await.unwrap();
    }
    let (mut names, mut options) = (Vec::new(), ListOptions { limit: 2, ..ListOptions::default() });
    loop {
        let page = client.list(CONFIG_MAPS.within("default"), options.clone()).await.unwrap();
        assert!(page.items.len() <= 2 && page.revision.0 > 0);
        page.items.iter().for_each(|obj| is_servers_own(cluster, obj));
        names.extend(page.items.iter().map(|obj| obj.name().to_owned()));
        options.continue_token = page.continue_token;
        if options.continue_token.is_empty() {
            break;
        }
    }
    assert!(
        names.ends_with(&["b".to_owned(), "c".to_owned()]) || names.starts_with(&["a".to_owned()]),
        "{names:?}"
    );
    let selected = ListOptions { label_selector: "app in (b,c)".to_owned(), ..ListOptions::default() };
    assert_eq!(client.list(CONFIG_MAPS.everywhere(), selected.clone()).await.unwrap().items.len(), 2);

    // The status is written by itself.
    let nginx = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let web =
        client.create(DEPLOYMENTS.within("default"), tree(nginx), WriteOptions::default()).await.unwrap();
    is_servers_own(cluster, &web);
    let mut body = runtime::tree(&web);
    body.map_at(&["status"]).set("replicas", Value::Int(7));
    let written =
        client.update(DEPLOYMENTS.of(&web).sub("status"), body, WriteOptions::default()).await.unwrap();
    is_servers_own(cluster, &written);
    assert_eq!(runtime::tree(&written).at(&["status", "replicas"]), Some(&Value::Int(7)));

    // A pod is bound and evicted.
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let pod = client.create(PODS.within("default"), tree(pod), WriteOptions::default()).await.unwrap();
    is_servers_own(cluster, &pod);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    client.act(PODS.of(&pod).sub("binding"), tree(binding.clone()), WriteOptions::default()).await.unwrap();
    let bound = client.get(PODS.of(&pod)).await.unwrap();
    assert_eq!(runtime::tree(&bound).str_at(&["spec", "nodeName"]), Some("n1"));
    assert_eq!(
        client
            .act(PODS.of(&pod).sub("binding"), tree(binding), WriteOptions::default())
            .await
            .err()
            .unwrap()
            .code,
        409
    );
    client
        .act(PODS.of(&pod).sub("eviction"), tree(json!({"metadata": {"name": "p"}})), WriteOptions::default())
        .await
        .unwrap();

    // Only the very object is deleted.
    let other =
        DeleteOptions { preconditions: client::Preconditions::uid("another"), ..DeleteOptions::default() };
    assert_eq!(client.delete(CONFIG_MAPS.of(&made), other).await.err().unwrap().code, 409);
    client.delete(CONFIG_MAPS.of(&made), DeleteOptions::exactly(&made)).await.unwrap();
    assert_eq!(client.get(CONFIG_MAPS.of(&made)).await.err().unwrap().code, 404);
    let orphan =
        DeleteOptions { propagation_policy: Some(Propagation::Foreground), ..DeleteOptions::exactly(&web) };
    client.delete(DEPLOYMENTS.of(&web), orphan).await.unwrap();
    assert!(client.get(DEPLOYMENTS.of(&web)).await.unwrap().deleting());
    let all = DeleteOptions::default();
    client.delete_collection(CONFIG_MAPS.within("default"), all, selected.clone()).await.unwrap();
    assert!(client.list(CONFIG_MAPS.within("default"), selected).await.unwrap().items.is_empty());

    let unknown = client::Gvr::new("example.com", "v1", "foos");
    assert_eq!(client.get(unknown.at("default", "x")).await.err().unwrap().code, 404);
}

#[tokio::test]
async fn every_verb_works_over_a_tls_socket() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    let client = by_socket(&cluster, &served);
    all_verbs(&cluster, &client).await;
    drop(client);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_verb_works_over_both_versions_of_http_on_few_connections() {
    for http2 in [true, false] {
        let cluster = TestCluster::simulated(1).await;
        let pipe = cluster.pipe(http2);
        let client = pipe.client(&cluster);
        all_verbs(&cluster, &client).await;
        assert_eq!(pipe.dials(), 1, "one call after the other needs one connection");
        drop(client);
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_process_the_verbs_are_the_same() {
    let cluster = TestCluster::simulated(1).await;
    all_verbs(&cluster, &LocalClient::new(cluster.api().clone(), admin(), "test")).await;
    cluster.shutdown().await;
}

/// The next events, one line each.
async fn next(watch: &mut dyn Watch, count: usize) -> Vec<String> {
    let (mut events, mut out) = (Vec::new(), Vec::new());
    while out.len() < count {
        assert!(watch.pull(&mut events).await.unwrap(), "the watch ended: {out:?}");
        out.extend(events.drain(..).map(|event| match event {
            Event::Added(obj) => format!("+{}", obj.path()),
            Event::Modified(obj) => format!("~{}", obj.path()),
            Event::Deleted(obj) => format!("-{}", obj.path()),
            Event::Bookmark { initial_events_end: true, .. } => "state".to_owned(),
            Event::Bookmark { .. } => "bookmark".to_owned(),
        }));
    }
    out
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_initial_events_then_changes_and_ends_cleanly() {
    for http2 in [true, false] {
        let cluster = TestCluster::simulated(2).await;
        let client = cluster.pipe(http2).client(&cluster);
        let a =
            client.create(CONFIG_MAPS.within("default"), map("a"), WriteOptions::default()).await.unwrap();
        let options = WatchOptions {
            label_selector: "app".to_owned(),
            initial_events: true,
            timeout_seconds: 30,
            ..WatchOptions::default()
        };
        let mut watch = client.watch(CONFIG_MAPS.within("default"), options).await.unwrap();
        assert_eq!(next(&mut *watch, 2).await, ["+default/a", "state"]);
        client
            .patch(
                CONFIG_MAPS.of(&a),
                Patch::Merge(tree(json!({"data": {"x": "y"}}))),
                WriteOptions::default(),
            )
            .await
            .unwrap();
        client.create(CONFIG_MAPS.within("default"), map("b"), WriteOptions::default()).await.unwrap();
        client.delete(CONFIG_MAPS.of(&a), DeleteOptions::exactly(&a)).await.unwrap();
        assert_eq!(next(&mut *watch, 3).await, ["~default/a", "+default/b", "-default/a"]);
        // Its time is up: a last bookmark, and an end that is no error.
        let mut events = Vec::new();
        while watch.pull(&mut events).await.unwrap() {}
        assert!(events.iter().all(|event| matches!(event, Event::Bookmark { .. })));
        drop((watch, client));
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_below_the_history_is_410() {
    let cluster = TestCluster::simulated(3).await;
    let client = cluster.pipe(true).client(&cluster);
    let first =
        client.create(CONFIG_MAPS.within("default"), map("a"), WriteOptions::default()).await.unwrap();
    // The history is kept for five minutes, and forgotten when something is written after that.
    for name in ["b", "c"] {
        cluster.env().sleep(Duration::from_secs(400)).await;
        client.create(CONFIG_MAPS.within("default"), map(name), WriteOptions::default()).await.unwrap();
        client.delete(CONFIG_MAPS.at("default", name), DeleteOptions::default()).await.unwrap();
    }
    let options = WatchOptions { resource_version: first.revision().to_string(), ..WatchOptions::default() };
    let refused = match client.watch(CONFIG_MAPS.everywhere(), options).await {
        Err(status) => status,
        Ok(mut watch) => watch.pull(&mut Vec::new()).await.err().unwrap(),
    };
    assert_eq!((refused.code, refused.reason), (410, "Expired"));
    drop(client);
    cluster.shutdown().await;
}

/// Waits, in the cluster's time, until it holds.
async fn until(cluster: &TestCluster, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

fn same(a: &runtime::Informer, b: &runtime::Informer) -> bool {
    let lines = |informer: &runtime::Informer| -> Vec<(u64, Vec<u8>)> {
        informer.store().list().iter().map(|obj| (obj.revision().0, obj.body().to_vec())).collect()
    };
    lines(a) == lines(b)
}

async fn informers_agree(cluster: &TestCluster, client: HttpClient, cut: impl Fn()) {
    let (stopper, stop) = Stopper::new();
    let local: Arc<dyn Client> = Arc::new(LocalClient::new(cluster.api().clone(), admin(), "test"));
    let near = Informers::new(cluster.env().clone(), local.clone(), stop.clone());
    let far = Informers::new(cluster.env().clone(), Arc::new(client), stop);
    let pairs: Vec<_> = [&CONFIG_MAPS, &NAMESPACES, &SERVICE_ACCOUNTS]
        .into_iter()
        .map(|resource| (near.of(resource), far.of(resource)))
        .collect();
    let all_same = || pairs.iter().all(|(near, far)| same(near, far));
    near.synced().await;
    far.synced().await;
    until(cluster, "the same state", all_same).await;
    for turn in 0..3 {
        for i in 0..20 {
            let name = format!("m{i}");
            if turn == 0 {
                local
                    .create(CONFIG_MAPS.within("default"), map(&name), WriteOptions::default())
                    .await
                    .unwrap();
            } else if i % 3 == 0 {
                let data = Patch::Merge(tree(json!({"data": {"turn": turn.to_string()}})));
                local.patch(CONFIG_MAPS.at("default", &name), data, WriteOptions::default()).await.unwrap();
            } else if i % 3 == turn {
                local.delete(CONFIG_MAPS.at("default", &name), DeleteOptions::default()).await.unwrap();
            }
            if i == 10 {
                cut();
            }
        }
        // A near informer stands at the last change of its own kind.
        let listed = local.list(CONFIG_MAPS.within("default"), ListOptions::default()).await.unwrap();
        let newest = listed.items.iter().map(|obj| obj.revision()).max().unwrap();
        until(cluster, "the same state after changes", || {
            pairs[0].0.store().revision() >= newest && all_same()
        })
        .await;
    }
    assert_eq!(pairs[0].1.store().get("default", "m0").unwrap().label("app"), Some("m0"));
    stopper.stop();
    for task in near.take_tasks().into_iter().chain(far.take_tasks()) {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_over_http_agrees_with_one_in_process_despite_cut_connections() {
    for http2 in [true, false] {
        let cluster = TestCluster::simulated(4).await;
        let pipe = cluster.pipe(http2);
        informers_agree(&cluster, pipe.client(&cluster), || pipe.cut()).await;
        assert!(pipe.dials() > 3);
        cluster.shutdown().await;
    }
}

#[tokio::test]
async fn an_informer_over_tls_survives_a_closed_socket() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    // Between the two stands somebody who passes bytes on, and can be cut.
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = between.local_addr().unwrap();
    let open: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
    let (server, passing, env) = (served.address, open.clone(), cluster.env().clone());
    let accepting = cluster.env().spawn("between", async move {
        while let Ok((mut near, _)) = between.accept().await {
            let passed = env.spawn("passing", async move {
                if let Ok(mut far) = TcpStream::connect(server).await {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                }
            });
            passing.lock().unwrap().push(passed);
        }
    });
    let mut config = Config::from_kubeconfig_text(&served.kubeconfig).unwrap();
    config.server = format!("https://{address}");
    let client = HttpClient::new(cluster.env().clone(), cluster.catalog().clone(), &config).unwrap();
    let cuts = AtomicUsize::new(0);
    informers_agree(&cluster, client, || {
        for passed in open.lock().unwrap().drain(..) {
            passed.abort();
            cuts.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await;
    assert!(cuts.load(Ordering::Relaxed) >= 3);
    accepting.abort();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn many_watches_and_calls_share_few_connections() {
    for (http2, least, most) in [(true, 3, 6), (false, 200, 460)] {
        let cluster = TestCluster::simulated(7).await;
        let pipe = cluster.pipe(http2);
        let client = pipe.client(&cluster);
        let mut watches = Vec::new();
        for _ in 0..200 {
            let options = WatchOptions { initial_events: true, ..WatchOptions::default() };
            watches.push(client.watch(CONFIG_MAPS.within("default"), options).await.unwrap());
        }
        let names: Vec<String> = (0..300).map(|i| format!("m{i}")).collect();
        let calls = names
            .iter()
            .map(|name| client.create(CONFIG_MAPS.within("default"), map(name), WriteOptions::default()));
        for made in futures_util::future::join_all(calls).await {
            made.unwrap();
        }
        assert!((least..=most).contains(&pipe.dials()), "{}", pipe.dials());
        for watch in &mut watches {
            let mut events = Vec::new();
            while events.iter().filter(|event| matches!(event, Event::Added(_))).count() < 300 {
                assert!(watch.pull(&mut events).await.unwrap());
            }
        }
        drop((watches, client));
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_server_calls_are_503_and_an_informer_waits() {
    let cluster = TestCluster::simulated(5).await;
    let pipe = cluster.pipe(true);
    let client = pipe.client(&cluster);
    let (stopper, stop) = Stopper::new();
    let informers = Informers::new(cluster.env().clone(), Arc::new(client.clone()), stop);
    let maps = informers.of(&CONFIG_MAPS);
    informers.synced().await;
    pipe.close();
    // A write on a connection that is just being cut would be 504: its outcome is unknown.
    cluster.env().sleep(Duration::from_secs(1)).await;
    let refused =
        client.create(CONFIG_MAPS.within("default"), map("a"), WriteOptions::default()).await.err().unwrap();
    assert_eq!((refused.code, refused.reason), (503, "ServiceUnavailable"));
    assert!(refused.message.contains("refused"), "{}", refused.message);
    cluster
        .post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "late"}}))
        .await
        .ok(201);
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert!(maps.store().get("default", "late").is_none());
    pipe.cut();
    until(&cluster, "the map made meanwhile", || maps.store().get("default", "late").is_some()).await;
    stopper.stop();
    drop(client);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_impersonate_their_account_or_use_the_process_user() {
    let cluster = TestCluster::simulated(6).await;
    let jane = auth::UserInfo::new("jane", &[]);
    let admin_client = cluster.pipe(true).client(&cluster);
    let admins = HttpClients::new(admin_client.clone(), Identities::Impersonated);
    let locals = LocalClients::new(cluster.api().clone());
    // The same refusals and permissions as in process.
    for clients in [&admins as &dyn Clients, &locals] {
        let loop_client = clients.controller("deployment-controller");
        loop_client.list(DEPLOYMENTS.everywhere(), ListOptions::default()).await.unwrap();
        let refused = loop_client.list(CONFIG_MAPS.everywhere(), ListOptions::default()).await.err().unwrap();
        assert_eq!(refused.code, 403);
        assert!(
            refused.message.contains("system:serviceaccount:kube-system:deployment-controller"),
            "{}",
            refused.message
        );
        let refused = clients.user("jane", &["some"]).get(NAMESPACES.at("", "default")).await.err().unwrap();
        assert!(refused.message.contains("\"jane\""), "{}", refused.message);
    }
    // A user who may not impersonate gets an error, and keeps its own identity.
    let hers = cluster.pipe_as(true, jane).client(&cluster);
    let refused = hers.acting_as(&Impersonate::user("bob", &[])).get(NAMESPACES.at("", "default")).await;
    assert!(refused.err().unwrap().message.contains("cannot impersonate"));
    let own = HttpClients::new(admin_client, Identities::Own);
    own.controller("any").list(CONFIG_MAPS.everywhere(), ListOptions::default()).await.unwrap();
    let odd = own.user("x", &[]);
    assert!(odd.get(NAMESPACES.at("", "default")).await.is_ok());
    drop((admins, own, odd, hers));
    cluster.shutdown().await;
}
