//! A process that writes until it is killed: the other half of the crash tests in `process.rs`.
//!
//! The tests start this very binary once more. Every task commits `t/n` and `t/latest = n` together, deletes
//! `t/(n-KEEP)`, and prints `ack t n revision` after each answer. On a full disk it says so (`full t n`) and tries
//! again. The process exits with 3 when the store stops, with 4 when it cannot be opened.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use store::testing::MapState;
use store::{Commit, CommitError, DiskEngine, DiskOptions, Guard, Key, Op};

pub const KEEP: u64 = 20;
/// On a full disk writes are refused until the store looks again, which it does after a tenth of a second at first.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
const TASK: &str = "SETPOINT_STORE_WRITER";

/// What a writer does.
pub struct Task {
    pub dir: PathBuf,
    pub writers: u64,
    pub snapshot_log_bytes: u64,
    /// 0: until it is killed.
    pub commits: u64,
    /// Says `ready`, and opens the store when it was sent a line.
    pub waits: bool,
}

impl Task {
    /// A command that does it; `program` may run it under another program's eyes.
    pub fn command(&self, program: Option<Command>) -> Command {
        let this = std::env::current_exe().unwrap();
        let mut command = match program {
            Some(mut program) => {
                program.arg(this);
                program
            }
            None => Command::new(this),
        };
        command.args(["--exact", "writer::writer_process", "--ignored", "--nocapture", "--quiet"]);
        let Task { dir, writers, snapshot_log_bytes, commits, waits } = self;
        let waits = u64::from(*waits);
        command.env(TASK, format!("{writers} {snapshot_log_bytes} {commits} {waits} {}", dir.display()));
        command
    }
}

#[test]
#[ignore = "not a test: the crash tests start it as a process of its own"]
fn writer_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.splitn(5, ' ').collect();
    let [writers, snapshot_log_bytes, commits, waits] = [0, 1, 2, 3].map(|i| words[i].parse().unwrap());
    let dir = PathBuf::from(words[4]);
    if waits == 1 {
        say("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(write(&dir, writers, snapshot_log_bytes, if commits == 0 { u64::MAX } else { commits }));
}

// A process of its own, in the machine's time.
#[allow(clippy::disallowed_methods)]
async fn write(dir: &Path, writers: u64, snapshot_log_bytes: u64, commits: u64) {
    let state = Arc::new(MapState::default());
    let options = DiskOptions { snapshot_log_bytes, ..DiskOptions::default() };
    let engine = match DiskEngine::open(dir, state.clone(), options) {
        Ok(engine) => engine,
        Err(error) => {
            say(&format!("refused {error}"));
            std::process::exit(4);
        }
    };
    say("open");
    let mut running = tokio::task::JoinSet::new();
    for task in 0..writers {
        let (engine, state) = (engine.clone(), state.clone());
        running.spawn(async move {
            let latest: Key = format!("{task}/latest").into();
            let mut done = 0;
            while done < commits {
                let old = state.get(&latest);
                let n = old.as_ref().map_or(0, |e| number_of(&e.value) + 1);
                let guard = old.map_or(Guard::Absent, |e| Guard::At(e.revision));
                let put = |value: String| Op::Put { value: value.into(), expires_at: None };
                let padding = "x".repeat((n % 7) as usize * 100);
                let mut ops =
                    vec![(latest.clone(), put(n.to_string())), (format!("{task}/{n}").into(), put(padding))];
                if n >= KEEP {
                    ops.push((format!("{task}/{}", n - KEEP).into(), Op::Delete));
                }
                let guards = vec![(latest.clone(), guard)];
                match engine.commit(Commit { guards, ops, removal: false }).await {
                    Ok(revision) => {
                        say(&format!("ack {task} {n} {revision}"));
                        done += 1;
                    }
                    Err(CommitError::NoSpace(why)) => {
                        say(&format!("full {task} {n} {why}"));
                        tokio::time::sleep(BETWEEN_TRIES).await;
                    }
                    Err(error) => {
                        say(&format!("error {task} {n} {error}"));
                        break;
                    }
                }
            }
        });
    }
    running.join_all().await;
    let health = engine.health();
    say(&format!("health {health:?}"));
    engine.close().await;
    std::process::exit(if health.is_ok() { 0 } else { 3 });
}

fn number_of(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// One write per line: what was printed was printed before the process died. By another system call than the store's, which some
/// tests let fail.
fn say(line: &str) {
    let line = format!("{line}\n");
    let stdout = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let said = stdout.and_then(|mut stdout| stdout.write_vectored(&[IoSlice::new(line.as_bytes())]));
    if !said.is_ok_and(|written| written == line.len()) {
        // Nobody reads any more, so nobody needs us.
        std::process::exit(1);
    }
}
