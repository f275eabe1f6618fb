//! The n-th call of each kind fails, once, in every thread of a process that writes: what was acknowledged is there, nothing
//! else is, and what passes by itself stops nobody. `SETPOINT_LONG=1` tries every n.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::process::{Running, Said, check, long, writer};
use crate::writer::Task;

const WRITERS: u64 = 4;
const COMMITS: u64 = 40;

#[derive(Debug, PartialEq, Eq)]
enum End {
    /// All it had to write is written.
    Done,
    Stopped,
    /// It could not be opened.
    Refused(String),
}

/// `None`: this machine lets nobody trace.
async fn inject(calls: &str, error: &str, when: u32) -> Option<(End, Said)> {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    // Small segments: most calls are for new ones and for snapshots.
    let task = Task { commits: COMMITS, waits: true, ..writer(&data, WRITERS, 3_000) };
    let mut create = Task { commits: 1, waits: false, ..writer(&data, WRITERS, 3_000) }.command(None);
    assert!(create.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());

    let mut command = task.command(None);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "ready"));
    let mut tracer = attach(&process, calls, error, when, &root.path().join("strace"))?;
    process.0.stdin.take().unwrap().write_all(b"\n").unwrap();

    let (mut said, mut refused) = (Said::default(), None);
    for line in lines.map_while(Result::ok) {
        match line.strip_prefix("refused ") {
            Some(why) => refused = Some(why.to_owned()),
            None => said.hear(&line),
        }
    }
    let status = process.0.wait().unwrap();
    let _ = tracer.wait();
    let context = format!("{calls} {error} {when}");
    let end = match (status.code(), refused) {
        (Some(0), None) => End::Done,
        (Some(3), None) => End::Stopped,
        (Some(4), Some(why)) => End::Refused(why),
        other => panic!("{context}: {other:?} {said:?}"),
    };
    if end == End::Done {
        // The one of its creation, and these.
        assert!(said.acked.values().all(|n| *n == COMMITS) && said.errors.is_empty(), "{context}: {said:?}");
    }
    said.complete = true;
    check(&data, &said, &context).await;
    Some((end, said))
}

// Another process, in the machine's time.
#[allow(clippy::disallowed_methods)]
fn attach(process: &Running, calls: &str, error: &str, when: u32, log: &Path) -> Option<Child> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:error={error}:when={when}")]);
    strace.args(["-p", &process.0.id().to_string()]);
    strace.stdin(Stdio::null()).stderr(std::fs::File::create(log).unwrap());
    let Ok(mut strace) = strace.spawn() else {
        println!("\nskipped: strace is not installed");
        return None;
    };
    loop {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        if said.contains(" attached") {
            return Some(strace);
        }
        if strace.try_wait().unwrap().is_some() {
            println!("\nskipped: strace cannot attach here: {}", said.trim().replace('\n', " "));
            return None;
        }
        // What another process writes to a file cannot be waited for in std.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn sample(short: &[u32], last: u32) -> Vec<u32> {
    if long() { (1..=last).collect() } else { short.to_vec() }
}

/// A start may be refused, in a line; whoever runs already goes on.
async fn goes_on(calls: &str, error: &str, when: &[u32]) -> Option<()> {
    for n in when {
        let (end, said) = inject(calls, error, *n).await?;
        assert!(!matches!(end, End::Stopped), "{calls} {error} {n}: {said:?}");
    }
    Some(())
}

#[tokio::test]
async fn a_full_disk_at_any_write_stops_nothing_and_loses_nothing() {
    // Of the log, of new files; and what is only told when data is made durable.
    for calls in ["pwrite64", "write", "fdatasync", "rename,renameat,renameat2"] {
        let Some(()) = goes_on(calls, "ENOSPC", &sample(&[1, 3], 25)).await else { return };
    }
    for (error, n) in [("EDQUOT", 2), ("EROFS", 4)] {
        goes_on("pwrite64,write,openat", error, &sample(&[n], 25)).await;
    }
}

#[tokio::test]
async fn no_descriptors_or_a_signal_at_any_call_stops_nothing() {
    for (calls, error, short) in [
        ("openat", "EMFILE", &[1, 4, 9][..]),
        ("openat", "ENFILE", &[6]),
        ("rename,renameat,renameat2,openat,ftruncate,fsync,fdatasync,pwrite64", "EINTR", &[1, 3]),
    ] {
        let Some(()) = goes_on(calls, error, &sample(short, 40)).await else { return };
    }
}

/// What is broken stops the store, unless it was a file that can be done without; and the next start finds everything.
#[tokio::test]
async fn a_broken_disk_at_any_call_loses_nothing_acknowledged() {
    let mut stopped = 0;
    for calls in
        ["pwrite64", "fdatasync", "fsync", "ftruncate", "rename,renameat,renameat2", "write", "openat"]
    {
        for n in sample(&[2], 25) {
            let Some((end, said)) = inject(calls, "EIO", n).await else { return };
            stopped += u32::from(end == End::Stopped);
            if let End::Refused(why) = end {
                assert!(said.acks() == 0, "{calls} {n}: {why}");
            }
        }
    }
    assert!(stopped > 2, "{stopped}");
}

/// What nobody can take back is as good as broken.
#[tokio::test]
async fn a_full_disk_without_rollback_loses_nothing_acknowledged() {
    for n in sample(&[2], 25) {
        if inject("fdatasync,ftruncate,fsync", "ENOSPC", n).await.is_none() {
            return;
        }
    }
}
