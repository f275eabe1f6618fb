//! One container that was started: its output, and how it ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use container_log::{Stream, Writer};
use rustix::process::{Pid, WaitStatus};

use super::attached::Attached;
use super::{exit_code, now};
use crate::cgroup::Cgroup;
use crate::config::{ContainerConfig, PidNamespace};
use crate::start::{Context, StartError};
use crate::sys;
use crate::wire::{ContainerState, Ended};

/// What is left after that hangs in the kernel.
const MOST_KILLING: Duration = Duration::from_secs(10);
/// What is read of an output at the end, in chunks: what another process goes on writing is read later.
const MOST_CHUNKS: usize = 64;

pub struct Container {
    pub key: u64,
    pub config: ContainerConfig,
    pub pid: Pid,
    pub pidfd: OwnedFd,
    pub cgroup: Option<Cgroup>,
    /// Of the cgroup, before there was anything in it.
    pub oom_kills: u64,
    pub log: Option<Writer>,
    /// Where its output comes from; closed at its end. With a terminal, the first one is that.
    pub outputs: [Option<OwnedFd>; 2],
    pub stdin: Option<OwnedFd>,
    pub started: u64,
    pub ended: Option<Ended>,
    /// Until then what it left behind is killed.
    pub kill_until: Option<Duration>,
}

impl Container {
    pub fn output(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        self.outputs[stream as usize].as_ref().map(AsFd::as_fd)
    }

    pub fn state(&self) -> ContainerState {
        ContainerState {
            id: self.config.id.clone(),
            pid: self.pid.as_raw_nonzero().get(),
            started: self.started,
            ended: self.ended.clone(),
        }
    }

    /// The standard input for one who attaches; given away if only one may have it.
    pub fn share_input(&mut self) -> Result<Option<OwnedFd>, StartError> {
        let shared =
            |file: &OwnedFd| file.try_clone().context(|| "failed to share the standard input".to_owned());
        if self.config.process.terminal {
            return self.outputs[0].as_ref().map(shared).transpose();
        }
        if self.config.stdin_once {
            return Ok(self.stdin.take());
        }
        self.stdin.as_ref().map(shared).transpose()
    }

    /// Reads once; a stream that ended is closed. Whether there may be more.
    pub fn copy(&mut self, stream: Stream, buffer: &mut [u8], attached: &mut [Attached]) -> bool {
        let at = stream as usize;
        let Some(output) = &self.outputs[at] else { return false };
        let attached = attached.iter_mut().filter(|one| one.to == self.key);
        let read = match rustix::io::read(output, &mut *buffer) {
            Ok(0) => None,
            Ok(read) => Some(read),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
            // A terminal that nobody holds any more.
            Err(_) => None,
        };
        let Some(read) = read else {
            self.outputs[at] = None;
            attached.for_each(|one| one.end(at));
            return false;
        };
        let bytes = &buffer[..read];
        if let Some(log) = &mut self.log {
            // A full disk loses lines, not the container.
            let _ = log.write(stream, i128::from(now()), bytes);
        }
        attached.for_each(|one| one.give(at, bytes));
        true
    }

    /// Once more, for what was just forking.
    pub fn go_on_killing(&mut self) {
        let (Some(until), Some(cgroup)) = (self.kill_until, &self.cgroup) else { return };
        if cgroup.all_processes().is_empty() || sys::monotonic() >= until {
            self.kill_until = None;
            self.leave_cgroup();
        } else {
            cgroup.kill();
        }
    }

    pub fn end(&mut self, status: WaitStatus, buffer: &mut [u8], attached: &mut [Attached]) {
        let (code, signal) = exit_code(status);
        // Of any of its processes, as containerd tells it: many a shell goes on when its command was killed.
        let oom_killed = self.cgroup.as_ref().is_some_and(|group| group.oom_kills() > self.oom_kills);
        if self.config.pid != PidNamespace::Own
            && let Some(cgroup) = &self.cgroup
        {
            // No namespace of its own that ends with its first process.
            cgroup.kill();
            self.kill_until = Some(sys::monotonic() + MOST_KILLING);
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            let _ = (0..MOST_CHUNKS).all(|_| self.copy(stream, buffer, attached));
        }
        if let Some(log) = &mut self.log {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let _ = log.end(stream, i128::from(now()));
            }
        }
        // With a terminal there is one output, which carries both.
        if self.config.process.terminal {
            attached.iter_mut().filter(|one| one.to == self.key).for_each(|one| one.end(1));
        }
        self.stdin = None;
        self.ended = Some(Ended { finished: now(), code, signal, oom_killed });
        self.leave_cgroup();
    }

    /// The kernel lets nobody limit a pod below a group in it, also if nothing runs there any more. What is not empty yet goes with the
    /// container.
    fn leave_cgroup(&self) {
        if let Some(cgroup) = &self.cgroup {
            let _ = cgroup.remove();
        }
    }
}
