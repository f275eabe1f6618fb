//! Whole processes that die: by kill -9, by a failing disk, by a power cut. `SETPOINT_LONG=1` runs many more rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use store::testing::{MapState, Rng};
use store::{DiskEngine, DiskOptions, Engine, OpenError};

use crate::writer::{KEEP, Task};

pub fn long() -> bool {
    std::env::var_os("SETPOINT_LONG").is_some()
}

/// What a writer said.
#[derive(Default, Debug)]
pub struct Said {
    /// The last acknowledged number of each task.
    pub acked: BTreeMap<u64, u64>,
    pub revision: u64,
    /// It has ended, and all it said was heard.
    pub complete: bool,
    /// How often the disk was full.
    pub full: usize,
    /// Tasks that told of an acknowledgement after another told of an error.
    late: BTreeSet<u64>,
    pub errors: Vec<String>,
    pub other: Vec<String>,
}

impl Said {
    pub fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ack", task, n, revision] => {
                let task = task.parse().unwrap();
                if !self.errors.is_empty() {
                    // Answered before the failure and printed after it, by a slow task: once, but not twice.
                    assert!(self.late.insert(task), "acknowledged {line} after an error: {:?}", self.errors);
                }
                self.acked.insert(task, n.parse().unwrap());
                self.revision = self.revision.max(revision.parse().unwrap());
            }
            ["full", ..] => self.full += 1,
            ["error", ..] => self.errors.push(line.to_owned()),
            _ => self.other.push(line.to_owned()),
        }
    }

    pub fn acks(&self) -> usize {
        self.acked.values().map(|n| *n as usize + 1).sum()
    }
}

/// Killed when the test ends, however it ends.
pub struct Running(pub Child);

