//! Users of the pod's own: a namespace in which root is somebody else on the host, and which owns the pod's other namespaces.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::config::{IdMapping, PodConfig};
use crate::start::{Context, StartError, Users};
use crate::sys::{self, CloneFlags, Fork};

/// Makes the namespaces, and enters all but that of the users: this process goes on working for the host. `None`: the host's users.
pub fn enter(config: &PodConfig) -> Result<Option<Users>, StartError> {
    if config.uid_mappings.is_empty() && config.gid_mappings.is_empty() {
        return Ok(None);
    }
    let (Some(uid), Some(gid)) = (root_of(&config.uid_mappings), root_of(&config.gid_mappings)) else {
        return Err(StartError("the pod's user namespace has no root user or group".to_owned()));
    };
    let wanted = [
        (config.own_network, CloneFlags::NEW_NETWORK, "net", LinkNameSpaceType::Network),
        (config.own_ipc, CloneFlags::NEW_IPC, "ipc", LinkNameSpaceType::InterProcessCommunication),
        (config.own_uts, CloneFlags::NEW_UTS, "uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ];
    let wanted: Vec<_> = wanted.into_iter().filter(|(on, ..)| *on).collect();
    let flags = wanted.iter().fold(CloneFlags::NEW_USER, |all, (_, flag, ..)| all.and(*flag));
    let failed = || {
        "failed to create the pod's user namespace; the kernel may have none, or no more of them".to_owned()
    };
    // Namespaces begin with a process: one that does nothing until they are held by descriptors.
    match sys::clone(flags).context(failed)? {
        Fork::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            sys::wait_for_children()
        }
        Fork::Parent { pid, pidfd } => {
            let held = hold(
                pid,
                config,
                &wanted.iter().map(|(_, _, name, kind)| (*name, *kind)).collect::<Vec<_>>(),
            );
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            held.map(|namespace| Some(Users { namespace, uid, gid }))
        }
    }
}

fn hold(pid: Pid, config: &PodConfig, others: &[(&str, LinkNameSpaceType)]) -> Result<OwnedFd, StartError> {
    let path = |file: &str| format!("/proc/{}/{file}", pid.as_raw_nonzero());
    for (file, mappings) in [("uid_map", &config.uid_mappings), ("gid_map", &config.gid_mappings)] {
        let lines =
            mappings.iter().map(|one| format!("{} {} {}\n", one.container_id, one.host_id, one.length));
        std::fs::write(path(file), lines.collect::<String>())
            .context(|| format!("failed to map the pod's users ({file})"))?;
    }
    for (name, kind) in others {
        let failed = || format!("failed to enter the pod's {name} namespace");
        let file = File::open(path(&format!("ns/{name}"))).context(failed)?;
        move_into_link_name_space(file.as_fd(), Some(*kind)).context(failed)?;
    }
    let users =
        File::open(path("ns/user")).context(|| "failed to open the pod's user namespace".to_owned())?;
    Ok(users.into())
}

/// Who root is on the host.
fn root_of(mappings: &[IdMapping]) -> Option<u32> {
    mappings.iter().find(|one| one.container_id == 0 && one.length > 0).map(|one| one.host_id)
}
