//! The process that forks the helpers of pods: this program once more, before it has threads.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use container::cgroup::Cgroup;
use container::config::PodConfig;
use container::wire::{self, Reply, SpawnPod};
use parking_lot::Mutex;

/// The name it runs under, and by which it knows what it is.
const NAME: &str = "setpoint-spawner";
/// A pod's namespaces take milliseconds; one that does not come in this time never will.
const TIMEOUT: Duration = Duration::from_secs(30);

/// To be called first in `main`, before any thread is started: returns unless this process is the spawner.
pub fn serve_if_spawner() {
    if std::env::args_os().next().is_none_or(|name| name != NAME) {
        return;
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let served = socket.and_then(|socket| container::helper::serve_spawner(&socket));
    std::process::exit(i32::from(served.is_err()))
}

/// Starts the helpers of pods. Cheap to clone; the process ends with the last clone, the helpers stay.
#[derive(Clone)]
pub struct Spawner {
    inner: Arc<Inner>,
}

struct Inner {
    program: OwnedFd,
    /// Guards the process and its socket, which has one question open at a time; held until that is answered.
    process: Mutex<Process>,
}

#[derive(Default)]
struct Process {
    running: Option<Running>,
    /// Where it lives, and with it all helpers: not in the agent's group, which a service manager may end as a whole.
    cgroup: Option<Cgroup>,
}

struct Running {
    socket: UnixStream,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its work is nobody's any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Spawner {
    /// Starts it, from a copy of this program that no container can write to. `main` must call [`serve_if_spawner`].
    pub fn start() -> io::Result<Spawner> {
        let program = container::helper::spawner_program()?;
        let process = Process { running: Some(run(&program, None)?), cgroup: None };
        Ok(Spawner { inner: Arc::new(Inner { program, process: Mutex::new(process) }) })
    }

    /// Moves it, and the helpers that it will start.
    pub(crate) fn join(&self, cgroup: Cgroup) -> io::Result<()> {
        let mut process = self.inner.process.lock();
        if let Some(running) = &process.running {
            cgroup.add(running.child.id().cast_signed())?;
        }
        process.cgroup = Some(cgroup);
        Ok(())
    }

    /// Starts a pod's helper and returns its process id.
    pub(crate) fn spawn(&self, pod: PodConfig) -> io::Result<i32> {
        let mut process = self.inner.process.lock();
        let request = SpawnPod { pod };
        // One that was killed is replaced: what could not be sent to it was not begun.
        for _ in 0..2 {
            let running = match process.running.take() {
                Some(running) => running,
                None => run(&self.inner.program, process.cgroup.as_ref())?,
            };
            let socket = running.socket.as_fd();
            if wire::send(socket, &request, &[]).is_err() {
                continue;
            }
            let reply = wire::receive::<Reply>(socket)?;
            return match reply {
                Some((Reply::Spawned { pid }, _)) => {
                    process.running = Some(running);
                    Ok(pid)
                }
                Some((Reply::Failed(why), _)) => {
                    process.running = Some(running);
                    Err(io::Error::other(why))
                }
                Some(_) => Err(io::ErrorKind::InvalidData.into()),
                None => Err(io::Error::other("the spawner ended")),
            };
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

fn run(program: &OwnedFd, cgroup: Option<&Cgroup>) -> io::Result<Running> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(TIMEOUT))?;
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0(NAME)
        // A signal from the terminal is the agent's.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()?;
    let running = Running { socket: ours, child };
    if let Some(cgroup) = cgroup {
        cgroup.add(running.child.id().cast_signed())?;
    }
    Ok(running)
}
