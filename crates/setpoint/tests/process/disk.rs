//! Disks that cannot be written, from the start or later: real file systems, so these need root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
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

/// Creates large objects until one is refused.
async fn fill(client: &kube::Client, prefix: &str, kept: &mut BTreeMap<String, u64>) -> Value {
    let long = "x".repeat(100_000);
    for number in 0..200 {
        let name = format!("{prefix}-{number}");
        let (code, answer) = call(client, "POST", MAPS, Some(config_map(&name, &long))).await;
        match code {
            201 => kept.insert(name, revision(&answer)),
            507 => return answer,
            _ => panic!("{code} {answer}"),
        };
    }
    panic!("a disk that takes everything")
}

/// Until a write is taken again; the server looks for room by itself.
async fn create_in_the_end(client: &kube::Client, name: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let (code, answer) = call(client, "POST", MAPS, Some(config_map(name, "1"))).await;
        if code == 201 {
            return;
        }
        assert!(code == 507 && std::time::Instant::now() < deadline, "{code} {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_reads_watches_and_deletions_go_on_and_writing_resumes_by_itself() {
    let folder = folder();
    let at = folder.path().join("disk");
    let Some(disk) = Tmpfs::mount(&at, "size=6m") else { return };
    let data = at.join("data");
    let mut kept = BTreeMap::new();
    let mut server = Proc::start(&data);
    for killed in [false, true] {
        let client = server.client().await;
        let held = format!("held-{killed}");
        let mut object = config_map(&held, "1");
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let (code, made) = call(&client, "POST", MAPS, Some(object)).await;
        assert_eq!(code, 201, "{made}");
        let path = format!(
            "{MAPS}?watch=1&resourceVersion={}&fieldSelector=metadata.name%3D{held}",
            revision(&made)
        );
        let mut watch = Watch::open(&client, &path).await.unwrap();
        let refused = fill(&client, &format!("big-{killed}"), &mut kept).await;
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.starts_with("etcdserver: mvcc: database space exceeded: the disk that holds"),
            "{message}"
        );
        assert!(message.contains("free some space or delete objects"), "{message}");
        assert_eq!(
            (refused["reason"].as_str(), refused["code"].as_u64()),
            (Some("InsufficientStorage"), Some(507))
        );

        // Alive and ready, and the checks report it.
        for path in ["/livez", "/readyz", "/healthz"] {
            assert_eq!(call(&client, "GET", path, None).await.0, 200, "{path}");
        }
        let (_, said) = call(&client, "GET", "/readyz?verbose", None).await;
        assert!(said.as_str().unwrap().contains("[-]disk-space failed"), "{said}");
        let (code, said) = call(&client, "GET", "/readyz/disk-space", None).await;
        assert!(code == 500 && said.as_str().unwrap().contains("is full"), "{said}");

        // A deletion in two steps, both seen by watches.
        let one = format!("{MAPS}/{held}");
        let (code, going) = call(&client, "DELETE", &one, None).await;
        assert_eq!((code, going["metadata"]["deletionTimestamp"].is_string()), (200, true), "{going}");
        let (code, answer) =
            call(&client, "PATCH", &one, Some(json!({"metadata": {"finalizers": null}}))).await;
        assert_eq!(code, 200, "{answer}");
        for want in ["MODIFIED", "DELETED"] {
            assert_eq!(watch.next().await.unwrap().expect("an open watch")["type"], want);
        }

        // A start on the full disk, after a proper stop and after none.
        if killed {
            server.kill()
        } else {
            server.stop()
        }
        server = Proc::start(&data);
        let client = server.client().await;
        let (code, list) = call(&client, "GET", MAPS, None).await;
        assert_eq!(code, 200);
        let names = |list: &Value| {
            list["items"].as_array().unwrap().iter().map(revision_and_name).collect::<BTreeMap<_, _>>()
        };
        let found = names(&list);
        for (name, revision) in &kept {
            assert_eq!(found.get(name), Some(revision), "{name}");
        }
        // Deletions make room.
        let going: Vec<String> = kept.keys().filter(|name| name.starts_with("big-")).cloned().collect();
        for name in &going[..going.len() - 2] {
            let (code, answer) = call(&client, "DELETE", &format!("{MAPS}/{name}"), None).await;
            assert_eq!(code, 200, "{answer}");
            kept.remove(name);
        }
        create_in_the_end(&client, &format!("after-{killed}")).await;
    }
    disk.remount("size=16m");
    let client = server.client().await;
    create_in_the_end(&client, "last").await;
    assert_eq!(call(&client, "GET", "/readyz/disk-space", None).await.0, 200);
    server.stop();
    let server = Proc::start(&data);
    let client = server.client().await;
    for (name, then) in kept {
        let (code, found) = call(&client, "GET", &format!("{MAPS}/{name}"), None).await;
        assert_eq!((code, revision(&found)), (200, then), "{name}");
    }
}

