//! An etcd with values of other programs: refused in one line, reported to readers, and left unchanged.

use std::process::{Command, Stdio};

use crate::cli::no_server;
use crate::etcd_server::{Between, Etcd};
use crate::harness::*;

const PROTOBUF: &[u8] = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\0";

#[test]
fn values_that_are_no_objects_are_refused_at_the_start() {
    let folder = folder();
    for (number, (key, value, says)) in [
        ("/registry/ranges/servicenodeports", PROTOBUF, "in protobuf, as kube-apiserver writes it"),
        ("/registry/namespaces/default", PROTOBUF, "in protobuf"),
        ("/registry/configmaps/default/a", &b"not JSON"[..], "no object"),
        ("/registry/configmaps/default/b", &b""[..], "no object"),
    ]
    .into_iter()
    .enumerate()
    {
        let Some(etcd) = Etcd::start(&folder.path().join(format!("etcd{number}"))) else { return };
        etcd.put(key, value);
        let data = folder.path().join(format!("data{number}"));
        let line = no_server(&data, &["--store", &etcd.store()]);
        for part in [key, says, "--store etcd:URL", "--storage-media-type=application/json"] {
            assert!(line.contains(part), "{line:?} does not say {part:?}");
        }
        assert_eq!(etcd.bytes(key).as_deref(), Some(value), "it stays as it was");
        assert_eq!(etcd.bytes("/registry/namespaces/kube-system"), None, "and nothing is written beside it");
        // Nor is anything noted of it: another etcd may be named now.
        assert!(!data.join("etcd-revision").exists());
    }
}

#[test]
fn keys_of_unknown_resources_are_ignored() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    etcd.put("/registry/masterleases/10.0.0.1", PROTOBUF);
    etcd.put("/elsewhere/namespaces/default", PROTOBUF);
    Proc::start_with(&folder.path().join("data"), &["--store", &etcd.store()]).stop();
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BROKEN: &str = "/registry/configmaps/default/broken";

/// The one thing that is never done: to go on with the last that could be read, as if it were the newest.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_breaks_at_run_time_fails_its_readers_until_it_is_repaired() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let server = Proc::start_with(&folder.path().join("data"), &["--store", &etcd.store()]);
    let client = server.client().await;
    let (code, made) = call(&client, "POST", MAPS, Some(config_map("broken", "1"))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(call(&client, "POST", MAPS, Some(config_map("whole", "1"))).await.0, 201);
    let watch_from = |revision: u64, name: &str| {
        format!("{MAPS}?watch=1&resourceVersion={revision}&fieldSelector=metadata.name%3D{name}")
    };
    let mut watch = Watch::open(&client, &watch_from(revision(&made), "broken")).await.unwrap();
    let mut other = Watch::open(&client, &watch_from(revision(&made), "whole")).await.unwrap();
    let stored = etcd.bytes(BROKEN).unwrap();

    for (value, says) in [(PROTOBUF, "in protobuf, as kube-apiserver writes it"), (b"not JSON", "no object")]
    {
        etcd.put(BROKEN, value);
        let one = format!("{MAPS}/broken");
        let again = Some(config_map("broken", "2"));
        let patch = Some(serde_json::json!({"data": {"value": "2"}}));
        let named = format!("{MAPS}?fieldSelector=metadata.name%3Dbroken");
        let asked = [
            ("GET", one.as_str(), None),
            ("PUT", &one, again.clone()),
            ("PATCH", &one, patch),
            // Nothing would change, if what was read last were still there.
            ("PATCH", &one, Some(serde_json::json!({}))),
            ("DELETE", &one, None),
            ("GET", MAPS, None),
            ("GET", &named, None),
            ("GET", "/api/v1/configmaps", None),
            ("DELETE", MAPS, None),
        ];
        for (method, path, body) in asked {
            let (code, refused) = call(&client, method, path, body).await;
            assert_eq!(
                (code, &refused["reason"]),
                (500, &"InternalError".into()),
                "{method} {path}: {refused}"
            );
            let message = refused["message"].as_str().unwrap();
            for part in [BROKEN, says, "delete that key"] {
                assert!(message.contains(part), "{method} {path}: {message:?} does not say {part:?}");
            }
        }
        assert_eq!(call(&client, "POST", MAPS, again).await.0, 409, "it exists");
        assert_eq!(etcd.bytes(BROKEN).as_deref(), Some(value), "nobody writes over it");
    }
    // Its watch has ended, and no other begins: what it would show is not what stands there.
    assert_eq!(watch.next().await.unwrap().unwrap()["object"]["code"], 410);
    assert_eq!(Watch::open(&client, &watch_from(revision(&made), "broken")).await.err(), Some(500));
    // The log says which key it is, and what to do.
    let log = server.log();
    let line =
        log.lines().find(|line| line.contains("ERROR") && line.contains(BROKEN)).expect("a line about it");
    assert!(line.contains("until that key is fixed or deleted"), "{line}");

    // Whoever asks for something else is served, and sees what changes.
    assert_eq!(call(&client, "GET", &format!("{MAPS}/whole"), None).await.0, 200);
    assert_eq!(call(&client, "GET", "/api/v1/namespaces/kube-system/configmaps", None).await.0, 200);
    assert_eq!(call(&client, "PUT", &format!("{MAPS}/whole"), Some(config_map("whole", "2"))).await.0, 200);
    assert_eq!(other.next().await.unwrap().unwrap()["type"], "ADDED");
    assert_eq!(other.next().await.unwrap().unwrap()["object"]["data"]["value"], "2");
    assert_eq!(call(&client, "GET", "/readyz", None).await.0, 200);

    // Mended: all is as it was, and who goes on where the watch ended misses nothing.
    etcd.put(BROKEN, &stored);
    let (code, mended) = call(&client, "GET", &format!("{MAPS}/broken"), None).await;
    assert_eq!((code, &mended["data"]["value"]), (200, &"1".into()), "{mended}");
    assert!(revision(&mended) > revision(&made));
    assert_eq!(call(&client, "GET", MAPS, None).await.0, 200);
    let mut watch = Watch::open(&client, &watch_from(revision(&made), "broken")).await.unwrap();
    let event = watch.next().await.unwrap().unwrap();
    assert_eq!((&event["type"], &event["object"]), (&"MODIFIED".into(), &mended));

    // Broken again, and deleted: that is seen, too.
    etcd.put(BROKEN, b"[]");
    assert_eq!(watch.next().await.unwrap().unwrap()["object"]["code"], 410);
    etcd.delete(BROKEN);
    assert_eq!(call(&client, "GET", &format!("{MAPS}/broken"), None).await.0, 404);
    let mut watch = Watch::open(&client, &watch_from(revision(&mended), "broken")).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap()["type"], "DELETED");
    server.stop();
}

