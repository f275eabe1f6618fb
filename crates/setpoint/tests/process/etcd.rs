//! Servers on a real etcd: two of them see each other's writes, and survive a restart of etcd.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::etcd_server::Etcd;
use crate::harness::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Pair {
    etcd: Etcd,
    servers: [Proc; 2],
    folder: tempfile::TempDir,
}

fn pair() -> Option<Pair> {
    let folder = folder();
    let etcd = Etcd::start(&folder.path().join("etcd"))?;
    let server = |name: &str| Proc::start_with(&folder.path().join(name), &["--store", &etcd.store()]);
    Some(Pair { servers: [server("one"), server("two")], etcd, folder })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_etcd_see_each_others_writes() {
    let Some(Pair { etcd, servers: [one, two], folder }) = pair() else { return };
    let (a, b) = (one.client().await, two.client().await);
    let (_, list) = call(&b, "GET", MAPS, None).await;
    // Each server publishes its own authority in a map of its own; here it is about ours.
    const OURS: &str = "fieldSelector=metadata.name!%3Dkube-root-ca.crt";
    let mut watch =
        Watch::open(&b, &format!("{MAPS}?watch=1&{OURS}&resourceVersion={}", revision(&list))).await.unwrap();
    for number in 0..20 {
        let name = format!("m-{number}");
        let (code, made) = call(&a, "POST", MAPS, Some(config_map(&name, "1"))).await;
        assert_eq!(code, 201, "{made}");
        // A read through the other server right after the answer.
        assert_eq!(call(&b, "GET", &format!("{MAPS}/{name}"), None).await, (200, made.clone()));
        let event = watch.next().await.unwrap().unwrap();
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &made));
        let (_, deleted) = call(&b, "DELETE", &format!("{MAPS}/{name}"), None).await;
        assert_eq!(deleted["status"], "Success", "{deleted}");
        assert_eq!(call(&a, "GET", &format!("{MAPS}/{name}"), None).await.0, 404);
        assert_eq!(watch.next().await.unwrap().unwrap()["type"], "DELETED");
    }
    check_stored_form(&etcd, &a).await;

    let ours = format!("{MAPS}?{OURS}");
    let (_, before) = call(&a, "GET", &ours, None).await;
    one.stop();
    let one = Proc::start_with(&folder.path().join("one"), &["--store", &etcd.store()]);
    let (_, after) = call(&one.client().await, "GET", &ours, None).await;
    assert_eq!(after["items"], before["items"]);
    assert!(revision(&after) >= revision(&before));
}

/// Keys and values are upstream's: JSON without a resourceVersion, which is the key's mod_revision; events on a lease.
async fn check_stored_form(etcd: &Etcd, client: &kube::Client) {
    let (_, made) = call(client, "POST", MAPS, Some(config_map("stored", "1"))).await;
    let (entry, value) = etcd.entry("/registry/configmaps/default/stored").unwrap();
    assert_eq!(entry["mod_revision"], made["metadata"]["resourceVersion"]);
    assert!(entry["lease"].is_null(), "only events expire: {entry}");
    let mut expected = made;
    expected["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(value, expected);

    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    assert_eq!(call(client, "POST", path, Some(role)).await.0, 201);
    assert_eq!(etcd.entry("/registry/roles/default/r").unwrap().1["kind"], "Role");
    assert_eq!(etcd.entry("/registry/namespaces/kube-system").unwrap().1["kind"], "Namespace");

    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Test", "type": "Normal",
        "involvedObject": {"kind": "ConfigMap", "name": "stored", "namespace": "default"},
    });
    let (code, answer) = call(client, "POST", "/api/v1/namespaces/default/events", Some(event)).await;
    assert_eq!(code, 201, "{answer}");
    let (entry, _) = etcd.entry("/registry/events/default/e").unwrap();
    // One lease may serve several events, so it lives a little longer than the hour.
    let seconds = etcd.granted_seconds(&entry["lease"]);
    assert!((3600..=3720).contains(&seconds), "{seconds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_through_two_servers_are_never_lost() {
    let Some(Pair { etcd: _etcd, servers: [one, two], folder: _folder }) = pair() else { return };
    let client = one.client().await;
    assert_eq!(call(&client, "POST", MAPS, Some(config_map("counter", "0"))).await.0, 201);
    let mut writers = Vec::new();
    for writer in 0..6 {
        let client = if writer % 2 == 0 { one.client().await } else { two.client().await };
        writers.push(tokio::spawn(async move { increment(&client, 40).await }));
    }
    let (mut won, mut lost) = (0, 0);
    for writer in writers {
        let (w, l) = writer.await.unwrap();
        won += w;
        lost += l;
    }
    let (_, counter) = call(&two.client().await, "GET", &format!("{MAPS}/counter"), None).await;
    assert_eq!(counter["data"]["value"], won.to_string());
    assert!(won > 0 && lost > 0, "{won} won, {lost} lost: this test needs both");
}

