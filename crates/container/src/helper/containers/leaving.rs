//! The end of containers: their last processes and their cgroups, tried again until they are gone, for a while.

use std::time::Duration;

use rustix::process::Signal;

use super::{Answer, Containers};
use crate::cgroup::Cgroup;
use crate::start::{Context, StartError};
use crate::sys;
use crate::wire::Reply;

/// What was killed is gone in a moment, unless it hangs in the kernel.
const MOST: Duration = Duration::from_secs(10);
/// So long the end of a pod waits for those who still read its output.
const FLUSH: Duration = Duration::from_secs(2);

/// A cgroup to be removed as soon as the last of its processes is gone.
pub struct Leaving {
    cgroup: Cgroup,
    connection: u64,
    deadline: Duration,
    kind: Kind,
}

enum Kind {
    /// What is to be said of a start, whatever becomes of its cgroup.
    AfterStart(Result<Answer, StartError>),
    /// To be forgotten afterwards.
    Container(String),
}

pub struct Shutdown {
    pub connection: u64,
    since: Duration,
}

impl Leaving {
    pub fn after_start(cgroup: Cgroup, connection: u64, answer: Result<Answer, StartError>) -> Leaving {
        Leaving { cgroup, connection, deadline: sys::monotonic() + MOST, kind: Kind::AfterStart(answer) }
    }

    pub fn is_awaited_by(&self, connection: u64) -> bool {
        self.connection == connection
    }
}

impl Containers {
    pub(super) fn remove(&mut self, connection: u64, id: &str) -> Result<(), StartError> {
        let container = self.find(id)?;
        if container.ended.is_none() {
            return Err(StartError(format!("container {id} is running")));
        }
        let kind = Kind::Container(id.to_owned());
        match container.cgroup.clone() {
            Some(cgroup) => {
                let deadline = sys::monotonic() + MOST;
                self.leaving.push(Leaving { cgroup, connection, deadline, kind });
                self.go_on_leaving();
            }
            None => self.left(connection, kind, Ok(())),
        }
        Ok(())
    }

    /// Whether what is left of an earlier one is killed there.
    pub(super) fn is_leaving(&self, cgroup: &Cgroup) -> bool {
        self.leaving.iter().any(|one| one.cgroup == *cgroup)
    }

    pub(super) fn go_on_leaving(&mut self) {
        let now = sys::monotonic();
        for one in std::mem::take(&mut self.leaving) {
            one.cgroup.kill();
            match one.cgroup.remove() {
                Err(_) if now < one.deadline => self.leaving.push(one),
                removed => {
                    let removed = removed.context(|| "failed to remove the cgroup".to_owned());
                    self.left(one.connection, one.kind, removed);
                }
            }
        }
    }

    fn left(&mut self, connection: u64, kind: Kind, removed: Result<(), StartError>) {
        let answer = match (kind, removed) {
            (Kind::AfterStart(answer), _) => answer,
            (Kind::Container(_), Err(why)) => Err(why),
            (Kind::Container(id), Ok(())) => {
                if let Some(at) = self.all.iter().position(|one| one.config.id == id) {
                    let mut gone = self.all.remove(at);
                    let to = self.attached.iter_mut().filter(|one| one.to == gone.key);
                    to.for_each(|one| (0..gone.outputs.len()).for_each(|at| one.end(at)));
                    gone.outputs = [None, None];
                    self.changed = true;
                }
                Ok((Reply::Done, None))
            }
        };
        self.answers.push((connection, answer));
    }

    pub(super) fn shut_down(&mut self, connection: u64) {
        if self.shutdown.is_some() {
            let why = StartError("the pod is being ended already".to_owned());
            self.answers.push((connection, Err(why)));
            return;
        }
        self.shutdown = Some(Shutdown { connection, since: sys::monotonic() });
        while !self.starting.is_empty() {
            self.fail_start(0, StartError("the pod is being ended".to_owned()));
        }
        self.go_on_shutting_down();
    }

    pub(super) fn go_on_shutting_down(&mut self) {
        let Some(Shutdown { connection, since }) = self.shutdown else { return };
        while !self.starting.is_empty() {
            self.fail_start(0, StartError("the pod is being ended".to_owned()));
        }
        let running = self.all.iter().filter(|one| one.ended.is_none()).map(|one| &one.pidfd);
        for pidfd in running.chain(self.execs.iter().map(|exec| &exec.pidfd)) {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
        let cgroups = self.all.iter().filter_map(|one| one.cgroup.as_ref());
        cgroups.for_each(Cgroup::kill);
        let waited = sys::monotonic().saturating_sub(since);
        let all_ended = self.all.iter().all(|one| one.ended.is_some()) && self.execs.is_empty();
        let is_read = self.attached.is_empty() || waited >= FLUSH;
        let mut cgroups = self.all.iter().filter_map(|one| one.cgroup.as_ref());
        if all_ended && is_read && self.leaving.is_empty() && cgroups.all(|cgroup| cgroup.remove().is_ok()) {
            self.save();
            self.shutdown = None;
            self.is_over = true;
            self.answers.push((connection, Ok((Reply::Done, None))));
        } else if waited >= MOST {
            self.shutdown = None;
            let why = StartError("not all processes of the pod have ended".to_owned());
            self.answers.push((connection, Err(why)));
        }
    }
}
