//! The containers of one pod, as its helper knows them. Requests come in, answers go out when they are ready: nothing here waits,
//! so that no container, slow or stuck, holds up another.

mod attached;
mod container;
mod leaving;
mod starting;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use container_log::Stream;
use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::start::{Context, HostMounts, StartError, Users};
use crate::sys;
use crate::wire::{PodState, Reply, Request};

use attached::Attached;
use container::Container;
use leaving::{Leaving, Shutdown};
use starting::Starting;

/// What is read of an output at once.
const CHUNK: usize = 64 << 10;
/// What cannot be waited for is looked at again so soon.
const TICK: Duration = Duration::from_millis(10);

/// So many children are buried before others have their turn: who shares the host's processes can leave us any number of them.
const MOST_REAPED: usize = 256;

/// What the containers of the pod share.
pub struct Shared {
    pub directory: PathBuf,
    pub pid_namespace: Option<OwnedFd>,
    pub shared_memory: Option<PathBuf>,
    pub host_mounts: HostMounts,
    pub users: Option<Users>,
}

pub struct Containers {
    shared: Shared,
    all: Vec<Container>,
    starting: Vec<Starting>,
    execs: Vec<Exec>,
    attached: Vec<Attached>,
    leaving: Vec<Leaving>,
    shutdown: Option<Shutdown>,
    answers: Vec<(u64, Result<Answer, StartError>)>,
    /// Connection, exec and code.
    exec_ends: Vec<(u64, u64, i32)>,
    /// Of containers, execs and those attached; none is ever used twice.
    next_key: u64,
    changed: bool,
    is_over: bool,
    /// Children may have ended that were not looked at yet.
    has_more: bool,
    buffer: Vec<u8>,
}

struct Exec {
    id: u64,
    connection: u64,
    container: String,
    pid: Pid,
    pidfd: OwnedFd,
    terminal: Option<OwnedFd>,
}

/// A descriptor to wait for, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Output(u64, Stream),
    /// Somebody attached can be written to.
    Attached(u64, usize),
    Starting(u64),
    /// A process may have ended.
    Process,
}

/// With a descriptor beside it.
pub type Answer = (Reply, Option<OwnedFd>);

impl Containers {
    pub fn new(shared: Shared) -> Containers {
        Containers {
            shared,
            all: Vec::new(),
            starting: Vec::new(),
            execs: Vec::new(),
            attached: Vec::new(),
            leaving: Vec::new(),
            shutdown: None,
            answers: Vec::new(),
            exec_ends: Vec::new(),
            next_key: 0,
            changed: false,
            is_over: false,
            has_more: false,
            buffer: vec![0; CHUNK],
        }
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    pub fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut all = Vec::new();
        for container in &self.all {
            for stream in [Stream::Stdout, Stream::Stderr] {
                if let Some(output) = container.output(stream) {
                    all.push((Source::Output(container.key, stream), output, PollFlags::IN));
                }
            }
            if container.ended.is_none() {
                all.push((Source::Process, container.pidfd.as_fd(), PollFlags::IN));
            }
        }
        let starting = self.starting.iter();
        all.extend(starting.map(|one| (Source::Starting(one.key), one.process.source(), PollFlags::IN)));
        all.extend(self.execs.iter().map(|exec| (Source::Process, exec.pidfd.as_fd(), PollFlags::IN)));
        for one in &self.attached {
            let sources = one.sources();
            all.extend(sources.map(|(at, file, flags)| (Source::Attached(one.key, at), file, flags)));
        }
        all
    }

    /// How long at most to wait for a source.
    pub fn timeout(&self) -> Option<Duration> {
        if self.has_more {
            return Some(Duration::ZERO);
        }
        let is_killing = self.all.iter().any(|one| one.kill_until.is_some());
        if is_killing || !self.leaving.is_empty() || self.shutdown.is_some() {
            return Some(TICK);
        }
        let first = self.starting.iter().map(|one| one.process.deadline()).min()?;
        Some(first.saturating_sub(sys::monotonic()))
    }

    /// Whether a request of this connection is still to be answered.
    pub fn is_busy(&self, connection: u64) -> bool {
        self.starting.iter().any(|one| one.connection == connection)
            || self.leaving.iter().any(|one| one.is_awaited_by(connection))
            || self.shutdown.as_ref().is_some_and(|shutdown| shutdown.connection == connection)
    }