/// What the server keeps for itself breaks: what needs it is refused, at once and in words; nothing spins, all else goes on.
#[tokio::test(flavor = "multi_thread")]
async fn node_ports_are_not_allocated_while_their_bitmap_is_unreadable() {
    const PORTS: &str = "/registry/ranges/servicenodeports";
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let server = Proc::start_with(&folder.path().join("data"), &["--store", &etcd.store()]);
    let client = server.client().await;
    let service = |name: &str, kind: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": kind, "ports": [{"port": 80}]}})
    };
    let (_, first) = call(&client, "POST", SERVICES, Some(service("first", "NodePort"))).await;
    let stored = etcd.bytes(PORTS).unwrap();
    etcd.put(PORTS, PROTOBUF);
    for (method, path) in [("POST", SERVICES.to_owned()), ("DELETE", format!("{SERVICES}/first"))] {
        let body = (method == "POST").then(|| service("second", "NodePort"));
        let (code, refused) = call(&client, method, &path, body).await;
        assert_eq!(code, 500, "{method}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains(PORTS), "{method}: {refused}");
    }
    assert_eq!(etcd.bytes(PORTS).as_deref(), Some(PROTOBUF), "it stays as it was");
    assert_eq!(call(&client, "POST", SERVICES, Some(service("plain", "ClusterIP"))).await.0, 201);
    assert_eq!(call(&client, "POST", MAPS, Some(config_map("after", "1"))).await.0, 201);
    etcd.put(PORTS, &stored);
    let (code, second) = call(&client, "POST", SERVICES, Some(service("second", "NodePort"))).await;
    assert_eq!(code, 201, "{second}");
    let port = |service: &serde_json::Value| service["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert_ne!(port(&second), port(&first));
    server.stop();
}

/// The store is loaded, and the first of the cluster's own objects is on its way to an etcd that does not get it.
#[test]
fn a_signal_before_the_server_is_ready_ends_it_cleanly() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let between = Between::start(etcd.port());
    let data = folder.path().join("data");
    let mut child = Command::new(SETPOINT)
        .args(["server", "--listen", "127.0.0.1:0", "--store", &between.store(), "--data-dir"])
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let writes = between.first_write(PATIENCE);
    if writes {
        signal(child.id(), "TERM");
    }
    let ended = wait(&mut child, PATIENCE);
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(writes, "it ended before it wrote: {ended:?}");
    // Without an ear for the signal it would have waited for etcd, and then said that it does not answer.
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
    assert_eq!(etcd.bytes("/registry/namespaces/kube-system"), None, "it was about to begin");
    assert!(!data.join("admin.kubeconfig").exists(), "nobody was told that it is ready");
}
