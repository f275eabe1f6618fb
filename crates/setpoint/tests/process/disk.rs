//! Disks that cannot be written, or no longer: real file systems, so these need root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use store::testing::MapState;
use store::{Commit, DiskEngine, DiskOptions, Op};

use crate::cli::no_server;
use crate::harness::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A small file system in memory, gone when dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: &Path, options: &str) -> Option<Tmpfs> {
        std::fs::create_dir_all(at).unwrap();
        let mounted =
            run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "setpoint-test"]).arg(at));
        if !mounted.status.success() {
            skipped("mounting a small file system needs root");
            return None;
        }
        Some(Tmpfs(at.to_owned()))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(run(Command::new("mount").args(["-o", &options]).arg(&self.0)).status.success(), "{options}");
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_read_only_disk_is_refused_in_one_line() {
    let folder = folder();
    let at = folder.path().join("disk");
    let Some(disk) = Tmpfs::mount(&at, "size=8m") else { return };
    let data = at.join("data");
    Proc::start(&data).stop();
    disk.remount("ro");
    for dir in [&data, &at.join("new")] {
        let line = no_server(dir, &[]);
        assert!(line.to_lowercase().contains("read-only file system"), "{line}");
        assert!(line.contains("choose another"), "{line}");
    }
    disk.remount("rw");
    Proc::start(&data).stop();
}

#[test]
fn a_full_disk_is_refused_in_one_line() {
    let folder = folder();
    let at = folder.path().join("disk");
    let Some(disk) = Tmpfs::mount(&at, "size=64k") else { return };
    std::fs::write(at.join("ballast"), vec![0; 60 * 1024]).unwrap();
    let line = no_server(&at.join("data"), &[]);
    assert!(line.contains("full: free some space"), "{line}");
    disk.remount("size=8m");
    Proc::start(&at.join("data")).stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_stops_the_server_and_loses_nothing_acknowledged() {
    let folder = folder();
    let at = folder.path().join("disk");
    let Some(disk) = Tmpfs::mount(&at, "size=2m") else { return };
    let data = at.join("data");
    let mut server = Proc::start(&data);
    let client = server.client().await;
    let mut acknowledged = Vec::new();
    let long = "x".repeat(100_000);
    for number in 0..100 {
        let name = format!("big-{number}");
        let (code, answer) = call(&client, "POST", MAPS, Some(config_map(&name, &long))).await;
        if code != 201 {
            // The fate of this very write is unknown, and the server says so.
            assert_eq!(code, 504, "{answer}");
            break;
        }
        acknowledged.push((name, revision(&answer)));
    }
    assert!(!acknowledged.is_empty() && acknowledged.len() < 100);
    let status = server.ended_within(Duration::from_secs(15)).expect("it stops by itself");
    assert_eq!(status.code(), Some(1));
    let log = server.log();
    let last = log.lines().last().unwrap_or_default();
    assert!(last.starts_with("setpoint: ") && last.contains("free some space"), "{log}");
    drop(server);

    disk.remount("size=16m");
    let server = Proc::start(&data);
    let client = server.client().await;
    for (name, revision_then) in acknowledged {
        let (code, found) = call(&client, "GET", &format!("{MAPS}/{name}"), None).await;
        assert_eq!((code, revision(&found)), (200, revision_then), "{name}");
    }
    assert_eq!(call(&client, "POST", MAPS, Some(config_map("after", "1"))).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_fsync_is_never_acknowledged_and_stops_the_server() {
    if !available("strace") {
        return;
    }
    let folder = folder();
    let data = folder.path().join("data");
    let mut server = Proc::start(&data);
    let client = server.client().await;
    let (code, kept) = call(&client, "POST", MAPS, Some(config_map("kept", "1"))).await;
    assert_eq!(code, 201);
    let Some(mut faults) = failing_disk(&server, &folder.path().join("strace")) else { return };
    let (code, answer) = call(&client, "POST", MAPS, Some(config_map("lost", "1"))).await;
    assert_eq!(code, 504, "{answer}");
    // Not even a read may show what is not safe on disk, and no later write is taken.
    if let Ok((code, _)) = try_call(&client, "GET", &format!("{MAPS}/lost"), None).await {
        assert_ne!(code, 200);
    }
    if let Ok((code, _)) = try_call(&client, "POST", MAPS, Some(config_map("later", "1"))).await {
        assert!(code >= 500, "{code}");
    }
    let status = server.ended_within(Duration::from_secs(15));
    let _ = faults.kill();
    let _ = faults.wait();
    assert_eq!(status.expect("it stops by itself").code(), Some(1), "{}", server.log());
    drop(server);

    let server = Proc::start(&data);
    assert_eq!(call(&server.client().await, "GET", &format!("{MAPS}/kept"), None).await, (200, kept));
}

/// From now on the server's fsyncs fail, as on a dying disk.
fn failing_disk(server: &Proc, log: &Path) -> Option<Child> {
    let mut strace = Command::new("strace")
        .args([
            "-f",
            "-e",
            "trace=fsync,fdatasync,pwrite64",
            "-e",
            // Only the store writes at offsets; where it can, that is what makes a batch durable.
            "inject=fsync,fdatasync,pwrite64:error=EIO",
            "-o",
            "/dev/null",
        ])
        .args(["-p", &server.id().to_string()])
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(log).unwrap_or_default();
    wait_until("strace has attached", || {
        said().contains(" attached") || strace.try_wait().unwrap().is_some()
    });
    if strace.try_wait().unwrap().is_some() {
        skipped(&format!("strace cannot attach here: {}", said().trim().replace('\n', " ")));
        return None;
    }
    Some(strace)
}

/// Writes to the store of a server that does not run, past everything that looks at values.
async fn write(data: &Path, snapshot_log_bytes: u64, key: &str, op: Op) {
    let options = DiskOptions { snapshot_log_bytes };
    let engine = DiskEngine::open(&data.join("store"), Arc::new(MapState::default()), options).unwrap();
    engine.commit(Commit { guards: vec![], ops: vec![(key.into(), op)] }).await.unwrap();
    engine.close().await;
}

/// All that was ever written, by name: logs and snapshots.
fn files_of(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(data.join("store")).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Sound bytes, as a newer version might write them: nothing is wrong with the disk, so nothing may be thrown away.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_no_object_is_refused_in_one_line_and_kept() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start(&data);
    let (_, kept) = call(&server.client().await, "POST", MAPS, Some(config_map("kept", "1"))).await;
    server.stop();
    let key = "/registry/configmaps/default/new";
    for value in [&b"\x01\x02 a form of tomorrow"[..], b"", b"[]", b"k8s\0\n\x0f"] {
        // In the log, and then in the snapshot that takes its place.
        for snapshot_log_bytes in [1 << 30, 0] {
            let put = Op::Put { value: value.to_vec().into(), expires_at: None };
            write(&data, snapshot_log_bytes, key, put).await;
            let before = files_of(&data);
            for _ in 0..2 {
                let line = no_server(&data, &[]);
                for part in [key, "JSON", "newer version", "setpoint restore", "--data-dir"] {
                    assert!(line.contains(part), "{line:?} does not say {part:?}");
                }
            }
            let after = files_of(&data);
            for (path, bytes) in &before {
                assert_eq!(after.get(path), Some(bytes), "{} stays as it was", path.display());
            }
        }
    }
    write(&data, 1 << 30, key, Op::Delete).await;
    let server = Proc::start(&data);
    let client = server.client().await;
    assert_eq!(call(&client, "GET", &format!("{MAPS}/kept"), None).await, (200, kept));
    server.stop();
}
