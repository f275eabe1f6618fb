//! `setpoint up --detach` and `setpoint down`: starting and stopping a server in the background.
//!
//! ```text
//! setpoint up --detach            the same program again, --detached
//!   ├ spawn ───────────────────────┤ new session (setsid), logs to DATA-DIR/log
//!   │ reads a pipe                 │ starts, locks DATA-DIR/setpoint.pid
//!   │<───────────── announcement ──┤ ready: closes its end of the pipe
//!   └ prints it, exit 0            └ keeps running
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
use crate::{bridge_owner, cli, kubeconfig, local_node, run};

pub const LOG: &str = "log";
/// The previous log, after rotation.
pub const OLD_LOG: &str = "log.old";
/// A log larger than this is rotated when a server starts.
const MAX_LOG_BYTES: u64 = 8 * 1024 * 1024;
/// A start takes milliseconds; with a large store or a slow etcd, seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// The server itself shuts down within nine seconds: four for what its node is at, and `run::SHUTDOWN`.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How much of the log is shown when a server did not start.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 16 * 1024;

/// Passed to the child instead of `--detach`.
pub const FLAG: &str = "--detached";

pub fn up(matches: &ArgMatches) -> Result<()> {
    // Flag errors are reported here, before anything is started.
    let settings = run::Settings::from_matches(matches)?;
    settings.log_filter()?;
    let data_dir = cli::data_dir_of(matches);
    if let Some(running) = Running::find(&data_dir)? {
        print!("{}", already_running(&running, &data_dir));
        return Ok(());
    }
    run::make_data_dir(&data_dir)?;
    let (log, log_path) = (open_log(&data_dir)?, log_path(&data_dir));
    let log_start = log.metadata().map_or(0, |file| file.len());
    let mut child = start(&log)?;
    let startup = read_announcement(&mut child)?;
    match startup {
        Startup::Ready(text) => {
            print!("{text}");
            println!("Stop it with: {} down --data-dir {}", program_name(), absolute(&data_dir).display());
            Ok(())
        }
        Startup::Exited => {
            let status = child.wait().context("cannot wait for the server")?;
            bail!(
                "the server did not start ({status}); the end of its log, {}:\n{}",
                log_path.display(),
                tail(&log_path, log_start)
            )
        }
        Startup::TimedOut => bail!(
            "the server (pid {}) is not ready after {} s and is still starting. Stop it with: {} down --data-dir {}; the end of \
             its log, {}:\n{}",
            child.id(),
            READY_TIMEOUT.as_secs(),
            program_name(),
            absolute(&data_dir).display(),
            log_path.display(),
            tail(&log_path, log_start)
        ),
    }
}

pub fn down(matches: &ArgMatches) -> Result<()> {
    let data_dir = cli::data_dir_of(matches);
    let shown = absolute(&data_dir);
    let Some(running) = Running::find(&data_dir)? else {
        println!("Not running: no server uses the data directory {}.", shown.display());
        return Ok(());
    };
    running.terminate()?;
    if !running.exits_within(STOP_TIMEOUT)? {
        bail!(
            "pid {} has not stopped after {} s; see its log {}, or kill it with kill -9 {} (no acknowledged write is lost)",
            running.pid.as_raw_nonzero(),
            STOP_TIMEOUT.as_secs(),
            log_path(&data_dir).display(),
            running.pid.as_raw_nonzero()
        );
    }
    let command = bridge_owner::Command::of(&data_dir);
    println!("Stopped. The data is kept in {}; `{}` starts it again.", shown.display(), command.start());
    if let Some(pods) = local_node::pods_left(&local_node::directory(&data_dir)) {
        let (program, reset) = (program_name(), command.reset());
        println!("{pods} until `{program} {reset} --data-dir {}`.", shown.display());
    }
    Ok(())
}

/// In the child, first of all: detaches it from the terminal, so that a hang-up or Ctrl-C there does not reach it.
pub fn leave_terminal() -> Result<()> {
    rustix::process::setsid().context("cannot start a new session")?;
    Ok(())
}

/// In the child, once it is ready: the parent reads EOF, and later output goes to the log.
pub fn close_announcement() {
    // If it fails, the parent reports after its timeout that the server is not ready.
    let _ = rustix::stdio::dup2_stdout(std::io::stderr());
}

fn start(log: &File) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find the setpoint executable")?;
    let args =
        std::env::args_os().skip(1).map(|arg| if arg == "--detach" { OsString::from(FLAG) } else { arg });
    let errors = log.try_clone().context("cannot duplicate the log file descriptor")?;
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

enum Startup {
    Ready(String),
    Exited,
    TimedOut,
}

/// Reads until the child closes its end of the pipe: it is ready, or it exited.
fn read_announcement(child: &mut Child) -> Result<Startup> {
    let mut pipe = child.stdout.take().context("the server's output is not piped")?;
    let env = Env::machine();
    let deadline = env.monotonic() + READY_TIMEOUT;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(env.monotonic());
        if !is_readable_within(&pipe, left).context("cannot wait for the server")? {
            return Ok(Startup::TimedOut);
        }
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot read the server's output"),
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(if text.contains(run::NEXT) { Startup::Ready(text) } else { Startup::Exited })
}

pub fn log_path(data_dir: &Path) -> PathBuf {
    absolute(data_dir).join(LOG)
}

fn already_running(running: &Running, data_dir: &Path) -> String {
    let shown = absolute(data_dir);
    // Absent until the server is ready.
    let copy = kubeconfig::copy_path(&shown);
    let text = std::fs::read_to_string(&copy).unwrap_or_default();
    let api = text.find("https://").and_then(|at| text[at..].split(['"', '\'', '\n', ' ']).next());
    let mut output = format!(
        "Already running on {} (pid {}); the flags of this command have no effect.\n",
        shown.display(),
        running.pid.as_raw_nonzero()
    );
    match api {
        Some(api) => output.push_str(&format!(
            "  API         {api}\n  kubeconfig  {path}\n{next}export KUBECONFIG={path} && kubectl get nodes\n",
            path = copy.display(),
            next = run::NEXT
        )),
        None => output.push_str("It is not ready yet.\n"),
    }
    output.push_str(&format!("Stop it with: {} down --data-dir {}\n", program_name(), shown.display()));
    output
}

/// Opened for appending, with mode 0600; rotated first when it is large.
fn open_log(data_dir: &Path) -> Result<File> {
    let path = data_dir.join(LOG);
    if std::fs::symlink_metadata(&path).is_ok_and(|file| file.is_file() && file.len() > MAX_LOG_BYTES) {
        // If this fails, the log just keeps growing.
        let _ = std::fs::rename(&path, data_dir.join(OLD_LOG));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options.open(&path).with_context(|| {
        format!("cannot write the log {}; choose another directory with --data-dir", path.display())
    })
}

/// The last lines written by this run, indented.
fn tail(path: &Path, start: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    let last: Vec<String> = last.iter().map(|line| format!("  {line}")).collect();
    if last.is_empty() { "  (empty)".to_owned() } else { last.join("\n") }
}

/// argv[0], so that printed commands work in the same shell.
fn program_name() -> String {
    std::env::args().next().unwrap_or_else(|| "setpoint".to_owned())
}

/// Absolute, so that printed commands work from any directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
