//! Devices of a container, and what programs expect beside them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::{Context, StartError, clone_tree, move_onto, open_in, target};
use crate::config::Device;

/// A volume may lie over `/dev` and hold anything under a device's name: only the very device is taken for it, and never changed.
pub fn make(device: &Device, root: BorrowedFd<'_>) -> Result<(), StartError> {
    let shown = || format!("failed to make device {}", device.path.display());
    let (Some(parent), Some(name)) = (device.path.parent(), device.path.file_name()) else {
        return Err(StartError(shown()));
    };
    let parent = target::make(root, parent, true)?.file;
    let kind = if device.block { FileType::BlockDevice } else { FileType::CharacterDevice };
    let number = rustix::fs::makedev(device.major, device.minor);
    let mode = Mode::from_raw_mode(device.mode);
    // Nothing of the mode may be taken away; nothing but this is made until the program sets its own.
    rustix::process::umask(Mode::empty());
    match rustix::fs::mknodat(&parent, name, kind, mode, number) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let there = rustix::fs::openat(&parent, name, flags, Mode::empty()).context(shown)?;
            if is_device(there.as_fd(), kind, number).context(shown)? {
                return Ok(());
            }
            Err(StartError(format!("{}: there is something else", shown())))
        }
        Err(error) => Err(error).context(shown),
    }
}

/// The host's node of a device, for those who cannot make one. Found under the same name.
pub fn open(device: &Device) -> Result<OwnedFd, StartError> {
    let shown = || format!("failed to open device {}", device.path.display());
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node = rustix::fs::open(device.path.as_path(), flags, Mode::empty()).context(shown)?;
    let kind = if device.block { FileType::BlockDevice } else { FileType::CharacterDevice };
    let number = rustix::fs::makedev(device.major, device.minor);
    if !is_device(node.as_fd(), kind, number).context(shown)? {
        return Err(StartError(format!("{}: the host has something else there", shown())));
    }
    clone_tree(node.as_fd()).context(shown)
}

pub fn bind(device: &Device, node: BorrowedFd<'_>, root: BorrowedFd<'_>) -> Result<(), StartError> {
    let target = target::make(root, &device.path, false)?.file;
    move_onto(node, target.as_fd()).context(|| format!("failed to make device {}", device.path.display()))
}

pub fn is_device(file: BorrowedFd<'_>, kind: FileType, number: u64) -> rustix::io::Result<bool> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == kind && stat.st_rdev == number)
}

/// What programs expect in `/dev` besides devices.
pub fn link(root: BorrowedFd<'_>) -> Result<(), StartError> {
    let Ok(dev) = open_in(root, Path::new("dev"), OFlags::PATH) else { return Ok(()) };
    for (to, name) in [
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
        ("pts/ptmx", "ptmx"),
    ] {
        match rustix::fs::symlinkat(to, &dev, name) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error).context(|| format!("failed to link /dev/{name}")),
        }
    }
    Ok(())
}
