//! A container from its configuration to its first instruction.
//!
//! The child does everything that happens inside its namespaces and tells through a pipe why it could not; the pipe closes by
//! itself when the program starts. Until the parent has put it into its cgroup, it waits. The parent never does: what it started is
//! [`Pending`] until the pipe says how it went.

mod identity;
mod pending;
mod program;
mod rootfs;

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::cgroup::Cgroup;
use crate::config::{ContainerConfig, PidNamespace, Process};
use crate::sys::{self, CloneFlags, Fork};

pub use pending::Pending;
use pending::{Channel, Wanted};
pub use rootfs::{HostMounts, make_filesystem, open_null};

/// A process that was started.
pub struct Started {
    pub pid: Pid,
    pub pidfd: OwnedFd,
    /// The master side of its terminal, if it asked for one.
    pub terminal: Option<OwnedFd>,
}

impl Streams {
    fn descriptors(&self) -> [RawFd; 3] {
        [&self.stdin, &self.stdout, &self.stderr].map(AsRawFd::as_raw_fd)
    }
}

/// The three standard streams as the process shall have them; ignored with a terminal.
pub struct Streams {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Where a pod's containers live.
pub struct Namespaces<'a> {
    /// Of all containers, if they share one.
    pub pid: Option<&'a OwnedFd>,
    pub shared_memory: Option<&'a std::path::Path>,
    pub host_mounts: &'a HostMounts,
    pub users: Option<&'a Users>,
}

/// Users of the pod's own.
pub struct Users {
    pub namespace: OwnedFd,
    /// Who its root is on the host.
    pub uid: u32,
    pub gid: u32,
}

impl Users {
    /// From here on this process may do everything there, and nothing on the host.
    pub fn enter(&self) -> Result<(), StartError> {
        rustix::thread::move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::User))
            .context(|| "failed to enter the pod's user namespace".to_owned())?;
        Users::become_root()
    }

    /// The host's root is nobody there, and what he makes would belong to nobody.
    fn become_root() -> Result<(), StartError> {
        use rustix::process::{Gid, Uid};
        let failed = || "failed to become the root of the pod's users".to_owned();
        rustix::thread::set_thread_groups(&[]).context(failed)?;
        rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).context(failed)?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).context(failed)
    }
}

/// Why a container did not start: told by the child in words, or by the kernel.
#[derive(Debug)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// Says what was tried.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, StartError>;
}

impl<T, E: std::fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, StartError> {
        self.map_err(|error| StartError(format!("{}: {error}", what())))
    }
}

/// Starts the first process of a container.
pub fn container(
    config: &ContainerConfig,
    namespaces: &Namespaces<'_>,
    cgroup: Option<&Cgroup>,
    streams: Streams,
) -> Result<Pending, StartError> {
    let channel = Channel::new().context(|| "failed to create pipes".to_owned())?;
    let mut kept = streams.descriptors().to_vec();
    kept.push(namespaces.host_mounts.as_raw_fd());
    kept.extend(namespaces.users.map(|users| users.namespace.as_raw_fd()));
    kept.extend(namespaces.pid.map(AsRawFd::as_raw_fd));
    let inner = match config.pid {
        PidNamespace::Own => CloneFlags::NEW_PID.and(CloneFlags::NEW_MOUNT),
        PidNamespace::Pod | PidNamespace::Host => CloneFlags::NEW_MOUNT,
    };
    // With users of the pod's own, the namespaces belong to them: they are made by a process between that becomes one of them, after
    // it has prepared what only the host's root can.
    let between = namespaces.users.is_some();
    let back = if between { None } else { enter_pid_namespace(config.pid, namespaces.pid)? };
    let forked = sys::clone(if between { CloneFlags::NEW_MOUNT } else { inner });
    if !matches!(forked, Ok(Fork::Child)) {
        leave_pid_namespace(back)?;
    }
    match forked.context(|| "failed to fork".to_owned())? {
        Fork::Child => child(channel, &kept, |channel| {
            wait_for_go(channel)?;
            // Here, not in the parent: a file system that does not answer holds up this process alone.
            let prepared = rootfs::prepare(config, namespaces)?;
            if let Some(users) = namespaces.users {
                program::set_limits(&config.process)?;
                program::give(&streams, users);
                users.enter()?;
                enter_pid_namespace(config.pid, namespaces.pid)?;
            }
            let mut kept = prepared.descriptors();
            kept.extend(streams.descriptors().into_iter().chain(channel.of_child()));
            sys::close_all_but(&kept).context(|| "failed to close descriptors".to_owned())?;
            if between {
                fork_sibling(channel, inner)?;
                wait_for_go(channel)?;
            }
            rootfs::enter(config, prepared)?;
            become_process(&config.process, channel, streams)
        }),
        Fork::Parent { pid, pidfd } => {
            let wanted = Wanted { cgroup, beside: None, process: &config.process, between };
            Pending::new(channel, pid, pidfd, &wanted)
        }
    }
}

