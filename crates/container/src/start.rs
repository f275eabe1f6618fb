//! A container from its configuration to its first instruction.
//!
//! The child does everything that happens inside its namespaces and tells through a pipe why it could not; the pipe closes by
//! itself when the program starts. Until the parent has put it into its cgroup, it waits.

mod identity;
mod program;
mod rootfs;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::cgroup::Cgroup;
use crate::config::{ContainerConfig, PidNamespace, Process};
use crate::sys::{self, CloneFlags, Fork};

pub use rootfs::{HostMounts, make_filesystem};

/// A child that takes longer to become its program is stuck: in a frozen cgroup, or on a file that never answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// So long a killed process is waited for; if it takes longer, it is buried later.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

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

/// The two ends of what parent and child tell each other.
struct Channel {
    /// The child's error comes here; nothing means that it runs.
    error: (OwnedFd, OwnedFd),
    /// A byte: go.
    go: (OwnedFd, OwnedFd),
    /// The child's terminal comes here.
    terminal: (OwnedFd, OwnedFd),
}

impl Channel {
    /// The ends that are the child's.
    fn of_child(&self) -> [RawFd; 3] {
        [&self.error.1, &self.go.0, &self.terminal.1].map(AsRawFd::as_raw_fd)
    }

    fn new() -> io::Result<Channel> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        use rustix::pipe::{PipeFlags, pipe_with};
        Ok(Channel {
            error: pipe_with(PipeFlags::CLOEXEC)?,
            go: pipe_with(PipeFlags::CLOEXEC)?,
            terminal: socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?,
        })
    }
}

/// Starts the first process of a container.
pub fn container(
    config: &ContainerConfig,
    namespaces: &Namespaces<'_>,
    cgroup: Option<&Cgroup>,
    streams: Streams,
) -> Result<Started, StartError> {
    let channel = Channel::new().context(|| "failed to create pipes".to_owned())?;
    // Before the child leaves the mounts of the host behind: a mount that is to be shared with it must come from there.
    let sources = rootfs::open_sources(config, namespaces)?;
    let mut kept = streams.descriptors().to_vec();
    kept.extend(sources.iter().flatten().map(AsRawFd::as_raw_fd));
    let back = enter_pid_namespace(config.pid, namespaces.pid)?;
    let flags = match config.pid {
        PidNamespace::Own => CloneFlags::NEW_PID,
        PidNamespace::Pod | PidNamespace::Host => CloneFlags::default(),
    };
    let forked = sys::clone(flags.and(CloneFlags::NEW_MOUNT));
    if !matches!(forked, Ok(Fork::Child)) {
        leave_pid_namespace(back)?;
    }
    match forked.context(|| "failed to fork".to_owned())? {
        Fork::Child => child(channel, &kept, |channel| {
            wait_for_go(channel)?;
            rootfs::enter(config, sources)?;
            become_process(&config.process, channel, streams)
        }),
        Fork::Parent { pid, pidfd } => parent(channel, pid, pidfd, cgroup, config.process.terminal),
    }
}

