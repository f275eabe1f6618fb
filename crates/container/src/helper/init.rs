//! The first process of a namespace that containers share. They see it, so there is nothing to be had from it: no file of the host,
//! no privilege, no way in.

use std::os::fd::AsFd;

use rustix::mount::{MountPropagationFlags, MoveMountFlags, UnmountFlags};
use rustix::process::{Gid, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::start::{self, Context, StartError};
use crate::sys::{self, MountAttributes};

/// Nobody's, as the pause container of others has it.
const NOBODY: u32 = 65535;

/// Gives up everything; where this process is must be something to mount on.
pub fn confine() -> Result<(), StartError> {
    let failed = || "failed to confine the first process".to_owned();
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").context(failed)?;
    rustix::stdio::dup2_stdin(&null).context(failed)?;
    rustix::stdio::dup2_stdout(&null).context(failed)?;
    rustix::stdio::dup2_stderr(&null).context(failed)?;
    enter_nothing()?;
    drop_privileges().context(failed)?;
    // Forgotten by the kernel when the user changes, so last.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context(failed)
}

/// An empty read-only directory becomes the root.
fn enter_nothing() -> Result<(), StartError> {
    let failed = || "failed to leave the host's files".to_owned();
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).context(failed)?;
    let options = [("size", "4k"), ("nr_inodes", "1"), ("mode", "0555")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let nothing = start::make_filesystem("tmpfs", &options)?;
    let set = sys::READ_ONLY | sys::NO_SUID | sys::NO_DEV | sys::NO_EXEC;
    sys::mount_setattr(nothing.as_fd(), MountAttributes { set, ..MountAttributes::default() })
        .context(failed)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&nothing, "", rustix::fs::CWD, ".", flags).context(failed)?;
    rustix::process::fchdir(&nothing).context(failed)?;
    rustix::process::pivot_root(".", ".").context(failed)?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).context(failed)?;
    rustix::process::chdir("/").context(failed)
}

fn drop_privileges() -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // One that this kernel does not know is in no set.
        if rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false) {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
    rustix::thread::set_thread_groups(&[])?;
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
}