impl Running {
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn start(mut command: Command) -> (Running, Lines<BufReader<ChildStdout>>) {
    let mut child = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    // The test harness of the other process has something to say first.
    for line in lines.by_ref() {
        match line.unwrap().as_str() {
            "open" => break,
            refused if refused.starts_with("refused") => panic!("{refused}"),
            _ => {}
        }
    }
    (child, lines)
}

pub fn writer(dir: &Path, writers: u64, snapshot_log_bytes: u64) -> Task {
    Task { dir: dir.to_owned(), writers, snapshot_log_bytes, commits: 0, waits: false }
}

pub fn open(dir: &Path) -> Result<Arc<dyn Engine>, OpenError> {
    DiskEngine::open(dir, Arc::new(MapState::default()), DiskOptions::default())
}

/// Opens what is left and compares it with what was acknowledged. Gives the store back to the next round.
pub async fn check(dir: &Path, said: &Said, context: &str) {
    let state = Arc::new(MapState::default());
    let engine = DiskEngine::open(dir, state.clone(), DiskOptions::default())
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(state.revision().0 >= said.revision, "{context}: revision went back");
    // A crash is no copy: only that moves the revision on by a thousand million.
    let jumped = state.revision().0 > said.revision + 1_000_000;
    assert!(!jumped, "{context}: at {} after {}", state.revision(), said.revision);
    for (task, acked) in &said.acked {
        let latest =
            state.get(&format!("{task}/latest")).unwrap_or_else(|| panic!("{context}: task {task} lost"));
        let latest: u64 = std::str::from_utf8(&latest.value).unwrap().parse().unwrap();
        // And, if all it said was heard, no more than the one that was under way when the process ended.
        let possible = *acked..=if said.complete { acked + 1 } else { u64::MAX };
        assert!(possible.contains(&latest), "{context}: task {task} acknowledged {acked}, found {latest}");
        // Each commit touched three keys: all of them, or none.
        let mut expected: Vec<String> =
            (latest.saturating_sub(KEEP - 1)..=latest).map(|n| format!("{task}/{n}")).collect();
        expected.push(format!("{task}/latest"));
        expected.sort();
        let found: Vec<String> =
            state.entries(&format!("{task}/")).into_iter().map(|e| e.key.to_string()).collect();
        assert_eq!(found, expected, "{context}: task {task}");
    }
    engine.close().await;
}

#[tokio::test]
async fn kill_9_under_concurrent_writes_loses_nothing_acknowledged() {
    let seed = 20;
    let mut rng = Rng(seed);
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let mut said = Said::default();
    for round in 0..if long() { 300 } else { 8 } {
        // A small log makes most kills hit a snapshot in the making.
        let (mut child, mut lines) = start(writer(dir.path(), 16, 20_000).command(None));
        let kill_after = rng.below(1500);
        for _ in 0..kill_after {
            said.hear(&lines.next().unwrap().unwrap());
        }
        child.kill();
        // What it said before it died counts; its very last line may be cut short.
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        for line in &rest[..rest.len().saturating_sub(1)] {
            said.hear(line);
        }
        assert!(said.errors.is_empty(), "{said:?}");
        if round % 2 == 0 {
            check(dir.path(), &said, &format!("seed {seed}, round {round}")).await;
        }
    }
    assert!(said.acks() > 100, "the test did nothing: {said:?}");
}

/// Runs the writer under strace, which makes the n-th call fail.
async fn inject(call: &str, error: &str, when: &str, snapshot_log_bytes: u64) -> Option<Said> {
    if !Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success()) {
        println!("\nskipped: strace missing (or not allowed to trace)");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("strace");
    let trace = dir.path().join("trace");
    let data = dir.path().join("data");
    // Made beforehand, so that the injected failure does not hit its creation.
    let mut create = Task { commits: 1, ..writer(&data, 8, 1 << 30) }.command(None);
    assert!(create.stdout(Stdio::null()).status().unwrap().success());
    command.args(["-f", "-qq", "-o"]).arg(&trace).arg("-e").arg(format!("trace={call}"));
    command.arg("-e").arg(format!("inject={call}:error={error}:when={when}"));
    // An end, in case the failure never comes: the exit code tells.
    let task = Task { commits: 500, ..writer(&data, 8, snapshot_log_bytes) };
    let (mut child, lines) = start(task.command(Some(command)));
    let mut said = Said::default();
    for line in lines {
        said.hear(&line.unwrap());
    }
    let status = child.0.wait().unwrap();
    let context = format!("{call} {error} {when}");
    assert_eq!(status.code(), Some(3), "{context}: {said:?}");
    assert!(!said.errors.is_empty(), "{context}: {said:?}");
    let health = said.other.last().unwrap();
    assert!(health.starts_with("health Err"), "{context}: {health}");
    check(&data, &said, &context).await;
    Some(said)
}

#[tokio::test]
async fn a_failed_fdatasync_stops_the_store_for_good() {
    // strace counts calls per thread; only the log uses fdatasync here, and only when space is written ahead:
    // most batches are durable by the write itself.
    let Some(said) = inject("fdatasync", "EIO", "3", 1 << 30).await else { return };
    assert!(said.other.last().unwrap().contains("check the disk") && said.acks() >= 29, "{said:?}");
    assert!(said.errors.iter().any(|e| e.contains("outcome is unknown")), "{said:?}");
}

#[tokio::test]
async fn a_failed_write_stops_the_store_for_good() {
    let Some(said) = inject("pwrite64", "EIO", "30+", 1 << 30).await else { return };
    assert!(said.other.last().unwrap().contains("check the disk") && said.acks() >= 20, "{said:?}");
    // The thread's second write is the first of the zeros; a broken disk is one there too.
    inject("pwrite64", "EIO", "2", 1 << 30).await;
}

#[tokio::test]
async fn a_failed_fsync_of_a_snapshot_or_segment_stops_the_store() {
    // Counted per thread: new segments and manifests on the log's, snapshots and manifests on the other.
    for when in ["1", "2", "3", "4", "6"] {
        inject("fsync", "EIO", when, 4_000).await;
    }
}

/// A file system in a file, so that a copy of the file is what a power cut would leave.
pub struct LoopMount {
    pub image: PathBuf,
    pub dir: PathBuf,
}

impl LoopMount {
    /// A new file system of that size; `None`, and a word about it, where this machine cannot have one.
    pub fn made(root: &Path, bytes: u64, options: &[&str]) -> Option<LoopMount> {
        let image = root.join("disk");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).args(options).arg(&image).status();
        let mount = || LoopMount::new(image, root.join("mnt"), "loop,errors=remount-ro");
        let disk = made.is_ok_and(|s| s.success()).then(mount).flatten();
        if disk.is_none() {
            println!("\nskipped: needs root, mkfs.ext4 and loop devices");
        }
        disk
    }