fn revision_and_name(object: &Value) -> (String, u64) {
    (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), revision(object))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_cut_after_a_proper_stop_is_refused_in_one_line_until_it_is_repaired() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start(&data);
    let client = server.client().await;
    for number in 0..20 {
        let name = format!("map-{number}");
        assert_eq!(call(&client, "POST", MAPS, Some(config_map(&name, "1"))).await.0, 201);
    }
    let (_, list) = call(&client, "GET", MAPS, None).await;
    let highest = revision(&list);
    server.stop();
    let mut logs = files_of(&data).into_iter().filter(|(path, _)| path.to_str().unwrap().contains("log-"));
    let (log, whole) = logs.next_back().unwrap();
    let length = whole.len();
    for cut in [length - 1, length - 512, length - 5_000, length / 2, 512, 0] {
        std::fs::write(&log, &whole[..cut]).unwrap();
        for _ in 0..2 {
            let line = no_server(&data, &[]);
            for part in ["was truncated", "setpoint restore", "setpoint repair"] {
                assert!(line.contains(part), "{cut}: {line:?} does not say {part:?}");
            }
        }
    }
    std::fs::write(&log, &whole).unwrap();
    Proc::start(&data).stop();
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() / 2]).unwrap();
    let done = run(Command::new(SETPOINT).args(["repair", "--data-dir"]).arg(&data));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let server = Proc::start(&data);
    let (_, list) = call(&server.client().await, "GET", MAPS, None).await;
    assert!(revision(&list) > highest, "{} after {highest}", revision(&list));
    server.stop();
}

#[test]
fn the_data_directory_of_another_user_is_refused_and_left_as_it_is() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        skipped("to be another user needs root");
        return;
    }
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Where another user may run it from.
    let program = folder.path().join("setpoint");
    std::fs::copy(SETPOINT, &program).unwrap();
    let data = folder.path().join("data");
    Proc::start(&data).stop();
    // A directory nobody else may enter, and one they may look into.
    for mode in [0o700, 0o755] {
        for dir in [data.clone(), data.join("store")] {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let before = files_of(&data);
        let mut command = Command::new(&program);
        command.args(["server", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data).uid(65534).gid(65534);
        let ended = run(&mut command);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && said.trim().lines().count() == 1, "{said}");
        assert!(said.to_lowercase().contains("permission"), "{said}");
        assert_eq!(files_of(&data), before);
    }
    Proc::start(&data).stop();
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
    // 503 if a write of the server's own met the failure first.
    assert!([503, 504].contains(&code), "{answer}");
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
    let options = DiskOptions { snapshot_log_bytes, ..DiskOptions::default() };
    let engine = DiskEngine::open(&data.join("store"), Arc::new(MapState::default()), options).unwrap();
    engine.commit(Commit { guards: vec![], ops: vec![(key.into(), op)], removal: false }).await.unwrap();
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
