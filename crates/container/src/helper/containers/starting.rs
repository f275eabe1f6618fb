//! Containers and execs that were asked for and do not run yet.

use std::os::fd::{AsFd, OwnedFd};

use container_log::Writer;
use rustix::pipe::PipeFlags;
use rustix::process::WaitStatus;

use super::container::Container;
use super::leaving::Leaving;
use super::{Containers, Exec, now};
use crate::cgroup::Cgroup;
use crate::config::{ContainerConfig, Process, Resources};
use crate::start::{self, Context, Namespaces, Pending, StartError, Started, Streams};
use crate::sys;
use crate::wire::Reply;

pub struct Starting {
    pub key: u64,
    pub connection: u64,
    pub process: Pending,
    pub what: What,
    /// Of the process, if it was faster than the news of its start.
    pub ended: Option<WaitStatus>,
}

pub enum What {
    Container(Box<New>),
    /// In the container of this name.
    Exec(String),
}

/// What a container has before it runs.
pub struct New {
    config: ContainerConfig,
    cgroup: Option<Cgroup>,
    oom_kills: u64,
    log: Option<Writer>,
    outputs: [Option<OwnedFd>; 2],
    stdin: Option<OwnedFd>,
}

impl Containers {
    pub(super) fn start(&mut self, connection: u64, config: ContainerConfig) -> Result<(), StartError> {
        let starts = |one: &Starting| matches!(&one.what, What::Container(new) if new.config.id == config.id);
        if self.all.iter().any(|one| one.config.id == config.id) || self.starting.iter().any(starts) {
            return Err(StartError(format!("container {} is there already", config.id)));
        }
        let log = if config.log.as_os_str().is_empty() {
            None
        } else {
            Some(Writer::open(&config.log).context(|| format!("failed to open {}", config.log.display()))?)
        };
        let cgroup = (!config.cgroup.as_os_str().is_empty()).then(|| Cgroup::at_host(&config.cgroup));
        if let Some(cgroup) = &cgroup {
            if self.is_leaving(cgroup) {
                return Err(StartError(format!("cgroup {} is being removed", config.cgroup.display())));
            }
            set_up_cgroup(cgroup, &config.resources).inspect_err(|_| drop(cgroup.remove()))?;
        } else if config.resources.devices.is_some() {
            return Err(StartError("devices are restricted by a cgroup, and there is none".to_owned()));
        }
        let oom_kills = cgroup.as_ref().map_or(0, Cgroup::oom_kills);
        let mut new = New { config, cgroup, oom_kills, log, outputs: [None, None], stdin: None };
        match self.fork(&mut new) {
            Ok(process) => {
                let (key, what) = (self.key(), What::Container(Box::new(new)));
                self.starting.push(Starting { key, connection, process, what, ended: None });
            }
            Err(why) => self.leave_after(new.cgroup, connection, Err(why)),
        }
        Ok(())
    }

    fn pid_namespace_of(&self, id: &str) -> Result<OwnedFd, StartError> {
        let target = self.find(id)?;
        if target.ended.is_some() {
            return Err(StartError(format!("container {id} is not running")));
        }
        let path = format!("/proc/{}/ns/pid", target.pid.as_raw_nonzero());
        Ok(std::fs::File::open(&path).context(|| format!("failed to open {path}"))?.into())
    }

    fn fork(&self, new: &mut New) -> Result<Pending, StartError> {
        let config = &new.config;
        let target = match &*config.pid_of {
            "" => None,
            id => Some(self.pid_namespace_of(id)?),
        };
        let pipe =
            || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context(|| "failed to create a pipe".to_owned());
        let stdin = if config.stdin && !config.process.terminal {
            let (read, write) = pipe()?;
            new.stdin = Some(write);
            read
        } else {
            start::open_null()?
        };
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        for output in [&stdout, &stderr] {
            sys::set_nonblocking(output.as_fd()).context(|| "failed to set a descriptor".to_owned())?;
        }
        new.outputs = [Some(stdout), Some(stderr)];
        let streams = Streams { stdin, stdout: their_stdout, stderr: their_stderr };
        let namespaces = Namespaces {
            pid: target.as_ref().or(self.shared.pid_namespace.as_ref()),
            shared_memory: self.shared.shared_memory.as_deref(),
            host_mounts: &self.shared.host_mounts,
            users: self.shared.users.as_ref(),
        };
        start::container(config, &namespaces, new.cgroup.as_ref(), streams)
    }

