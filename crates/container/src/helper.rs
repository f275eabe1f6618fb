//! The processes beside the agent: one spawner, and a helper for each pod.

mod containers;
mod init;
mod pod;
mod sysctls;
mod users;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::WaitOptions;

use crate::config::PodConfig;
use crate::sys::{self, CloneFlags, Fork};
use crate::wire::{self, Reply, SpawnPod};

/// Serves requests for new pods on `socket` until the agent is gone. To be called before any thread was started.
pub fn serve_spawner(socket: &OwnedFd) -> io::Result<()> {
    if sys::threads() != Some(1) {
        return Err(io::Error::other("the spawner must have one thread"));
    }
    // No process of a container, whatever it may do, looks into this one or the helpers that are its forks.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    while let Some((request, _)) = wire::receive::<SpawnPod>(socket.as_fd())? {
        let reply = match spawn(&request.pod) {
            Ok(pid) => Reply::Spawned { pid },
            Err(why) => Reply::Failed(why.to_string()),
        };
        wire::send(socket.as_fd(), &reply, &[])?;
    }
    Ok(())
}

/// Starts a pod's helper, as nobody's child: it stays when the spawner goes.
fn spawn(config: &PodConfig) -> io::Result<i32> {
    let (ready, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match sys::clone(CloneFlags::default())? {
        Fork::Child => {
            let helper = sys::clone(CloneFlags::default());
            if let Ok(Fork::Child) = helper {
                drop(ready);
                pod::run(config, told);
            }
            std::process::exit(i32::from(helper.is_err()))
        }
        Fork::Parent { pid, .. } => {
            drop(told);
            rustix::process::waitpid(Some(pid), WaitOptions::empty())?;
            let mut answer = String::new();
            std::fs::File::from(ready).read_to_string(&mut answer)?;
            match answer.strip_prefix("pid ") {
                Some(pid) => pid.parse().map_err(io::Error::other),
                None => Err(io::Error::other(if answer.is_empty() {
                    "the pod's helper died".to_owned()
                } else {
                    answer
                })),
            }
        }
    }
}

/// How often a file is sealed whose pages are in use: each time the kernel waits a fifth of a second for them.
const SEAL_TRIES: u32 = 50;

/// A copy of this program that nobody can write to: what the agent executes as its spawner, so that no container that gets hold of
/// `/proc/PID/exe` of a helper holds the program of the machine.
pub fn spawner_program() -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let copy = rustix::fs::memfd_create("setpoint-spawner", flags)?;
    let mut file = std::fs::File::from(copy);
    // Through a buffer of ours: pages that the kernel moved by itself may be in use for a while, and then nothing can be sealed.
    let mut program = std::fs::File::open("/proc/self/exe")?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match program.read(&mut buffer)? {
            0 => break,
            read => file.write_all(&buffer[..read])?,
        }
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    let mut tries = 1;
    loop {
        match rustix::fs::fcntl_add_seals(&file, seals) {
            // The kernel looks at a page just now, to move it or to give it back. It has waited for that already.
            Err(rustix::io::Errno::BUSY) if tries < SEAL_TRIES => tries += 1,
            sealed => {
                sealed?;
                return Ok(file.into());
            }
        }
    }
}

fn tell(pipe: &OwnedFd, text: &str) {
    // A pipe takes so little at once.
    let _ = rustix::io::write(pipe, text.as_bytes());
}