/// 64 managers apply to one object through both servers at the same time; one of them creates it, and what they want is all there.
#[tokio::test(flavor = "multi_thread")]
async fn applies_through_two_servers_all_arrive() {
    const MANAGERS: usize = 64;
    let Some(Pair { etcd, servers: [one, two], folder }) = pair() else { return };
    let clients = [one.client().await, two.client().await];
    let managers: Vec<_> = (0..MANAGERS)
        .map(|i| {
            let client = clients[i % 2].clone();
            tokio::spawn(async move {
                let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"},
                    "data": {format!("k{i}"): i.to_string()}});
                let maps: Api<ConfigMap> = Api::namespaced(client, "default");
                maps.patch("shared", &PatchParams::apply(&format!("m{i}")), &Patch::Apply(config))
                    .await
                    .unwrap();
            })
        })
        .collect();
    for manager in managers {
        manager.await.unwrap();
    }
    let complete = |object: &Value| {
        assert_eq!(object["data"].as_object().unwrap().len(), MANAGERS, "{object}");
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        for i in 0..MANAGERS {
            let own = json!({"f:data": {format!("f:k{i}"): {}}});
            let of = |entry: &&Value| entry["manager"] == format!("m{i}");
            assert_eq!(entries.iter().find(of).map(|entry| &entry["fieldsV1"]), Some(&own), "m{i}");
        }
        assert_eq!(entries.len(), MANAGERS);
    };
    let path = format!("{MAPS}/shared");
    let (_, shared) = call(&clients[1], "GET", &path, None).await;
    complete(&shared);
    // Who applies again after a server was killed changes nothing.
    one.kill();
    let one = Proc::start_with(&folder.path().join("one"), &["--store", &etcd.store()]);
    let maps: Api<ConfigMap> = Api::namespaced(one.client().await, "default");
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"k7": "7"}});
    let again = maps.patch("shared", &PatchParams::apply("m7"), &Patch::Apply(config)).await.unwrap();
    assert_eq!(again.metadata.resource_version.as_deref(), shared["metadata"]["resourceVersion"].as_str());
}

/// Tries to add one, a number of times; how often it worked and how often somebody else was first.
async fn increment(client: &kube::Client, times: usize) -> (usize, usize) {
    let path = format!("{MAPS}/counter");
    let (mut won, mut lost) = (0, 0);
    for _ in 0..times {
        let (_, mut counter) = call(client, "GET", &path, None).await;
        let value: usize = counter["data"]["value"].as_str().unwrap().parse().unwrap();
        counter["data"]["value"] = (value + 1).to_string().into();
        match call(client, "PUT", &path, Some(counter)).await {
            (200, _) => won += 1,
            (409, _) => lost += 1,
            other => panic!("{other:?}"),
        }
    }
    (won, lost)
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_recover_when_etcd_dies_and_comes_back() {
    let Some(Pair { mut etcd, servers: [one, two], folder: _folder }) = pair() else { return };
    let (a, b) = (one.client().await, two.client().await);
    let (_, before) = call(&a, "POST", MAPS, Some(config_map("before", "1"))).await;
    let mut watch =
        Watch::open(&b, &format!("{MAPS}?watch=1&resourceVersion={}", revision(&before))).await.unwrap();
    etcd.kill();
    // A write now is refused or its fate is unknown, but nobody says it worked.
    let (code, answer) = call(&a, "POST", MAPS, Some(config_map("meanwhile", "1"))).await;
    assert!(code >= 500, "{code} {answer}");
    etcd.restart();
    let mut names = vec!["before".to_owned()];
    for (number, client) in [&a, &b].into_iter().enumerate() {
        let name = format!("after-{number}");
        create_patiently(client, &name).await;
        names.push(name);
    }
    for client in [&a, &b] {
        let (_, list) = call(client, "GET", MAPS, None).await;
        let found: Vec<&str> = list["items"].as_array().unwrap().iter().map(name_of).collect();
        assert!(names.iter().all(|n| found.contains(&n.as_str())), "{found:?}");
    }
    // The watch either goes on where it was, or ends with 410.
    let mut seen = Vec::new();
    loop {
        let event = watch.next().await.unwrap().expect("it says 410 before it ends");
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410, "{event}");
            break;
        }
        seen.push(name_of(&event["object"]).to_owned());
        if seen.contains(&"after-0".to_owned()) && seen.contains(&"after-1".to_owned()) {
            break;
        }
    }
    one.stop();
    two.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stops_in_time_while_etcd_is_down() {
    let Some(Pair { mut etcd, servers: [mut one, _two], folder: _folder }) = pair() else { return };
    let client = one.client().await;
    etcd.kill();
    let hanging =
        tokio::spawn(async move { try_call(&client, "POST", MAPS, Some(config_map("x", "1"))).await });
    one.signal("TERM");
    assert!(one.ended_within(Duration::from_secs(6)).is_some_and(|s| s.success()), "{}", one.log());
    if let Ok(Ok((code, _))) = hanging.await {
        assert!(code >= 500, "{code}");
    }
}

