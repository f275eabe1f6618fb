//! The containers of one pod, as its helper knows them: their processes, their output, and how they ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use container_log::{Stream, Writer};
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::cgroup::Cgroup;
use crate::config::{ContainerConfig, PidNamespace, Process, Resources};

use crate::start::{self, Context, HostMounts, Namespaces, StartError, Started, Streams};
use crate::wire::{ContainerState, Ended, PodState, Reply, Request};

/// What is read of an output at once.
const CHUNK: usize = 64 << 10;
/// What of a container's output waits for one who attached and does not read; then he is let go.
const MOST_PENDING: usize = 4 << 20;

pub struct Containers {
    directory: PathBuf,
    pid_namespace: Option<OwnedFd>,
    shared_memory: Option<PathBuf>,
    host_mounts: HostMounts,
    all: Vec<Container>,
    execs: Vec<Exec>,
    next_exec: u64,
    changed: bool,
    buffer: Vec<u8>,
}

struct Container {
    config: ContainerConfig,
    pid: Pid,
    pidfd: OwnedFd,
    cgroup: Option<Cgroup>,
    log: Option<Writer>,
    /// Where its output comes from; closed at its end. With a terminal, the first one is that.
    outputs: [Option<OwnedFd>; 2],
    stdin: Option<OwnedFd>,
    attached: Vec<Attached>,
    started: u64,
    ended: Option<Ended>,
}

/// Somebody who wants to see the output.
struct Attached {
    outputs: [Option<OwnedFd>; 2],
    pending: [Vec<u8>; 2],
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
    Output(usize, Stream),
    /// A process may have ended.
    Process,
}

type Answer = (Reply, Option<OwnedFd>);

impl Containers {
    pub fn new(
        directory: &Path,
        pid_namespace: Option<OwnedFd>,
        shared_memory: Option<PathBuf>,
        host_mounts: HostMounts,
    ) -> Containers {
        Containers {
            directory: directory.to_owned(),
            pid_namespace,
            shared_memory,
            host_mounts,
            all: Vec::new(),
            execs: Vec::new(),
            next_exec: 0,
            changed: false,
            buffer: vec![0; CHUNK],
        }
    }

    pub fn sources(&self) -> Vec<(Source, BorrowedFd<'_>)> {
        let mut all = Vec::new();
        for (at, container) in self.all.iter().enumerate() {
            for stream in [Stream::Stdout, Stream::Stderr] {
                if let Some(output) = &container.outputs[stream as usize] {
                    all.push((Source::Output(at, stream), output.as_fd()));
                }
            }
            if container.ended.is_none() {
                all.push((Source::Process, container.pidfd.as_fd()));
            }
        }
        all.extend(self.execs.iter().map(|exec| (Source::Process, exec.pidfd.as_fd())));
        all
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
        let (path, new) = (self.directory.join("state.json"), self.directory.join("state.json.new"));
        if let Ok(text) = serde_json::to_vec(&self.state())
            && std::fs::write(&new, text).is_ok()
        {
            let _ = std::fs::rename(new, path);
        }
    }

    pub fn state(&self) -> PodState {
        let containers = self.all.iter().map(|container| ContainerState {
            id: container.config.id.clone(),
            pid: container.pid.as_raw_nonzero().get(),
            started: container.started,
            ended: container.ended.clone(),
        });
        PodState { pid: rustix::process::getpid().as_raw_nonzero().get(), containers: containers.collect() }
    }

