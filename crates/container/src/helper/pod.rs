//! The helper of one pod: its namespaces, its socket, and the loop that serves it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::{MountPropagationFlags, MoveMountFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::thread::UnshareFlags;

use super::containers::{Containers, Shared, Source};
use crate::cgroup::Cgroup;
use crate::config::PodConfig;
use crate::start::{self, Context, HostMounts, StartError, Users};
use crate::sys::{self, CloneFlags, Fork};
use crate::wire::{self, Reply, Request};

/// An agent that does not read for so long has lost its connection; it asks for everything when it comes back.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);

pub const SOCKET: &str = "helper.sock";
pub const PID_FILE: &str = "helper.pid";
/// Before the number of a process that another one has forked.
const PID_MARK: &str = "pid ";

/// Sets the pod up, says so, and serves it to its end.
pub fn run(config: &PodConfig, told: OwnedFd) -> ! {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // The spawner's socket among them: the agent would not hear of the spawner's end.
    let closed = sys::close_all_but(&[told.as_raw_fd()]).context(|| "failed to close descriptors".to_owned());
    match closed.and_then(|()| set_up(config)) {
        Ok((listener, children, containers)) => {
            super::tell(&told, &format!("pid {pid}"));
            drop(told);
            let directory = config.directory.clone();
            Helper { listener, children, containers, connections: Vec::new(), directory }.serve()
        }
        Err(why) => {
            super::tell(&told, &why.0);
            std::process::exit(1)
        }
    }
}

fn set_up(config: &PodConfig) -> Result<(OwnedFd, OwnedFd, Containers), StartError> {
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
    if !config.cgroup.as_os_str().is_empty() {
        let cgroup = Cgroup::at_host(&config.cgroup);
        let own = rustix::process::getpid().as_raw_nonzero().get();
        cgroup
            .create()
            .and_then(|()| cgroup.add(own))
            .context(|| format!("failed to join the cgroup {}", config.cgroup.display()))?;
    }
    let host_mounts = HostMounts::of_this_process()?;
    // Before there is a network of the pod's own: it would be listed there, with its path.
    let socket = unix_socket().context(|| "failed to create a socket".to_owned())?;
    let users = super::users::enter(config)?;
    // Those of a pod with users of its own are made with these.
    let is_plain = users.is_none();
    let wanted = [
        (true, UnshareFlags::NEWNS),
        (is_plain && config.own_network, UnshareFlags::NEWNET),
        (is_plain && config.own_ipc, UnshareFlags::NEWIPC),
        (is_plain && config.own_uts, UnshareFlags::NEWUTS),
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
    super::sysctls::set(config)?;
    let shared_memory = make_shared_memory(config, users.as_ref())?;
    let pid_namespace =
        if config.shared_pid { Some(start_init(&config.directory, users.as_ref())?) } else { None };
    listen(&socket, &config.directory.join(SOCKET)).context(|| "failed to listen".to_owned())?;
    let pid = rustix::process::getpid().as_raw_nonzero().to_string();
    std::fs::write(config.directory.join(PID_FILE), pid)
        .context(|| "failed to write the process id".to_owned())?;
    let directory = config.directory.clone();
    // After the first process was forked: it waits for its own.
    let children = sys::hear_of_children().context(|| "failed to wait for children".to_owned())?;
    Ok((
        socket,
        children,
        Containers::new(Shared { directory, pid_namespace, shared_memory, host_mounts, users }),
    ))
}

fn make_shared_memory(config: &PodConfig, users: Option<&Users>) -> Result<Option<PathBuf>, StartError> {
    let failed = || "failed to make the pod's shared memory".to_owned();
    if !config.own_ipc {
        return Ok(None);
    }
    let path = config.directory.join("shm");
    std::fs::create_dir_all(&path).context(failed)?;
    let size = if config.shm_bytes == 0 { 64 << 20 } else { config.shm_bytes };
    let (uid, gid) = users.map_or((0, 0), |users| (users.uid, users.gid));
    let options = [("size", size), ("uid", uid.into()), ("gid", gid.into())];
    let mut options: Vec<_> = options.map(|(name, value)| (name.to_owned(), value.to_string())).into();
    options.push(("mode".to_owned(), "1777".to_owned()));
    let mount = start::make_filesystem("tmpfs", &options)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&mount, "", rustix::fs::CWD, &path, flags).context(failed)?;
    Ok(Some(path))
}

