//! Paths that a container may not write to, or not even see.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::devices::is_device;
use super::{Context, StartError, clone_tree, is_directory, make_filesystem, move_onto, open_in};
use crate::sys::{self, MountAttributes};

/// Paths that are not there need no care.
pub fn make_readonly(path: &Path, root: BorrowedFd<'_>) -> Result<(), StartError> {
    let shown = || format!("failed to make {} read-only", path.display());
    let Ok(there) = open_in(root, path, OFlags::PATH) else { return Ok(()) };
    let bound = clone_tree(there.as_fd()).context(shown)?;
    let attributes = MountAttributes { set: sys::READ_ONLY, propagation: 0, recursive: true };
    sys::mount_setattr(bound.as_fd(), attributes).context(shown)?;
    move_onto(bound.as_fd(), there.as_fd()).context(shown)
}

/// An empty read-only directory, or nothing to be read.
pub fn mask(path: &Path, root: BorrowedFd<'_>) -> Result<(), StartError> {
    let shown = || format!("failed to mask {}", path.display());
    let Ok(there) = open_in(root, path, OFlags::PATH) else { return Ok(()) };
    let cover = if is_directory(there.as_fd())? {
        let options = [("size", "0"), ("nr_inodes", "1")];
        let empty = make_filesystem("tmpfs", &options.map(|(n, v)| (n.to_owned(), v.to_owned())))?;
        let attributes = MountAttributes { set: sys::READ_ONLY, ..MountAttributes::default() };
        sys::mount_setattr(empty.as_fd(), attributes).context(shown)?;
        empty
    } else {
        // The host's own: what the container has under this name may be anything.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let null = rustix::fs::open("/dev/null", flags, Mode::empty()).context(shown)?;
        if !is_device(null.as_fd(), FileType::CharacterDevice, rustix::fs::makedev(1, 3)).context(shown)? {
            return Err(StartError(format!("{}: /dev/null is none", shown())));
        }
        let null = clone_tree(null.as_fd()).context(shown)?;
        // Its owner and mode are the host's, and the container's root would be good enough for the kernel to change them.
        let attributes = MountAttributes { set: sys::READ_ONLY, ..MountAttributes::default() };
        sys::mount_setattr(null.as_fd(), attributes).context(shown)?;
        null
    };
    move_onto(cover.as_fd(), there.as_fd()).context(shown)
}
