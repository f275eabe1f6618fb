//! A process on its way to its program, as its parent sees it: something to wait for, beside everything else.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::{Context, StartError, Started};
use crate::cgroup::Cgroup;
use crate::config::Process;
use crate::sys;

/// A child that takes longer to become its program is stuck: in a frozen cgroup, or on a file that never answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Nobody has more to say about an error.
const MOST_BYTES: usize = 64 << 10;

/// The two ends of what parent and child tell each other.
pub struct Channel {
    /// The child's error comes here; nothing means that it runs.
    pub error: (OwnedFd, OwnedFd),
    /// A byte: go.
    pub go: (OwnedFd, OwnedFd),
    /// The child's terminal comes here.
    pub terminal: (OwnedFd, OwnedFd),
}

impl Channel {
    pub fn new() -> io::Result<Channel> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        use rustix::pipe::{PipeFlags, pipe_with};
        Ok(Channel {
            error: pipe_with(PipeFlags::CLOEXEC)?,
            go: pipe_with(PipeFlags::CLOEXEC)?,
            terminal: socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?,
        })
    }

    /// The ends that are the child's.
    pub fn of_child(&self) -> [RawFd; 3] {
        [&self.error.1, &self.go.0, &self.terminal.1].map(AsRawFd::as_raw_fd)
    }
}

/// What a process between the parent and the one to be started says before the number of the latter; no error begins so.
const PID_MARK: u8 = 0;

/// Of the process between: tells which one it has forked, as a child of its own parent.
pub fn tell_pid(channel: &Channel, pid: Pid) -> Result<(), StartError> {
    let [a, b, c, d] = pid.as_raw_nonzero().get().to_ne_bytes();
    let written = rustix::io::write(&channel.error.1, &[PID_MARK, a, b, c, d]);
    written.context(|| "failed to tell the process id".to_owned()).map(drop)
}

/// What the child waits for before it goes on.
pub struct Wanted<'a> {
    pub cgroup: Option<&'a Cgroup>,
    /// A process of the same container: where that is, this one can be.
    pub beside: Option<Pid>,
    pub process: &'a Process,
    /// The child forks the one that is meant.
    pub between: bool,
}

/// Forked, and not heard of yet.
pub struct Pending {
    pid: Pid,
    pidfd: OwnedFd,
    error: OwnedFd,
    heard: Vec<u8>,
    go: OwnedFd,
    /// Where a terminal comes from, if one was asked for.
    terminal: Option<OwnedFd>,
    deadline: Duration,
    between: bool,
    cgroup: Option<Cgroup>,
    beside: Option<Pid>,
    oom_score_adj: Option<i32>,
}

impl Pending {
    /// Puts the child where it is counted and lets it go.
    pub fn new(
        channel: Channel,
        pid: Pid,
        pidfd: OwnedFd,
        wanted: &Wanted<'_>,
    ) -> Result<Pending, StartError> {
        let Channel { error: (error, theirs), go: (their_go, go), terminal: (socket, their_socket) } =
            channel;
        drop((theirs, their_go, their_socket));
        let pending = Pending {
            pid,
            pidfd,
            error,
            heard: Vec::new(),
            go,
            terminal: wanted.process.terminal.then_some(socket),
            deadline: sys::monotonic() + START_TIMEOUT,
            between: wanted.between,
            cgroup: wanted.cgroup.cloned(),
            beside: wanted.beside,
            oom_score_adj: wanted.process.oom_score_adj,
        };
        pending.prepare().and_then(|()| pending.let_go()).inspect_err(|_| pending.kill())?;
        Ok(pending)
    }

    fn prepare(&self) -> Result<(), StartError> {
        let failed = || "failed to set a descriptor".to_owned();
        let files = [Some(&self.error), self.terminal.as_ref()];
        files.into_iter().flatten().try_for_each(|file| sys::set_nonblocking(file.as_fd()).context(failed))
    }

    fn let_go(&self) -> Result<(), StartError> {
        let pid = self.pid.as_raw_nonzero().get();
        // One between is counted nowhere: a container may be full, and can be entered all the same.
        if let (false, Some(cgroup)) = (self.between, &self.cgroup) {
            let added = match self.beside {
                None => cgroup.add(pid),
                Some(other) => cgroup.add_beside(pid, other.as_raw_nonzero().get()),
            };
            added.context(|| "failed to join the cgroup".to_owned())?;
        }
        if let (false, Some(adjust)) = (self.between, self.oom_score_adj) {
            // Lowering it needs a capability that not every root has; the kernel then judges as it did.
            let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), adjust.to_string());
        }
        rustix::io::write(&self.go, b"g").context(|| "failed to let it go".to_owned()).map(drop)
    }

    /// The process that will be the program, once it is known.
    pub fn pid(&self) -> Option<Pid> {
        (!self.between).then_some(self.pid)
    }

    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Readable when there is news.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.error.as_fd()
    }

    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Takes the news. `Ok(false)`: it is still on its way.
    pub fn hear(&mut self) -> Result<bool, StartError> {
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.error, &mut buffer) {
                Ok(0) => return self.heard_all(),
                Ok(read) => {
                    let room = MOST_BYTES.saturating_sub(self.heard.len());
                    self.heard.extend_from_slice(&buffer[..read.min(room)]);
                    self.hear_of_next()?;
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context(|| "failed to hear of the start".to_owned()),
            }
        }
        if sys::monotonic() >= self.deadline {
            return Err(StartError("the process did not start in time".to_owned()));
        }
        Ok(false)
    }

    fn heard_all(&self) -> Result<bool, StartError> {
        if !self.heard.is_empty() {
            return Err(StartError(String::from_utf8_lossy(&self.heard).into_owned()));
        }
        if self.between {
            return Err(StartError("the process died before it could start".to_owned()));
        }
        Ok(true)
    }

    /// The one that is meant was forked, and waits as the one between did.
    fn hear_of_next(&mut self) -> Result<(), StartError> {
        let [PID_MARK, a, b, c, d, ..] = *self.heard else { return Ok(()) };
        if !self.between {
            return Ok(());
        }
        let failed = || "failed to open the process".to_owned();
        let pid = Pid::from_raw(i32::from_ne_bytes([a, b, c, d])).ok_or_else(|| StartError(failed()))?;
        self.pidfd =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).context(failed)?;
        self.pid = pid;
        self.between = false;
        self.heard.drain(..5);
        self.let_go()
    }

    /// After it was heard that it runs.
    pub fn started(self) -> Started {
        // Sent before the program began, so it is here.
        let terminal = self.terminal.and_then(|socket| crate::wire::receive_descriptor(&socket).ok());
        Started { pid: self.pid, pidfd: self.pidfd, terminal }
    }
}