#[test]
fn a_signal_ends_a_start_that_waits_for_etcd() {
    let folder = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("etcd:http://{}", silent.local_addr().unwrap());
    let mut server = Command::new(SETPOINT)
        .args(["server", "--listen", "127.0.0.1:0", "--store", &store, "--data-dir"])
        .arg(folder.path().join("data"))
        .spawn()
        .unwrap();
    // It has asked, so it listens for signals by now; it never gets an answer.
    let asked = silent.accept().unwrap();
    signal(server.id(), "TERM");
    let ended = wait(&mut server, Duration::from_secs(5));
    if ended.is_none() {
        server.kill().unwrap();
        server.wait().unwrap();
    }
    drop(asked);
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
}

async fn create_patiently(client: &kube::Client, name: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (code, answer) = call(client, "POST", MAPS, Some(config_map(name, "1"))).await;
        match code {
            201 => return,
            // An earlier try, answered with "unknown", has happened after all.
            409 => return,
            _ => assert!(code >= 500 && Instant::now() < deadline, "{code} {answer}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn node_port_service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn no_address_or_port_is_allocated_twice_through_two_servers() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let store = etcd.store();
    // Nearly all of both ranges is used, so that the servers choose the same ones again and again.
    let flags = [
        "--store",
        &store,
        "--service-cluster-ip-range",
        "10.11.12.0/26",
        "--service-node-port-range",
        "30000-30059",
    ];
    let servers = ["one", "two"].map(|name| Proc::start_with(&folder.path().join(name), &flags));
    let mut writers = Vec::new();
    for writer in 0..10 {
        let client = servers[writer % 2].client().await;
        writers.push(tokio::spawn(async move {
            let mut made = Vec::new();
            for n in 0..6 {
                let body = node_port_service(&format!("s-{writer}-{n}"));
                let (code, service) = call(&client, "POST", SERVICES, Some(body)).await;
                assert_eq!(code, 201, "{service}");
                made.push(service);
            }
            made
        }));
    }
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for writer in writers {
        for service in writer.await.unwrap() {
            addresses.insert(service["spec"]["clusterIP"].to_string());
            ports.insert(service["spec"]["ports"][0]["nodePort"].to_string());
        }
    }
    assert_eq!((addresses.len(), ports.len()), (60, 60));
    let (a, b) = (servers[0].client().await, servers[1].client().await);
    let (code, full) = call(&a, "POST", SERVICES, Some(node_port_service("full"))).await;
    assert_eq!((code, full["reason"].as_str()), (500, Some("InternalError")), "{full}");

    // One wanted address, asked for through both at once.
    assert_eq!(call(&a, "DELETE", &format!("{SERVICES}/s-0-0"), None).await.0, 200);
    let (_, list) = call(&b, "GET", "/apis/networking.k8s.io/v1/ipaddresses", None).await;
    let taken: BTreeSet<&str> =
        list["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect();
    let free = (2..=62).map(|n| format!("10.11.12.{n}")).find(|ip| !taken.contains(ip.as_str())).unwrap();
    let wanting = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"clusterIP": free, "ports": [{"port": 80}]}})
    };
    let (first, second) = tokio::join!(
        call(&a, "POST", SERVICES, Some(wanting("wants-a"))),
        call(&b, "POST", SERVICES, Some(wanting("wants-b"))),
    );
    let mut codes = [first.0, second.0];
    codes.sort();
    assert_eq!(codes, [201, 422], "{} {}", first.1, second.1);

    // Both servers are behind the kubernetes service, on their own ports.
    let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let (code, found) = call(&a, "GET", endpoints, None).await;
        let servers = found["subsets"].as_array().map_or(0, Vec::len);
        if code == 200 && servers == 2 {
            break;
        }
        // A machine without an address of its own advertises none.
        if code == 404 && no_address_but_loopback() {
            break;
        }
        assert!(Instant::now() < deadline, "{found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn no_address_but_loopback() -> bool {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    routes.lines().count() < 2
}
