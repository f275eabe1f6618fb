//! Real file systems that are full, or become read-only: reads go on, deletions too, and writing resumes by itself.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use store::testing::MapState;
use store::{Commit, CommitError, DiskEngine, DiskOptions, Engine, Guard, Key, Op, Revision};

use crate::process::{LoopMount, Said, check, start, writer};

/// Fills what is left of a file system, and gives it back.
struct Ballast(PathBuf);

impl Ballast {
    fn fill(dir: &Path) -> Ballast {
        let path = dir.join("ballast");
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        for size in [64 << 10, 4096, 512, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        file.sync_all().unwrap();
        Ballast(path)
    }

    fn remove(self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn put(key: &str, bytes: usize) -> Commit {
    let value = vec![b'v'; bytes].into();
    Commit { ops: vec![(key.into(), Op::Put { value, expires_at: None })], ..Commit::default() }
}

fn delete(key: &Key) -> Commit {
    let guards = vec![(key.clone(), Guard::Present)];
    Commit { guards, ops: vec![(key.clone(), Op::Delete)], removal: false }
}

fn open(dir: &Path) -> (Arc<dyn Engine>, Arc<MapState>) {
    let state = Arc::new(MapState::default());
    let engine = DiskEngine::open(dir, state.clone(), DiskOptions::default()).unwrap();
    (engine, state)
}

/// Until the engine accepts it: it looks for space by itself, when it is asked.
#[allow(clippy::disallowed_methods)] // A real disk, in the machine's time.
async fn in_the_end(engine: &dyn Engine, commit: Commit) -> Revision {
    for _ in 0..3000 {
        match engine.commit(commit.clone()).await {
            Err(CommitError::NoSpace(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            done => return done.unwrap(),
        }
    }
    panic!("waited in vain for space for {:?}: {:?}", commit.ops[0].0, engine.full());
}

async fn refused(engine: &dyn Engine, commit: Commit) -> String {
    match engine.commit(commit).await {
        Err(CommitError::NoSpace(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_reads_and_deletions_go_on_and_writing_resumes_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = LoopMount::made(root.path(), 16 << 20, &[]) else { return };
    let data = disk.dir.join("data");
    let (engine, state) = open(&data);
    for n in 0..40 {
        engine.commit(put(&format!("small/{n}"), 2000)).await.unwrap();
    }
    let ballast = Ballast::fill(&disk.dir);
    // What is written ahead is used up first.
    let mut written = 0;
    let why = loop {
        match engine.commit(put(&format!("big/{written}"), 50_000)).await {
            Ok(_) => written += 1,
            Err(CommitError::NoSpace(why)) => break why,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(why.contains("is full: free some space or delete objects"), "{why}");
    assert!(engine.full().is_some() && engine.health().is_ok() && engine.failed().is_none());
    let before = state.revision();
    assert_eq!(engine.barrier().await.unwrap(), before);
    assert_eq!(state.get(&format!("big/{written}")), None);
    for n in 0..30 {
        engine.commit(delete(&format!("small/{n}").into())).await.unwrap();
    }
    assert_eq!(state.revision().0, before.0 + 30);
    ballast.remove();
    let revision = in_the_end(&*engine, put("more", 50_000)).await;
    assert_eq!((revision, engine.full()), (state.revision(), None));
    engine.close().await;
    let (engine, found) = open(&data);
    assert_eq!(found.entries(""), state.entries(""));
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_on_a_full_disk_serves_reads_and_deletions() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = LoopMount::made(root.path(), 16 << 20, &[]) else { return };
    let stores = [(disk.dir.join("stopped"), true), (disk.dir.join("killed"), false)];
    for (data, stopped) in &stores {
        let (engine, _) = open(data);
        for n in 0..40 {
            engine.commit(put(&format!("k/{n}"), 5000)).await.unwrap();
        }
        engine.close().await;
        if !stopped {
            std::fs::write(data.join("LOCK"), b"pid 1          \n").unwrap();
        }
    }
    for (data, _) in &stores {
        // Again each time: what is deleted frees space.
        Ballast::fill(&disk.dir);
        let (engine, state) = open(data);
        assert_eq!((state.entries("").len(), state.revision()), (40, Revision(41)));
        refused(&*engine, put("more", 50_000)).await;
        for n in 0..20 {
            engine.commit(delete(&format!("k/{n}").into())).await.unwrap();
        }
        engine.close().await;
    }
    Ballast(disk.dir.join("ballast")).remove();
    for (data, _) in &stores {
        let (engine, state) = open(data);
        assert_eq!((state.entries("").len(), state.revision()), (20, Revision(61)));
        in_the_end(&*engine, put("more", 50_000)).await;
        engine.close().await;
    }
}

/// Nothing else frees space: what was deleted does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_of_our_own_objects_has_room_again_when_they_are_deleted() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = LoopMount::made(root.path(), 8 << 20, &["-O", "^has_journal"]) else { return };
    let (engine, state) = open(&disk.dir.join("data"));
    let mut keys: Vec<Key> = Vec::new();
    loop {
        let key: Key = format!("big/{}", keys.len()).into();
        match engine.commit(put(&key, 60_000)).await {
            Ok(_) => keys.push(key),
            Err(CommitError::NoSpace(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(keys.len() > 50, "{}", keys.len());
    let kept = keys.split_off(keys.len() - 10);
    for key in &keys {
        in_the_end(&*engine, delete(key)).await;
    }
    in_the_end(&*engine, put("after", 60_000)).await;
    engine.close().await;
    let (engine, found) = open(&disk.dir.join("data"));
    assert_eq!(found.entries(""), state.entries(""));
    assert_eq!(found.entries("").len(), kept.len() + 1);
    engine.close().await;
}

#[tokio::test]
async fn writers_on_a_disk_that_is_full_now_and_then_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = LoopMount::made(root.path(), 24 << 20, &[]) else { return };
    let data = disk.dir.join("data");
    let (mut process, mut lines) = start(writer(&data, 8, 20_000).command(None));
    let mut said = Said::default();
    for _ in 0..3 {
        let ballast = Ballast::fill(&disk.dir);
        let full = said.full;
        while said.full < full + 20 {
            said.hear(&lines.next().unwrap().unwrap());
        }
        ballast.remove();
        let acks = said.acks();
        while said.acks() < acks + 200 {
            said.hear(&lines.next().unwrap().unwrap());
        }
    }
    process.kill();
    for line in lines.map_while(Result::ok) {
        // The very last may be cut short.
        if line.starts_with("full") || line.split(' ').count() == 4 {
            said.hear(&line);
        }
    }
    assert!(said.errors.is_empty(), "{said:?}");
    check(&data, &said, "a full disk").await;
}

/// As the kernel does with a file system that it finds broken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_system_that_becomes_read_only_stops_writes_alone() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = LoopMount::made(root.path(), 16 << 20, &[]) else { return };
    let data = disk.dir.join("data");
    let (engine, state) = open(&data);
    for n in 0..10 {
        engine.commit(put(&format!("k/{n}"), 2000)).await.unwrap();
    }
    if !make_read_only(&disk) {
        println!("\nskipped: this kernel has no way to make one ext4 read-only under its users");
        return;
    }
    let why = refused(&*engine, put("more", 100)).await;
    assert!(why.contains("became read-only: check the disk and remount it writable"), "{why}");
    refused(&*engine, delete(&"k/1".into())).await;
    assert!(engine.health().is_ok() && engine.failed().is_none() && engine.full().is_some());
    assert_eq!(state.entries("").len(), 10);
    engine.close().await;
    drop(engine);
    let (image, dir) = (disk.image.clone(), disk.dir.clone());
    drop(disk);
    let disk = LoopMount::new(image, dir, "loop").unwrap();
    let (engine, found) = open(&disk.dir.join("data"));
    assert_eq!((found.entries(""), found.revision()), (state.entries(""), state.revision()));
    engine.commit(put("more", 100)).await.unwrap();
    engine.close().await;
}

fn make_read_only(disk: &LoopMount) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let dir = disk.dir.to_str().unwrap();
    let device = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some(dir))
        .and_then(|line| line.split(' ').next());
    let Some(name) = device.and_then(|device| device.rsplit('/').next()) else { return false };
    std::fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "a test").is_ok()
}
