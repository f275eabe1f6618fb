//! The helper of one pod: its namespaces, its socket, and the loop that serves it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::mount::{MountPropagationFlags, MoveMountFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::thread::UnshareFlags;

use super::containers::{Containers, Source};
use crate::config::PodConfig;
use crate::start::{self, Context, HostMounts, StartError};
use crate::sys::{self, CloneFlags, Fork};
use crate::wire::{self, Reply, Request};

/// An agent that does not read for so long has lost its connection; it asks for everything when it comes back.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);

pub const SOCKET: &str = "helper.sock";
pub const PID_FILE: &str = "helper.pid";

/// Sets the pod up, says so, and serves it to its end.
pub fn run(config: &PodConfig, told: OwnedFd) -> ! {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // The spawner's socket among them: the agent would not hear of the spawner's end.
    let closed = sys::close_all_but(&[told.as_raw_fd()]).context(|| "failed to close descriptors".to_owned());
    match closed.and_then(|()| set_up(config)) {
        Ok((listener, containers)) => {
            super::tell(told, &format!("pid {pid}"));
            Helper { listener, containers, connections: Vec::new(), directory: config.directory.clone() }
                .serve()
        }
        Err(why) => {
            super::tell(told, &why.0);
            std::process::exit(1)
        }
    }
}

fn set_up(config: &PodConfig) -> Result<(OwnedFd, Containers), StartError> {
    rustix::process::setsid().context(|| "failed to create a session".to_owned())?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .context(|| "failed to open /dev/null".to_owned())?;
    rustix::stdio::dup2_stdin(&null).context(|| "failed to close the standard input".to_owned())?;
    let _ = rustix::thread::set_name(c"setpoint-pod");
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context(|| "failed to become a subreaper".to_owned())?;
    let host_mounts = HostMounts::of_this_process()?;
    let wanted = [
        (true, UnshareFlags::NEWNS),
        (config.own_network, UnshareFlags::NEWNET),
        (config.own_ipc, UnshareFlags::NEWIPC),
        (config.own_uts, UnshareFlags::NEWUTS),
    ];
    let flags = wanted.iter().filter(|(on, _)| *on).fold(UnshareFlags::empty(), |all, (_, flag)| all | *flag);
    #[allow(deprecated)]
    rustix::thread::unshare(flags).context(|| "failed to create the pod's namespaces".to_owned())?;
    // What is mounted here stays here; what the host mounts comes in.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .context(|| "failed to part from the host's mounts".to_owned())?;
    if config.own_uts && !config.hostname.is_empty() {
        rustix::system::sethostname(config.hostname.as_bytes())
            .context(|| "failed to set the hostname".to_owned())?;
    }
    for (name, value) in &config.sysctls {
        // The kernel's names have dots or slashes between their words, and no word that is empty or leads up.
        let words: Vec<&str> = name.split(['.', '/']).collect();
        if words.iter().any(|word| word.is_empty()) {
            return Err(StartError(format!("invalid sysctl {name:?}")));
        }
        let path = Path::new("/proc/sys").join(words.join("/"));
        std::fs::write(&path, value).context(|| format!("failed to set sysctl {name} to {value:?}"))?;
    }
    let shared_memory = make_shared_memory(config)?;
    let pid_namespace = if config.shared_pid { Some(start_init(&config.directory)?) } else { None };
    let listener = listen(&config.directory.join(SOCKET)).context(|| "failed to listen".to_owned())?;
    let pid = rustix::process::getpid().as_raw_nonzero().to_string();
    std::fs::write(config.directory.join(PID_FILE), pid)
        .context(|| "failed to write the process id".to_owned())?;
    Ok((listener, Containers::new(&config.directory, pid_namespace, shared_memory, host_mounts)))
}

fn make_shared_memory(config: &PodConfig) -> Result<Option<PathBuf>, StartError> {
    let failed = || "failed to make the pod's shared memory".to_owned();
    if !config.own_ipc {
        return Ok(None);
    }
    let path = config.directory.join("shm");
    std::fs::create_dir_all(&path).context(failed)?;
    let size = if config.shm_bytes == 0 { 64 << 20 } else { config.shm_bytes };
    let options = [("size", size.to_string()), ("mode", "1777".to_owned())];
    let options = options.map(|(name, value)| (name.to_owned(), value));
    let mount = start::make_filesystem("tmpfs", &options)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&mount, "", rustix::fs::CWD, &path, flags).context(failed)?;
    Ok(Some(path))
}