/// Starts one more process in a container that runs.
pub fn exec(
    process: &Process,
    into: &OwnedFd,
    cgroup: Option<&Cgroup>,
    streams: Streams,
) -> Result<Started, StartError> {
    let channel = Channel::new().context(|| "failed to create pipes".to_owned())?;
    let (pid_read, pid_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .context(|| "failed to create a pipe".to_owned())?;
    let mut kept = streams.descriptors().to_vec();
    kept.extend([into.as_raw_fd(), pid_write.as_raw_fd()]);
    // A process namespace holds children only, so the one that enters it forks once more; its child is this process' child.
    match sys::clone(CloneFlags::default()).context(|| "failed to fork".to_owned())? {
        Fork::Child => child(channel, &kept, |channel| {
            use rustix::thread::ThreadNameSpaceType as Kind;
            let all = Kind::MOUNT | Kind::PROCESS_ID | Kind::CONTROL_GROUP;
            rustix::thread::move_into_thread_name_spaces(into.as_fd(), all)
                .context(|| "failed to enter the container".to_owned())?;
            match sys::clone(CloneFlags::SIBLING).context(|| "failed to fork".to_owned())? {
                Fork::Parent { pid, .. } => {
                    let raw = pid.as_raw_nonzero().get().to_ne_bytes();
                    std::fs::File::from(pid_write)
                        .write_all(&raw)
                        .context(|| "failed to tell the process id".to_owned())?;
                    std::process::exit(0)
                }
                Fork::Child => {
                    die_with_parent()?;
                    wait_for_go(channel)?;
                    become_process(process, channel, streams)
                }
            }
        }),
        Fork::Parent { pid: between, .. } => {
            drop(pid_write);
            let mut raw = [0; 4];
            readable(pid_read.as_fd(), START_TIMEOUT)?;
            let told = std::fs::File::from(pid_read).read_exact(&mut raw);
            let reaped = rustix::process::waitpid(Some(between), rustix::process::WaitOptions::empty());
            reaped.context(|| "failed to wait for a process".to_owned())?;
            if told.is_err() {
                drop(channel.error.1);
                let mut why = String::new();
                let _ = std::fs::File::from(channel.error.0).read_to_string(&mut why);
                return Err(StartError(why));
            }
            let pid = Pid::from_raw(i32::from_ne_bytes(raw)).ok_or(StartError("no process id".to_owned()))?;
            let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
                .context(|| "failed to open the process".to_owned())?;
            parent(channel, pid, pidfd, cgroup, process.terminal)
        }
    }
}

/// Children are born where this process points to; it stays itself where it is.
fn enter_pid_namespace(
    wanted: PidNamespace,
    of_pod: Option<&OwnedFd>,
) -> Result<Option<OwnedFd>, StartError> {
    let (PidNamespace::Pod, Some(of_pod)) = (wanted, of_pod) else { return Ok(None) };
    let own =
        std::fs::File::open("/proc/self/ns/pid").context(|| "failed to open /proc/self/ns/pid".to_owned())?;
    rustix::thread::move_into_link_name_space(of_pod.as_fd(), Some(LinkNameSpaceType::ProcessID))
        .context(|| "failed to enter the pod's process namespace".to_owned())?;
    Ok(Some(own.into()))
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

fn parent(
    channel: Channel,
    pid: Pid,
    pidfd: OwnedFd,
    cgroup: Option<&Cgroup>,
    terminal: bool,
) -> Result<Started, StartError> {
    let Channel { error: (error, theirs), go: (their_go, go), terminal: (socket, their_socket) } = channel;
    drop((theirs, their_go, their_socket));
    let kill = |why: StartError| {
        let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
        let _ = readable(pidfd.as_fd(), KILL_TIMEOUT);
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        why
    };
    if let Some(cgroup) = cgroup {
        cgroup
            .add(pid.as_raw_nonzero().get())
            .context(|| "failed to join the cgroup".to_owned())
            .map_err(kill)?;
    }
    std::fs::File::from(go).write_all(b"g").context(|| "failed to let it go".to_owned()).map_err(kill)?;
    let master = if terminal {
        readable(socket.as_fd(), START_TIMEOUT).map_err(kill)?;
        crate::wire::receive_descriptor(&socket).ok()
    } else {
        None
    };
    let mut why = String::new();
    readable(error.as_fd(), START_TIMEOUT).map_err(kill)?;
    std::fs::File::from(error)
        .read_to_string(&mut why)
        .context(|| "failed to hear of the start".to_owned())
        .map_err(kill)?;
    if why.is_empty() {
        return Ok(Started { pid, pidfd, terminal: master });
    }
    Err(kill(StartError(why)))
}

/// Waits until there is something to read, or the end.
fn readable(file: BorrowedFd<'_>, most: Duration) -> Result<(), StartError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let failed = || "failed to wait".to_owned();
    let most = Timespec::try_from(most).context(failed)?;
    match poll(&mut [PollFd::from_borrowed_fd(file, PollFlags::IN)], Some(&most)).context(failed)? {
        0 => Err(StartError("the process did not start in time".to_owned())),
        _ => Ok(()),
    }
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