    pub fn handle(
        &mut self,
        connection: u64,
        request: Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, StartError> {
        match request {
            Request::Watch => return Ok((Reply::State(self.state()), None)),
            Request::Start(config) => self.start(*config)?,
            Request::Signal { container, signal, all } => self.signal(&container, signal, all)?,
            Request::Exec { container, process } => {
                return self.exec(connection, &container, &process, descriptors);
            }
            Request::SignalExec { exec, signal } => {
                if let Some(exec) = self.execs.iter().find(|one| one.id == exec) {
                    send_signal(&exec.pidfd, signal)?;
                }
            }
            Request::Attach { container } => return self.attach(&container, descriptors),
            Request::Resize { container, exec, width, height } => {
                let exec = exec.and_then(|id| self.execs.iter().find(|one| one.id == id));
                let terminal = match exec {
                    Some(exec) => exec.terminal.as_ref(),
                    None => self.find(&container)?.outputs[0].as_ref(),
                };
                if let Some(terminal) = terminal {
                    let size = rustix::termios::Winsize {
                        ws_row: height,
                        ws_col: width,
                        ws_xpixel: 0,
                        ws_ypixel: 0,
                    };
                    let _ = rustix::termios::tcsetwinsize(terminal, size);
                }
            }
            Request::ReopenLog { container } => {
                if let Some(log) = &mut self.find_mut(&container)?.log {
                    log.reopen().context(|| "failed to reopen the log".to_owned())?;
                }
            }
            Request::Remove { container } => self.remove(&container)?,
            Request::Shutdown => {}
        }
        Ok((Reply::Done, None))
    }

    fn find(&self, id: &str) -> Result<&Container, StartError> {
        self.all.iter().find(|one| one.config.id == id).ok_or_else(|| not_found(id))
    }

    fn find_mut(&mut self, id: &str) -> Result<&mut Container, StartError> {
        self.all.iter_mut().find(|one| one.config.id == id).ok_or_else(|| not_found(id))
    }

    fn start(&mut self, config: ContainerConfig) -> Result<(), StartError> {
        if self.all.iter().any(|one| one.config.id == config.id) {
            return Err(StartError(format!("container {} is there already", config.id)));
        }
        let log = if config.log.as_os_str().is_empty() {
            None
        } else {
            Some(Writer::open(&config.log).context(|| format!("failed to open {}", config.log.display()))?)
        };
        let cgroup = (!config.cgroup.as_os_str().is_empty()).then(|| Cgroup::at_host(&config.cgroup));
        if let Some(cgroup) = &cgroup {
            set_up_cgroup(cgroup, &config.resources).inspect_err(|_| drop(cgroup.remove()))?;
        } else if config.resources.devices.is_some() {
            return Err(StartError("devices are restricted by a cgroup, and there is none".to_owned()));
        }
        let pipe =
            || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context(|| "failed to create a pipe".to_owned());
        let (stdin, stdin_kept) = if config.stdin && !config.process.terminal {
            let (read, write) = pipe()?;
            (read, Some(write))
        } else {
            (null()?, None)
        };
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        let streams = Streams { stdin, stdout: their_stdout, stderr: their_stderr };
        let namespaces = Namespaces {
            pid: self.pid_namespace.as_ref(),
            shared_memory: self.shared_memory.as_deref(),
            host_mounts: &self.host_mounts,
        };
        let started = start::container(&config, &namespaces, cgroup.as_ref(), streams);
        let Started { pid, pidfd, terminal } = match started {
            Ok(started) => started,
            Err(why) => {
                if let Some(cgroup) = &cgroup {
                    let _ = cgroup.remove();
                }
                return Err(why);
            }
        };
        let outputs = match terminal {
            Some(terminal) => [Some(terminal), None],
            None => [Some(stdout), Some(stderr)],
        };
        for output in outputs.iter().flatten() {
            set_nonblocking(output)?;
        }
        self.all.push(Container {
            config,
            pid,
            pidfd,
            cgroup,
            log,
            outputs,
            stdin: stdin_kept,
            attached: Vec::new(),
            started: now(),
            ended: None,
        });
        self.changed = true;
        Ok(())
    }

    fn signal(&mut self, id: &str, signal: i32, all: bool) -> Result<(), StartError> {
        let container = self.find(id)?;
        if all && let Some(cgroup) = &container.cgroup {
            cgroup.kill();
        }
        if container.ended.is_none() {
            send_signal(&container.pidfd, signal)?;
        }
        Ok(())
    }

    fn exec(
        &mut self,
        connection: u64,
        id: &str,
        process: &Process,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, StartError> {
        let container = self.find(id)?;
        if container.ended.is_some() {
            return Err(StartError(format!("container {id} is not running")));
        }
        let mut given = descriptors.into_iter();
        let mut next = || given.next().map_or_else(null, Ok);
        let streams = Streams { stdin: next()?, stdout: next()?, stderr: next()? };
        let started = start::exec(process, &container.pidfd, container.cgroup.as_ref(), streams)?;
        let terminal = match &started.terminal {
            Some(terminal) => {
                Some(terminal.try_clone().context(|| "failed to share the terminal".to_owned())?)
            }
            None => None,
        };
        self.next_exec += 1;
        self.execs.push(Exec {
            id: self.next_exec,
            connection,
            container: id.to_owned(),
            pid: started.pid,
            pidfd: started.pidfd,
            terminal: started.terminal,
        });
        Ok((Reply::Execed { exec: self.next_exec }, terminal))
    }

    /// What comes from now on goes there, too; and back goes what can be written to.
    fn attach(&mut self, id: &str, descriptors: Vec<OwnedFd>) -> Result<Answer, StartError> {
        let container = self.find_mut(id)?;
        let mut given = descriptors.into_iter();
        let outputs = [given.next(), given.next()];
        for output in outputs.iter().flatten() {
            set_nonblocking(output)?;
        }
        container.attached.push(Attached { outputs, pending: [Vec::new(), Vec::new()] });
        let input = if container.config.process.terminal {
            container.outputs[0].as_ref()
        } else {
            container.stdin.as_ref()
        };
        let input = match input {
            Some(input) => {
                Some(input.try_clone().context(|| "failed to share the standard input".to_owned())?)
            }
            None => None,
        };
        if container.config.stdin_once && !container.config.process.terminal {
            container.stdin = None;
        }
        Ok((Reply::Attached, input))
    }

    fn remove(&mut self, id: &str) -> Result<(), StartError> {
        let container = self.find(id)?;
        if container.ended.is_none() {
            return Err(StartError(format!("container {id} is running")));
        }
        if let Some(cgroup) = &container.cgroup {
            cgroup.kill();
            cgroup.remove().context(|| "failed to remove the cgroup".to_owned())?;
        }
        self.all.retain(|one| one.config.id != id);
        self.changed = true;
        Ok(())
    }

    /// Takes what a container wrote.
    pub fn readable(&mut self, source: Source) {
        let Source::Output(at, stream) = source else { return };
        if let Some(container) = self.all.get_mut(at) {
            container.copy(stream, &mut self.buffer);
        }
    }

    /// Who ended: containers are remembered, and the ends of other processes go to who asked for them.
    pub fn reap(&mut self) -> Vec<(u64, u64, i32)> {
        let mut ended = Vec::new();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(at) = self.execs.iter().position(|exec| exec.pid == pid) {
                let exec = self.execs.remove(at);
                ended.push((exec.connection, exec.id, exit_code(status).0));
            }
            let container = self.all.iter_mut().find(|one| one.pid == pid && one.ended.is_none());
            if let Some(container) = container {
                container.end(status, &mut self.buffer);
                self.changed = true;
                let id = &container.config.id;
                for exec in self.execs.iter().filter(|exec| exec.container == *id) {
                    let _ = rustix::process::pidfd_send_signal(&exec.pidfd, Signal::KILL);
                }
            }
        }
        ended
    }

    /// At once, whatever they do.
    pub fn end_all(&mut self) {
        for container in &self.all {
            if container.ended.is_none() {
                let _ = rustix::process::pidfd_send_signal(&container.pidfd, Signal::KILL);
            }
            if let Some(cgroup) = &container.cgroup {
                cgroup.kill();
            }
        }
        while self.all.iter().any(|one| one.ended.is_none()) {
            let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::empty()) else { break };
            if let Some(container) = self.all.iter_mut().find(|one| one.pid == pid) {
                container.end(status, &mut self.buffer);
            }
        }
        self.save();
        for cgroup in self.all.iter().filter_map(|one| one.cgroup.as_ref()) {
            let _ = cgroup.remove();
        }
    }
}