/// The first process of a namespace that all containers share.
fn start_init(directory: &Path) -> Result<OwnedFd, StartError> {
    let (ready, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .context(|| "failed to create a pipe".to_owned())?;
    let flags = CloneFlags::NEW_PID.and(CloneFlags::NEW_MOUNT);
    match sys::clone(flags).context(|| "failed to fork".to_owned())? {
        Fork::Child => match super::init::confine(directory) {
            Ok(()) => sys::wait_for_children(),
            Err(why) => {
                super::tell(told, &why.0);
                std::process::exit(1)
            }
        },
        Fork::Parent { pid, .. } => {
            drop(told);
            let mut why = String::new();
            File::from(ready).read_to_string(&mut why).context(|| "failed to hear of init".to_owned())?;
            if !why.is_empty() {
                return Err(StartError(why));
            }
            let path = format!("/proc/{}/ns/pid", pid.as_raw_nonzero());
            let file = File::open(&path).context(|| format!("failed to open {path}"))?;
            Ok(file.into())
        }
    }
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    let _ = std::fs::remove_file(path);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(path)?);
    rustix::process::umask(before);
    bound?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

struct Helper {
    listener: OwnedFd,
    containers: Containers,
    connections: Vec<Connection>,
    directory: PathBuf,
}

struct Connection {
    id: u64,
    socket: OwnedFd,
    watches: bool,
}

/// What became readable.
#[derive(Clone, Copy)]
enum Ready {
    Listener,
    Connection(u64),
    Container(Source),
}

impl Helper {
    fn serve(mut self) -> ! {
        let mut next_id = 0;
        loop {
            for ready in self.wait() {
                match ready {
                    Ready::Listener => {
                        if let Ok(socket) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                            let _ = sockopt::set_socket_timeout(
                                &socket,
                                sockopt::Timeout::Send,
                                Some(SEND_TIMEOUT),
                            );
                            let _ = sockopt::set_socket_timeout(
                                &socket,
                                sockopt::Timeout::Recv,
                                Some(RECEIVE_TIMEOUT),
                            );
                            next_id += 1;
                            self.connections.push(Connection { id: next_id, socket, watches: false });
                        }
                    }
                    Ready::Connection(id) => self.hear(id),
                    Ready::Container(source) => self.containers.readable(source),
                }
            }
            for (connection, exec, code) in self.containers.reap() {
                self.reply(connection, &Reply::ExecEnded { exec, code }, &[]);
            }
            if self.containers.take_changed() {
                let watchers: Vec<u64> =
                    self.connections.iter().filter(|c| c.watches).map(|c| c.id).collect();
                for id in watchers {
                    self.reply(id, &Reply::State(self.containers.state()), &[]);
                }
            }
        }
    }

    fn wait(&self) -> Vec<Ready> {
        let mut kinds = vec![Ready::Listener];
        let mut polled: Vec<BorrowedFd<'_>> = vec![self.listener.as_fd()];
        for connection in &self.connections {
            kinds.push(Ready::Connection(connection.id));
            polled.push(connection.socket.as_fd());
        }
        for (source, descriptor) in self.containers.sources() {
            kinds.push(Ready::Container(source));
            polled.push(descriptor);
        }
        let mut all: Vec<PollFd<'_>> =
            polled.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if rustix::event::poll(&mut all, None).is_err() {
            return Vec::new();
        }
        let ready = all.iter().zip(kinds).filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, kind)| kind).collect()
    }

    fn hear(&mut self, id: u64) {
        let Some(connection) = self.connections.iter_mut().find(|c| c.id == id) else { return };
        let Ok(Some((request, descriptors))) = wire::receive::<Request>(connection.socket.as_fd()) else {
            self.connections.retain(|c| c.id != id);
            return;
        };
        if matches!(request, Request::Watch) {
            connection.watches = true;
        }
        if matches!(request, Request::Shutdown) {
            self.containers.end_all();
            self.reply(id, &Reply::Done, &[]);
            let _ = std::fs::remove_file(self.directory.join(SOCKET));
            let _ = std::fs::remove_file(self.directory.join(PID_FILE));
            std::process::exit(0);
        }
        let (reply, descriptor) = match self.containers.handle(id, request, descriptors) {
            Ok(answer) => answer,
            Err(why) => (Reply::Failed(why.0), None),
        };
        let beside: Vec<BorrowedFd<'_>> = descriptor.iter().map(AsFd::as_fd).collect();
        self.reply(id, &reply, &beside);
    }

    fn reply(&mut self, id: u64, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
        let Some(connection) = self.connections.iter().find(|c| c.id == id) else { return };
        if wire::send(connection.socket.as_fd(), reply, descriptors).is_err() {
            self.connections.retain(|c| c.id != id);
        }
    }
}
