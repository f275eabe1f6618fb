//! `setpoint up --detach` and `setpoint down`: a server in the background, started and stopped.
//!
//! ```text
//! setpoint up --detach            the same program again, --detached
//!   ├ spawn ───────────────────────┤ a session of its own, log in DATA-DIR/log
//!   │ reads a pipe                 │ starts, locks DATA-DIR/setpoint.pid
//!   │<──────── what it announces ──┤ ready: closes its end of the pipe
//!   └ prints it, exit 0            └ goes on
//! ```

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ArgMatches;
use env::Env;
use rustix::fs::OFlags;

use crate::pid_file::{Running, is_readable_within};
use crate::{cli, kubeconfig, run};

pub const LOG: &str = "log";
/// The log before it, once that had grown long.
pub const OLD_LOG: &str = "log.old";
/// A log longer than this is put aside when a server starts.
const LONG_LOG: u64 = 8 * 1024 * 1024;
/// A start takes milliseconds; a large store or an etcd that is slow to answer, seconds.
const READY: Duration = Duration::from_secs(60);
/// A server gives itself five seconds.
const STOPPED: Duration = Duration::from_secs(15);
/// So much of the log is shown when a server did not start.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 16 * 1024;

/// What the child is told instead of `--detach`.
pub const FLAG: &str = "--detached";

pub fn up(matches: &ArgMatches) -> Result<()> {
    // What is wrong with the flags is told here, before anything is started.
    let settings = run::Settings::from_matches(matches)?;
    settings.log_filter()?;
    let data_dir = cli::data_dir_of(matches);
    if let Some(running) = Running::find(&data_dir)? {
        print!("{}", already_running(&running, &data_dir));
        return Ok(());
    }
    run::make_data_dir(&data_dir)?;
    let (log, log_path) = (open_log(&data_dir)?, log_path(&data_dir));
    let begun = log.metadata().map_or(0, |file| file.len());
    let mut child = start(&log)?;
    let announced = read_announcement(&mut child)?;
    match announced {
        Announced::Ready(text) => {
            print!("{text}");
            println!("Stop it with: {} down --data-dir {}", own_name(), absolute(&data_dir).display());
            Ok(())
        }
        Announced::Ended => {
            let status = child.wait().context("cannot wait for the server")?;
            bail!(
                "the server did not start ({status}); the end of its log, {}:\n{}",
                log_path.display(),
                tail(&log_path, begun)
            )
        }
        Announced::Nothing => bail!(
            "the server (pid {}) is not ready after {} s and goes on starting. Stop it with: {} down --data-dir {}; the end of \
             its log, {}:\n{}",
            child.id(),
            READY.as_secs(),
            own_name(),
            absolute(&data_dir).display(),
            log_path.display(),
            tail(&log_path, begun)
        ),
    }
}

pub fn down(matches: &ArgMatches) -> Result<()> {
    let data_dir = cli::data_dir_of(matches);
    let shown = absolute(&data_dir);
    let Some(running) = Running::find(&data_dir)? else {
        println!("Not running: no server has the data directory {}.", shown.display());
        return Ok(());
    };
    running.terminate()?;
    if !running.ends_within(STOPPED)? {
        bail!(
            "pid {} has not stopped after {} s; its log {} may say why, and kill -9 {} ends it (nothing acknowledged is lost)",
            running.pid.as_raw_nonzero(),
            STOPPED.as_secs(),
            log_path(&data_dir).display(),
            running.pid.as_raw_nonzero()
        );
    }
    println!("Stopped. The data stays in {}; `up` goes on with it.", shown.display());
    Ok(())
}

/// In the child, first of all: what happens to the terminal it was started from does not reach it.
pub fn leave_terminal() -> Result<()> {
    rustix::process::setsid().context("cannot begin a session of its own")?;
    Ok(())
}

/// In the child, once it is ready: whoever waited hears the end, and nobody reads what is written there later.
pub fn close_announcement() {
    // Both are ours; if it fails, the one who waits says after a minute that it is not ready.
    let _ = rustix::stdio::dup2_stdout(std::io::stderr());
}

fn start(log: &File) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find the program itself")?;
    let words =
        std::env::args_os().skip(1).map(|word| if word == "--detach" { OsString::from(FLAG) } else { word });
    let errors = log.try_clone().context("cannot open the log twice")?;
    let mut command = Command::new(&program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

enum Announced {
    Ready(String),
    Ended,
    Nothing,
}

/// Until the child closes its end: being ready, or being at its end.
fn read_announcement(child: &mut Child) -> Result<Announced> {
    let mut pipe = child.stdout.take().context("the server's output is not read")?;
    let env = Env::machine();
    let deadline = env.monotonic() + READY;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(env.monotonic());
        if !is_readable_within(&pipe, left).context("cannot wait for the server")? {
            return Ok(Announced::Nothing);
        }
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot read what the server says"),
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(if text.contains(run::NEXT) { Announced::Ready(text) } else { Announced::Ended })
}

pub fn log_path(data_dir: &Path) -> PathBuf {
    absolute(data_dir).join(LOG)
}

fn already_running(running: &Running, data_dir: &Path) -> String {
    let shown = absolute(data_dir);
    // Absent while it starts.
    let copy = kubeconfig::copy_path(&shown);
    let text = std::fs::read_to_string(&copy).unwrap_or_default();
    let api = text.find("https://").and_then(|at| text[at..].split(['"', '\'', '\n', ' ']).next());
    let mut said = format!(
        "Already running on {} (pid {}); the flags given now change nothing.\n",
        shown.display(),
        running.pid.as_raw_nonzero()
    );
    match api {
        Some(api) => said.push_str(&format!(
            "  API         {api}\n  kubeconfig  {path}\n{next}export KUBECONFIG={path} && kubectl get nodes\n",
            path = copy.display(),
            next = run::NEXT
        )),
        None => said.push_str("It is not ready yet.\n"),
    }
    said.push_str(&format!("Stop it with: {} down --data-dir {}\n", own_name(), shown.display()));
    said
}

/// Appended to, for its owner only; a long one is put aside first.
fn open_log(data_dir: &Path) -> Result<File> {
    let path = data_dir.join(LOG);
    if std::fs::symlink_metadata(&path).is_ok_and(|file| file.is_file() && file.len() > LONG_LOG) {
        // Where this fails, the log only goes on growing.
        let _ = std::fs::rename(&path, data_dir.join(OLD_LOG));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options.open(&path).with_context(|| {
        format!("cannot write the log {}; choose another directory with --data-dir", path.display())
    })
}

/// The last lines of what this run wrote, indented.
fn tail(path: &Path, begun: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(begun.max(length.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    let last: Vec<String> = last.iter().map(|line| format!("  {line}")).collect();
    if last.is_empty() { "  (it is empty)".to_owned() } else { last.join("\n") }
}

/// As it was called, so that what is printed can be typed in the same shell.
fn own_name() -> String {
    std::env::args().next().unwrap_or_else(|| "setpoint".to_owned())
}

/// As it works in whatever folder it is pasted.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