impl Container {
    /// Reads once; a stream that ended is closed.
    fn copy(&mut self, stream: Stream, buffer: &mut [u8]) -> bool {
        let at = stream as usize;
        let Some(output) = &self.outputs[at] else { return false };
        let read = match rustix::io::read(output, &mut *buffer) {
            Ok(0) => None,
            Ok(read) => Some(read),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
            // A terminal that nobody holds any more.
            Err(_) => None,
        };
        let Some(read) = read else {
            self.outputs[at] = None;
            for attached in &mut self.attached {
                attached.outputs[at] = None;
            }
            self.attached.retain(|one| one.outputs.iter().any(Option::is_some));
            return false;
        };
        let bytes = &buffer[..read];
        if let Some(log) = &mut self.log {
            // A full disk loses lines, not the container.
            let _ = log.write(stream, i128::from(now()), bytes);
        }
        for attached in &mut self.attached {
            attached.give(at, bytes);
        }
        true
    }

    fn end(&mut self, status: WaitStatus, buffer: &mut [u8]) {
        let (code, signal) = exit_code(status);
        let oom_killed = signal == Signal::KILL.as_raw()
            && self.cgroup.as_ref().is_some_and(|group| group.oom_kills() > 0);
        if self.config.pid != PidNamespace::Own
            && let Some(cgroup) = &self.cgroup
        {
            // No namespace of its own that ends with its first process.
            cgroup.kill();
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            while self.copy(stream, buffer) {}
        }
        if let Some(log) = &mut self.log {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let _ = log.end(stream, i128::from(now()));
            }
        }
        self.stdin = None;
        self.ended = Some(Ended { finished: now(), code, signal, oom_killed });
    }
}