    pub fn new(image: PathBuf, dir: PathBuf, options: &str) -> Option<LoopMount> {
        std::fs::create_dir_all(&dir).unwrap();
        let status =
            Command::new("mount").args(["-o", options]).arg(&image).arg(&dir).stderr(Stdio::null()).status();
        status.is_ok_and(|s| s.success()).then_some(LoopMount { image, dir })
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        // Children that other tests have just forked share our descriptors until their exec.
        let unmounted = || Command::new("umount").arg(&self.dir).status().is_ok_and(|s| s.success());
        for _ in 0..100 {
            if unmounted() {
                return;
            }
            #[allow(clippy::disallowed_methods, reason = "waits for other programs")]
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[tokio::test]
async fn a_power_cut_right_after_an_answer_loses_nothing_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = LoopMount::made(root.path(), 64 << 20, &[]) else { return };
    let seed = 3;
    let mut rng = Rng(seed);
    let mut said = Said::default();
    let (mut child, mut lines) = start(writer(&disk.dir.join("data"), 8, 20_000).command(None));
    for cut in 0..if long() { 60 } else { 4 } {
        for _ in 0..1 + rng.below(600) {
            said.hear(&lines.next().unwrap().unwrap());
        }
        // The writer goes on while the image is copied; but what was acknowledged by now must be in it.
        let copy = root.path().join(format!("copy-{cut}"));
        freeze(&child);
        let copied = std::fs::copy(&disk.image, &copy);
        thaw(&child);
        copied.unwrap();
        let cut_disk = LoopMount::new(copy.clone(), root.path().join(format!("mnt-{cut}")), "loop").unwrap();
        check(&cut_disk.dir.join("data"), &said, &format!("seed {seed}, cut {cut}")).await;
        drop(cut_disk);
        std::fs::remove_file(copy).unwrap();
    }
    child.kill();

    // The same disk, mounted read-only: refused, with the way to fix it.
    let (image, dir) = (disk.image.clone(), disk.dir.clone());
    drop(disk);
    let disk = LoopMount::new(image, dir, "loop,ro").unwrap();
    let refused = open(&disk.dir.join("data"));
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("read-only file system: remount it writable"), "{message}");
}

/// The file is copied while nothing moves, as a power cut would find it; a copy of a moving disk would be torn
/// in ways no disk is.
fn freeze(child: &Running) {
    signal(child, "-STOP");
}

fn thaw(child: &Running) {
    signal(child, "-CONT");
}

fn signal(child: &Running, which: &str) {
    assert!(Command::new("kill").args([which, &child.0.id().to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn a_second_process_is_refused_and_told_the_first_ones_pid() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, lines) = start(writer(dir.path(), 1, 1 << 30).command(None));
    let refused = open(dir.path());
    let message = refused.err().unwrap().to_string();
    assert!(message.contains(&format!("already in use by pid {}", child.0.id())), "{message}");
    child.kill();
    drop(lines);
    open(dir.path()).unwrap().close().await;
}

#[tokio::test]
async fn without_permission_the_message_says_so() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o500)).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = writer(&data, 1, 1 << 30).command(None);
    command.stderr(Stdio::null());
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    let Ok(output) = command.output() else {
        println!("\nskipped: another user may not run the writer");
        return;
    };
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("refused no permission for"), "{said}");
}