/// Starts one more process in a container that runs; `cgroup`: the container's, and its first process.
pub fn exec(
    process: &Process,
    into: &OwnedFd,
    users: Option<&Users>,
    cgroup: Option<(Pid, &Cgroup)>,
    streams: Streams,
) -> Result<Pending, StartError> {
    use rustix::thread::{ThreadNameSpaceType as Kind, move_into_thread_name_spaces};
    let failed = || "failed to enter the container".to_owned();
    let channel = Channel::new().context(|| "failed to create pipes".to_owned())?;
    let mut kept = streams.descriptors().to_vec();
    kept.push(into.as_raw_fd());
    // A process namespace holds children only, so the one that enters it forks once more; its child is this process' child.
    // Whoever may look into processes sees only the latter, which is within the container already.
    match sys::clone(CloneFlags::default()).context(|| "failed to fork".to_owned())? {
        Fork::Child => child(channel, &kept, |channel| {
            wait_for_go(channel)?;
            let mut all = Kind::MOUNT | Kind::PROCESS_ID | Kind::CONTROL_GROUP;
            if let Some(users) = users {
                program::set_limits(process)?;
                program::give(&streams, users);
                all |= Kind::USER;
            }
            move_into_thread_name_spaces(into.as_fd(), all).context(failed)?;
            users.map_or(Ok(()), |_| Users::become_root())?;
            fork_sibling(channel, CloneFlags::default())?;
            wait_for_go(channel)?;
            become_process(process, channel, streams)
        }),
        Fork::Parent { pid, pidfd } => {
            let (first, cgroup) = cgroup.unzip();
            let wanted = Wanted { cgroup, beside: first, process, between: true };
            Pending::new(channel, pid, pidfd, &wanted)
        }
    }
}

/// Goes on as a child of this process' parent, which hears of it; this process ends.
fn fork_sibling(channel: &Channel, flags: CloneFlags) -> Result<(), StartError> {
    match sys::clone(CloneFlags::SIBLING.and(flags)).context(|| "failed to fork".to_owned())? {
        Fork::Parent { pid, .. } => {
            pending::tell_pid(channel, pid)?;
            std::process::exit(0)
        }
        Fork::Child => die_with_parent(),
    }
}

/// Children are born where this process points to; it stays itself where it is.
fn enter_pid_namespace(
    wanted: PidNamespace,
    of_pod: Option<&OwnedFd>,
) -> Result<Option<OwnedFd>, StartError> {
    let (PidNamespace::Pod, Some(of_pod)) = (wanted, of_pod) else { return Ok(None) };
    let own = open_pid_namespace()?;
    rustix::thread::move_into_link_name_space(of_pod.as_fd(), Some(LinkNameSpaceType::ProcessID))
        .context(|| "failed to enter the pod's process namespace".to_owned())?;
    Ok(Some(own))
}

/// Where this process itself is.
fn open_pid_namespace() -> Result<OwnedFd, StartError> {
    let file = std::fs::File::open("/proc/self/ns/pid");
    Ok(file.context(|| "failed to open /proc/self/ns/pid".to_owned())?.into())
}

fn leave_pid_namespace(back: Option<OwnedFd>) -> Result<(), StartError> {
    let Some(back) = back else { return Ok(()) };
    rustix::thread::move_into_link_name_space(back.as_fd(), Some(LinkNameSpaceType::ProcessID))
        .context(|| "failed to leave the pod's process namespace".to_owned())
}

/// Runs what turns the child into the container; never returns. Nothing else of the helper's is open in it from here on: soon it
/// is where others can look.
fn child(channel: Channel, kept: &[RawFd], run: impl FnOnce(&Channel) -> Result<Never, StartError>) -> ! {
    let kept: Vec<RawFd> = kept.iter().copied().chain(channel.of_child()).collect();
    let ready = die_with_parent()
        .and_then(|()| sys::close_all_but(&kept).context(|| "failed to close descriptors".to_owned()));
    let Err(why) = ready.and_then(|()| run(&channel));
    let _ = std::fs::File::from(channel.error.1).write_all(why.0.as_bytes());
    std::process::exit(127)
}

/// Should the parent be gone already, there is nobody to say go.
fn die_with_parent() -> Result<(), StartError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context(|| "failed to set the parent death signal".to_owned())
}

pub(crate) enum Never {}

fn wait_for_go(channel: &Channel) -> Result<(), StartError> {
    let mut byte = [0];
    let read = rustix::io::read(&channel.go.0, &mut byte).context(|| "failed to wait".to_owned())?;
    if read == 0 { Err(StartError("the helper went away".to_owned())) } else { Ok(()) }
}

/// From here on this is the container's own process, inside its root.
fn become_process(process: &Process, channel: &Channel, streams: Streams) -> Result<Never, StartError> {
    rustix::process::setsid().context(|| "failed to create a session".to_owned())?;
    if process.terminal {
        program::open_terminal(&channel.terminal.1)?;
    } else {
        program::use_streams(streams)?;
    }
    program::set_limits(process)?;
    let user = identity::resolve(&process.user)?;
    program::give_streams(user.uid);
    // A kernel without keys has none to hide.
    let _ = sys::join_new_session_keyring();
    // An unprivileged process may install a filter only if it gave up on privileges: so before, or after that promise.
    if !process.seccomp.is_empty() && !process.no_new_privileges {
        sys::set_seccomp_filter(&process.seccomp).context(|| "failed to set seccomp".to_owned())?;
    }
    program::change_directory(process)?;
    identity::assume(process, &user)?;
    if process.no_new_privileges {
        rustix::thread::set_no_new_privs(true).context(|| "failed to set no_new_privs".to_owned())?;
        if !process.seccomp.is_empty() {
            sys::set_seccomp_filter(&process.seccomp).context(|| "failed to set seccomp".to_owned())?;
        }
    }
    program::execute(process, &user)
}

/// The cgroups a container sees begin at its own.
pub(crate) fn unshare_cgroups() -> Result<(), StartError> {
    // Only this namespace: no memory or descriptors are shared or parted.
    #[allow(deprecated)]
    rustix::thread::unshare(UnshareFlags::NEWCGROUP).context(|| "failed to unshare cgroups".to_owned())
}