    pub(super) fn exec(
        &mut self,
        connection: u64,
        id: &str,
        process: &Process,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), StartError> {
        let container = self.find(id)?;
        if container.ended.is_some() {
            return Err(StartError(format!("container {id} is not running")));
        }
        let mut given = descriptors.into_iter();
        let mut next = || given.next().map_or_else(start::open_null, Ok);
        let streams = Streams { stdin: next()?, stdout: next()?, stderr: next()? };
        let users = self.shared.users.as_ref();
        let cgroup = container.cgroup.as_ref().map(|cgroup| (container.pid, cgroup));
        let process = start::exec(process, &container.pidfd, users, cgroup, streams)?;
        let (key, what) = (self.key(), What::Exec(id.to_owned()));
        self.starting.push(Starting { key, connection, process, what, ended: None });
        Ok(())
    }

    pub(super) fn hear_of_start(&mut self, key: u64) {
        let Some(at) = self.starting.iter().position(|one| one.key == key) else { return };
        match self.starting[at].process.hear() {
            Ok(false) => {}
            Ok(true) => {
                let Starting { connection, process, what, ended, .. } = self.starting.remove(at);
                let started = process.started();
                let pid = started.pid;
                match what {
                    What::Container(new) => self.add_container(connection, *new, started),
                    What::Exec(container) => self.add_exec(connection, container, started),
                }
                if let Some(status) = ended {
                    self.end_process(pid, status);
                }
            }
            Err(why) => self.fail_start(at, why),
        }
    }

    pub(super) fn end_late_starts(&mut self) {
        let now = sys::monotonic();
        let late = self.starting.iter().filter(|one| one.process.deadline() <= now);
        for key in late.map(|one| one.key).collect::<Vec<_>>() {
            self.hear_of_start(key);
        }
    }

    /// It is killed, and buried with all other children when it is gone.
    pub(super) fn fail_start(&mut self, at: usize, why: StartError) {
        let Starting { connection, process, what, .. } = self.starting.remove(at);
        process.kill();
        let cgroup = match what {
            What::Container(new) => new.cgroup,
            What::Exec(_) => None,
        };
        self.leave_after(cgroup, connection, Err(why));
    }

    fn add_container(&mut self, connection: u64, new: New, started: Started) {
        let New { config, cgroup, oom_kills, log, mut outputs, stdin } = new;
        if let Some(terminal) = started.terminal {
            // Its pipes were for a start that failed.
            let _ = sys::set_nonblocking(terminal.as_fd());
            outputs = [Some(terminal), None];
        }
        let key = self.key();
        let (pid, pidfd) = (started.pid, started.pidfd);
        self.all.push(Container {
            key,
            config,
            pid,
            pidfd,
            cgroup,
            oom_kills,
            log,
            outputs,
            stdin,
            started: now(),
            ended: None,
            kill_until: None,
        });
        self.changed = true;
        self.answers.push((connection, Ok((Reply::Done, None))));
    }

    fn add_exec(&mut self, connection: u64, container: String, started: Started) {
        let Started { pid, pidfd, terminal } = started;
        let given = terminal.as_ref().map(OwnedFd::try_clone).transpose();
        let answer = match given {
            Ok(given) => {
                let id = self.key();
                self.execs.push(Exec { id, connection, container, pid, pidfd, terminal });
                Ok((Reply::Execed { exec: id }, given))
            }
            Err(why) => {
                let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
                Err(why).context(|| "failed to share the terminal".to_owned())
            }
        };
        self.answers.push((connection, answer));
    }

    /// The answer comes when the cgroup is gone, so that the same container can be tried again at once.
    fn leave_after(
        &mut self,
        cgroup: Option<Cgroup>,
        connection: u64,
        answer: Result<super::Answer, StartError>,
    ) {
        match cgroup {
            Some(cgroup) => {
                self.leaving.push(Leaving::after_start(cgroup, connection, answer));
                self.go_on_leaving();
            }
            None => self.answers.push((connection, answer)),
        }
    }
}

fn set_up_cgroup(cgroup: &Cgroup, resources: &Resources) -> Result<(), StartError> {
    let failed = || "failed to set up the cgroup".to_owned();
    cgroup.create().and_then(|()| cgroup.set(resources)).context(failed)?;
    if !resources.single_process_oom {
        cgroup.end_together().context(failed)?;
    }
    resources.devices.iter().try_for_each(|lines| cgroup.restrict_devices(lines).context(failed))
}