    /// Everything has ended that ever was, as it was asked to.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn take_answers(&mut self) -> Vec<(u64, Result<Answer, StartError>)> {
        std::mem::take(&mut self.answers)
    }

    pub fn take_changed(&mut self) -> bool {
        let changed = std::mem::take(&mut self.changed);
        if changed {
            self.save();
        }
        changed
    }

    /// For an agent that finds no helper any more.
    fn save(&self) {
        let directory = &self.shared.directory;
        let (path, new) = (directory.join("state.json"), directory.join("state.json.new"));
        if let Ok(text) = serde_json::to_vec(&self.state())
            && std::fs::write(&new, text).is_ok()
        {
            let _ = std::fs::rename(new, path);
        }
    }

    pub fn state(&self) -> PodState {
        PodState {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            containers: self.all.iter().map(Container::state).collect(),
        }
    }

    /// Its answer is there at once, or later.
    pub fn handle(&mut self, connection: u64, request: Request, descriptors: Vec<OwnedFd>) {
        let answer = match request {
            Request::Watch => Ok(Some((Reply::State(self.state()), None))),
            Request::Start(config) => self.start(connection, *config).map(|()| None),
            Request::Exec { container, process } => {
                self.exec(connection, &container, &process, descriptors).map(|()| None)
            }
            Request::Attach { container, stdin } => self.attach(&container, stdin, descriptors).map(Some),
            Request::Remove { container } => self.remove(connection, &container).map(|()| None),
            Request::Shutdown => {
                self.shut_down(connection);
                Ok(None)
            }
            request => self.handle_quick(request).map(|()| Some((Reply::Done, None))),
        };
        if let Some(answer) = answer.transpose() {
            self.answers.push((connection, answer));
        }
    }

    fn handle_quick(&mut self, request: Request) -> Result<(), StartError> {
        match request {
            Request::Signal { container, signal, all } => self.signal(&container, signal, all),
            Request::SignalExec { exec, signal } => match self.execs.iter().find(|one| one.id == exec) {
                Some(exec) => send_signal(exec.pidfd.as_fd(), signal),
                None => Ok(()),
            },
            Request::Resize { container, exec, width, height } => {
                let exec = exec.and_then(|id| self.execs.iter().find(|one| one.id == id));
                let terminal = match exec {
                    Some(exec) => exec.terminal.as_ref().map(AsFd::as_fd),
                    None => self.find(&container)?.output(Stream::Stdout),
                };
                let size =
                    rustix::termios::Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
                // Not a terminal any more, or none ever: it has no size.
                let _ = terminal.map(|terminal| rustix::termios::tcsetwinsize(terminal, size));
                Ok(())
            }
            Request::ReopenLog { container } => match &mut self.find_mut(&container)?.log {
                Some(log) => log.reopen().context(|| "failed to reopen the log".to_owned()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn find(&self, id: &str) -> Result<&Container, StartError> {
        self.all.iter().find(|one| one.config.id == id).ok_or_else(|| not_found(id))
    }

    fn find_mut(&mut self, id: &str) -> Result<&mut Container, StartError> {
        self.all.iter_mut().find(|one| one.config.id == id).ok_or_else(|| not_found(id))
    }

    fn signal(&mut self, id: &str, signal: i32, all: bool) -> Result<(), StartError> {
        let container = self.find(id)?;
        check_signal(signal)?;
        if all && let Some(cgroup) = &container.cgroup {
            cgroup.signal(signal);
            return Ok(());
        }
        if container.ended.is_some() { Ok(()) } else { send_signal(container.pidfd.as_fd(), signal) }
    }

    /// Something can be read from, or written to.
    pub fn ready(&mut self, source: Source) {
        match source {
            Source::Output(key, stream) => {
                if let Some(container) = self.all.iter_mut().find(|one| one.key == key) {
                    container.copy(stream, &mut self.buffer, &mut self.attached);
                }
            }
            Source::Attached(key, at) => {
                if let Some(attached) = self.attached.iter_mut().find(|one| one.key == key) {
                    attached.ready(at);
                }
            }
            Source::Starting(key) => self.hear_of_start(key),
            Source::Process => {}
        }
        self.attached.retain(|one| !one.is_over());
    }

    /// What is due, whether something was ready or not.
    pub fn tick(&mut self) {
        self.all.iter_mut().for_each(Container::go_on_killing);
        self.end_late_starts();
        self.go_on_leaving();
        self.go_on_shutting_down();
    }

    /// Who ended: containers are remembered, and the ends of other processes go to who asked for them.
    pub fn reap(&mut self) -> Vec<(u64, u64, i32)> {
        self.has_more = true;
        for _ in 0..MOST_REAPED {
            let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) else {
                self.has_more = false;
                break;
            };
            self.end_process(pid, status);
        }
        self.attached.retain(|one| !one.is_over());
        std::mem::take(&mut self.exec_ends)
    }

    fn end_process(&mut self, pid: Pid, status: WaitStatus) {
        // One that started and ended at once: first the one, then the other. That it runs may be heard after that it ended.
        if let Some(starting) = self.starting.iter_mut().find(|one| one.process.pid() == Some(pid)) {
            starting.ended = Some(status);
            let key = starting.key;
            self.hear_of_start(key);
            return;
        }
        if let Some(at) = self.execs.iter().position(|exec| exec.pid == pid) {
            let exec = self.execs.remove(at);
            self.exec_ends.push((exec.connection, exec.id, exit_code(status).0));
        }
        let container = self.all.iter_mut().find(|one| one.pid == pid && one.ended.is_none());
        if let Some(container) = container {
            container.end(status, &mut self.buffer, &mut self.attached);
            self.changed = true;
            let id = &container.config.id;
            for exec in self.execs.iter().filter(|exec| exec.container == *id) {
                let _ = rustix::process::pidfd_send_signal(&exec.pidfd, Signal::KILL);
            }
        }
    }
}

fn not_found(id: &str) -> StartError {
    StartError(format!("container {id} not found"))
}

fn check_signal(signal: i32) -> Result<(), StartError> {
    if crate::signal::ALL.contains(&signal) {
        return Ok(());
    }
    Err(StartError(format!("unknown signal {signal}")))
}

fn send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), StartError> {
    check_signal(signal)?;
    match sys::pidfd_send_signal(pidfd, signal) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
            Err(error).context(|| "failed to send the signal".to_owned())
        }
        _ => Ok(()),
    }
}

/// The code as a shell gives it, and the signal, if it was one.
fn exit_code(status: WaitStatus) -> (i32, i32) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code, 0),
        (None, Some(signal)) => (128 + signal, signal),
        (None, None) => (255, 0),
    }
}

/// Unix nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(now.tv_nsec).unwrap_or(0)
}
