//! Files of an image's layers, looked at from outside.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// A file of a layer, if it is there; no link leads out of the layer.
pub fn open(layer: &Path, path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let directory = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let root = rustix::fs::openat(CWD, layer, directory, Mode::empty()).ok()?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
}
