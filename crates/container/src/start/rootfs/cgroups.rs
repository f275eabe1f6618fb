//! The cgroups as a container sees them: its own, and only to be read unless it is privileged.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::Mode;

use super::{Context, StartError, make_filesystem, move_onto, open_in, open_source, target};
use crate::cgroup::{Cgroup, ROOT, Version};
use crate::config::{ContainerConfig, Mount};
use crate::sys::{self, MountAttributes};

/// Whether what the container sees begins at its own. As with containerd, one that is privileged sees all of version 2.
pub fn begin_at_own(config: &ContainerConfig) -> bool {
    let sees_all = config.resources.devices.is_none() && Version::of_host() == Version::V2;
    !config.cgroup.as_os_str().is_empty() && !sees_all
}

pub fn attach(
    config: &ContainerConfig,
    mount: &Mount,
    host: bool,
    root: BorrowedFd<'_>,
) -> Result<(), StartError> {
    let failed = || "failed to attach the cgroups".to_owned();
    let target = target::make(root, &mount.target, true)?.file;
    let tree = if host {
        let host = open_source(Path::new(ROOT), Path::new(""))?.tree;
        // What is mounted here stays here.
        let attributes = MountAttributes { set: 0, propagation: sys::PRIVATE, recursive: true };
        sys::mount_setattr(host.as_fd(), attributes).context(failed)?;
        move_onto(host.as_fd(), target.as_fd()).context(failed)?;
        host
    } else if config.cgroup.as_os_str().is_empty() {
        return Err(StartError("a container without a cgroup has none to show".to_owned()));
    } else if Version::of_host() == Version::V2 {
        // Its root is that of the namespace, which begins at the container's unless it is privileged.
        let own = make_filesystem("cgroup2", &[])?;
        move_onto(own.as_fd(), target.as_fd()).context(failed)?;
        own
    } else {
        own_of_each_controller(config, target.as_fd())?
    };
    // Other attributes of the mount are always these: there is nothing to execute and no device.
    let readonly = mount.readonly || config.resources.devices.is_some();
    let set = sys::NO_SUID | sys::NO_DEV | sys::NO_EXEC | if readonly { sys::READ_ONLY } else { 0 };
    sys::mount_setattr(tree.as_fd(), MountAttributes { set, propagation: 0, recursive: true }).context(failed)
}

/// Of version 1: the container's directory of every controller, side by side.
fn own_of_each_controller(config: &ContainerConfig, target: BorrowedFd<'_>) -> Result<OwnedFd, StartError> {
    let failed = || "failed to attach the cgroups".to_owned();
    let tree = make_filesystem("tmpfs", &[("mode".to_owned(), "0755".to_owned())])?;
    move_onto(tree.as_fd(), target).context(failed)?;
    for (controller, directory) in Cgroup::at_host(&config.cgroup).directories() {
        let own = open_source(directory, Path::new(""))?.tree;
        rustix::fs::mkdirat(&tree, *controller, Mode::from_raw_mode(0o755)).context(failed)?;
        let at = open_in(tree.as_fd(), Path::new(controller), rustix::fs::OFlags::PATH).context(failed)?;
        move_onto(own.as_fd(), at.as_fd()).context(failed)?;
    }
    Ok(tree)
}