impl Attached {
    fn give(&mut self, at: usize, bytes: &[u8]) {
        let Some(output) = &self.outputs[at] else { return };
        let pending = &mut self.pending[at];
        pending.extend_from_slice(bytes);
        match rustix::io::write(output, pending) {
            Ok(written) => drop(pending.drain(..written)),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => self.outputs[at] = None,
        }
        if self.pending[at].len() > MOST_PENDING {
            self.outputs[at] = None;
        }
    }
}

fn set_up_cgroup(cgroup: &Cgroup, resources: &Resources) -> Result<(), StartError> {
    let failed = || "failed to set up the cgroup".to_owned();
    cgroup.create().and_then(|()| cgroup.set(resources)).context(failed)?;
    resources.devices.iter().try_for_each(|lines| cgroup.restrict_devices(lines).context(failed))
}

fn not_found(id: &str) -> StartError {
    StartError(format!("container {id} not found"))
}

fn null() -> Result<OwnedFd, StartError> {
    let file = std::fs::File::options().read(true).write(true).open("/dev/null");
    Ok(file.context(|| "failed to open /dev/null".to_owned())?.into())
}

fn set_nonblocking(file: &OwnedFd) -> Result<(), StartError> {
    let failed = || "failed to set a descriptor".to_owned();
    let flags = rustix::fs::fcntl_getfl(file).context(failed)?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK).context(failed)
}

fn send_signal(pidfd: &OwnedFd, signal: i32) -> Result<(), StartError> {
    let signal =
        Signal::from_named_raw(signal).ok_or_else(|| StartError(format!("unknown signal {signal}")))?;
    match rustix::process::pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context(|| "failed to send the signal".to_owned()),
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
