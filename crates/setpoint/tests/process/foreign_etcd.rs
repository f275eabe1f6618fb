//! An etcd with somebody else's values: refused in one line, and left as it was.

use std::process::{Command, Stdio};

use crate::cli::no_server;
use crate::etcd_server::Etcd;
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
fn what_others_write_under_names_of_their_own_is_no_hindrance() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    etcd.put("/registry/masterleases/10.0.0.1", PROTOBUF);
    etcd.put("/elsewhere/namespaces/default", PROTOBUF);
    Proc::start_with(&folder.path().join("data"), &["--store", &etcd.store()]).stop();
}

/// Another writer breaks a value the server keeps: nothing spins, the server goes on and ends when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_breaks_while_the_server_runs_harms_nothing_else() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let server = Proc::start_with(&folder.path().join("data"), &["--store", &etcd.store()]);
    etcd.put("/registry/ranges/servicenodeports", PROTOBUF);
    let client = server.client().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(call(&client, "POST", maps, Some(config_map("after", "1"))).await.0, 201);
    server.stop();
}

#[test]
fn a_signal_before_the_server_is_ready_ends_it_cleanly() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let data = folder.path().join("data");
    let mut child = Command::new(SETPOINT)
        .args(["server", "--listen", "127.0.0.1:0", "--store", &etcd.store(), "--data-dir"])
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The store is loaded, and the cluster's first objects are about to be written: to an etcd that stands still.
    wait_until("the store is open", || {
        data.join("pki/ca.crt").exists() || child.try_wait().unwrap().is_some()
    });
    signal(etcd.id(), "STOP");
    signal(child.id(), "TERM");
    let ended = wait(&mut child, PATIENCE);
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    signal(etcd.id(), "CONT");
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
}
