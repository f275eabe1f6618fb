//! Definitions of custom resources on servers that are killed, and on two servers with one etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::etcd_server::Etcd;
use crate::harness::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.example.io";
const GEARS: &str = "/apis/example.io/v1/namespaces/default/gears";
const PREFIX: &str = "/registry/example.io/gears/";

fn crd(scope: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.io"},
        "spec": {"group": "example.io", "scope": scope,
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "teeth": {"type": "integer"}}}}}}}]}})
}

fn gear(name: &str) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Gear", "metadata": {"name": name}, "spec": {"teeth": 12}})
}

async fn until(client: &kube::Client, path: &str, code: u16) -> Value {
    let mut last = Value::Null;
    for _ in 0..4000 {
        let (now, answer) = call(client, "GET", path, None).await;
        if now == code {
            return answer;
        }
        last = answer;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{path} never answers {code}: {last}");
}

async fn made(client: &kube::Client, path: &str, body: Value) {
    let (code, answer) = call(client, "POST", path, Some(body)).await;
    assert_eq!(code, 201, "{answer}");
}

/// Killed when the definition is written and perhaps not established; killed when some of its objects are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_between_the_steps_of_a_definition_goes_on_at_its_next_start() {
    let folder = folder();
    let mut server = Proc::start(folder.path());
    for round in 0..rounds(3, 30) {
        let client = server.client().await;
        made(&client, CRDS, crd("Namespaced")).await;
        server.kill();
        server = Proc::start(folder.path());
        let client = server.client().await;
        until(&client, GEARS, 200).await;
        for number in 0..20 {
            made(&client, GEARS, gear(&format!("g{number}"))).await;
        }
        let mut held = gear("held");
        held["metadata"]["finalizers"] = json!(["example.io/hold"]);
        made(&client, GEARS, held).await;
        let (code, deleted) = call(&client, "DELETE", CRD, None).await;
        assert_eq!(code, 200, "{deleted}");
        server.kill();
        server = Proc::start(folder.path());
        let client = server.client().await;
        // It is still served, so that the finalizer can be taken away, and lets nothing new in.
        let (code, refused) = call(&client, "POST", GEARS, Some(gear("late"))).await;
        assert_eq!(code, 403, "{refused}");
        for number in 0..20 {
            until(&client, &format!("{GEARS}/g{number}"), 404).await;
        }
        let free = json!({"metadata": {"finalizers": null}});
        assert_eq!(
            call(&client, "PATCH", &format!("{GEARS}/held"), Some(free)).await.0,
            200,
            "round {round}"
        );
        until(&client, CRD, 404).await;
    }
    let client = server.client().await;
    made(&client, CRDS, crd("Namespaced")).await;
    assert_eq!(until(&client, GEARS, 200).await["items"], json!([]), "nothing of before is left");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_etcd_agree_on_definitions_and_leave_no_object() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let server = |name: &str| Proc::start_with(&folder.path().join(name), &["--store", &etcd.store()]);
    let (one, two) = (server("one"), server("two"));
    let (a, b) = (one.client().await, two.client().await);

    // The other server is stopped while a definition is made, and objects of it.
    two.signal("STOP");
    made(&a, CRDS, crd("Namespaced")).await;
    until(&a, GEARS, 200).await;
    for number in 0..10 {
        made(&a, GEARS, gear(&format!("early{number}"))).await;
    }
    two.signal("CONT");
    let seen = until(&b, GEARS, 200).await;
    assert_eq!(seen["items"].as_array().map(Vec::len), Some(10));
    assert_eq!(
        call(&b, "GET", &format!("{GEARS}/early3"), None).await,
        call(&a, "GET", &format!("{GEARS}/early3"), None).await
    );

    for round in 0..rounds(4, 20) {
        // The other creates objects all the while; it may see the deletion late.
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (b, stop, count) = (b.clone(), stop.clone(), count.clone());
                tokio::spawn(async move {
                    let mut number = 0;
                    while !stop.load(Ordering::Relaxed) {
                        number += 1;
                        let name = format!("r{round}-w{writer}-{number}");
                        match call(&b, "POST", GEARS, Some(gear(&name))).await {
                            (201, _) => _ = count.fetch_add(1, Ordering::Relaxed),
                            (403 | 404 | 503, _) => {}
                            (code, answer) => panic!("{code}: {answer}"),
                        }
                    }
                })
            })
            .collect();
        while count.load(Ordering::Relaxed) < 50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if round % 2 == 1 {
            two.signal("STOP");
        }
        assert_eq!(call(&a, "DELETE", CRD, None).await.0, 200);
        until(&a, CRD, 404).await;
        two.signal("CONT");
        until(&b, GEARS, 404).await;
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(etcd.count(PREFIX), 0, "round {round}");
        // At once again, with another scope, through the other server.
        let cluster_scoped = "/apis/example.io/v1/gears";
        made(&b, CRDS, crd("Cluster")).await;
        for client in [&b, &a] {
            assert_eq!(until(client, cluster_scoped, 200).await["items"], json!([]));
        }
        made(&a, cluster_scoped, gear("wide")).await;
        assert_eq!(call(&b, "GET", &format!("{cluster_scoped}/wide"), None).await.0, 200);
        assert_eq!(call(&b, "DELETE", CRD, None).await.0, 200);
        until(&a, CRD, 404).await;
        assert_eq!(etcd.count(PREFIX), 0, "round {round}");
        made(&a, CRDS, crd("Namespaced")).await;
        for client in [&a, &b] {
            until(client, GEARS, 200).await;
        }
    }
    one.stop();
    two.stop();
}