/// The first process of a namespace that all containers share.
fn start_init(directory: &Path, users: Option<&Users>) -> Result<OwnedFd, StartError> {
    let (ready, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .context(|| "failed to create a pipe".to_owned())?;
    let failed = || "failed to fork".to_owned();
    let flags = CloneFlags::NEW_PID.and(CloneFlags::NEW_MOUNT);
    // The namespace belongs to the users of who makes it: a process between, which becomes one of them.
    let first = if users.is_some() { CloneFlags::default() } else { flags };
    let tell_and_exit = |why: StartError| -> ! {
        super::tell(&told, &why.0);
        std::process::exit(1)
    };
    // Users of the pod's own may not be able to find it: they are there already when they come.
    rustix::process::chdir(directory).context(|| format!("failed to change to {}", directory.display()))?;
    let forked = sys::clone(first).context(failed)?;
    if let (Fork::Child, Some(users)) = (&forked, users) {
        match users.enter().and_then(|()| sys::clone(flags.and(CloneFlags::SIBLING)).context(failed)) {
            Ok(Fork::Parent { pid, .. }) => {
                super::tell(&told, &format!("{PID_MARK}{}\n", pid.as_raw_nonzero()));
                std::process::exit(0)
            }
            Ok(Fork::Child) => {}
            Err(why) => tell_and_exit(why),
        }
    }
    match forked {
        Fork::Child => {
            // The pod's socket among them.
            let closed =
                sys::close_all_but(&[told.as_raw_fd()]).context(|| "failed to close descriptors".to_owned());
            match closed.and_then(|()| super::init::confine()) {
                Ok(()) => sys::wait_for_children(),
                Err(why) => tell_and_exit(why),
            }
        }
        Fork::Parent { pid, .. } => {
            drop(told);
            rustix::process::chdir("/").context(|| "failed to change to /".to_owned())?;
            let mut heard = String::new();
            File::from(ready).read_to_string(&mut heard).context(|| "failed to hear of init".to_owned())?;
            let (pid, why) = match heard.strip_prefix(PID_MARK).and_then(|rest| rest.split_once('\n')) {
                Some((pid, why)) => (pid.to_owned(), why),
                None => (pid.as_raw_nonzero().to_string(), &*heard),
            };
            if !why.is_empty() {
                return Err(StartError(why.to_owned()));
            }
            let path = format!("/proc/{pid}/ns/pid");
            let file = File::open(&path).context(|| format!("failed to open {path}"))?;
            Ok(file.into())
        }
    }
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn listen(socket: &OwnedFd, path: &Path) -> io::Result<()> {
    let _ = std::fs::remove_file(path);
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = SocketAddrUnix::new(path).and_then(|address| rustix::net::bind(socket, &address));
    rustix::process::umask(before);
    bound?;
    Ok(rustix::net::listen(socket, 16)?)
}

struct Helper {
    listener: OwnedFd,
    /// Readable when a child has ended, also one that was a stranger's.
    children: OwnedFd,
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
    /// They are asked for in any case.
    Children,
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
                        next_id += 1;
                        self.accept(next_id);
                    }
                    Ready::Children => {}
                    Ready::Connection(id) => self.hear(id),
                    Ready::Container(source) => self.containers.ready(source),
                }
            }
            sys::drain(&self.children);
            let ended = self.containers.reap();
            self.containers.tick();
            // The answer to an exec before its end.
            self.answer();
            for (connection, exec, code) in ended {
                self.reply(connection, &Reply::ExecEnded { exec, code }, &[]);
            }
            if self.containers.take_changed() {
                let watchers: Vec<u64> =
                    self.connections.iter().filter(|c| c.watches).map(|c| c.id).collect();
                for id in watchers {
                    self.reply(id, &Reply::State(self.containers.state()), &[]);
                }
            }
            if self.containers.is_over() {
                let _ = std::fs::remove_file(self.directory.join(SOCKET));
                let _ = std::fs::remove_file(self.directory.join(PID_FILE));
                std::process::exit(0);
            }
        }
    }

    fn wait(&self) -> Vec<Ready> {
        let mut kinds = vec![Ready::Listener, Ready::Children];
        let mut all =
            vec![PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.children, PollFlags::IN)];
        // Who waits for an answer is not heard before he has it.
        for connection in self.connections.iter().filter(|one| !self.containers.is_busy(one.id)) {
            kinds.push(Ready::Connection(connection.id));
            all.push(PollFd::new(&connection.socket, PollFlags::IN));
        }
        for (source, descriptor, flags) in self.containers.sources() {
            kinds.push(Ready::Container(source));
            all.push(PollFd::from_borrowed_fd(descriptor, flags));
        }
        let timeout = self.containers.timeout().and_then(|most| Timespec::try_from(most).ok());
        if rustix::event::poll(&mut all, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = all.iter().zip(kinds).filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, kind)| kind).collect()
    }

    fn accept(&mut self, id: u64) {
        let Ok(socket) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) else { return };
        for (kind, most) in
            [(sockopt::Timeout::Send, SEND_TIMEOUT), (sockopt::Timeout::Recv, RECEIVE_TIMEOUT)]
        {
            let _ = sockopt::set_socket_timeout(&socket, kind, Some(most));
        }
        self.connections.push(Connection { id, socket, watches: false });
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
        self.containers.handle(id, request, descriptors);
        self.answer();
    }

    fn answer(&mut self) {
        for (id, answer) in self.containers.take_answers() {
            let (reply, descriptor) = answer.unwrap_or_else(|why| (Reply::Failed(why.0), None));
            let beside: Vec<BorrowedFd<'_>> = descriptor.iter().map(AsFd::as_fd).collect();
            self.reply(id, &reply, &beside);
        }
    }

    fn reply(&mut self, id: u64, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
        let Some(connection) = self.connections.iter().find(|c| c.id == id) else { return };
        if wire::send(connection.socket.as_fd(), reply, descriptors).is_err() {
            self.connections.retain(|c| c.id != id);
        }
    }
}
