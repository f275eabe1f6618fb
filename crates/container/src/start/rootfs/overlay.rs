//! The root file system of a container: the layers of its image under one of its own.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use rustix::process::{Gid, Uid};

use crate::config::Root;
use crate::start::Users;
use crate::sys;

/// The longest value that `fsconfig` takes.
const MOST_BYTES: usize = 255;
/// A page with its zero: what `mount` takes of options.
const MOST_OPTIONS: usize = 4095;

/// Mounted nowhere yet. With users of the pod's own, files of the image belong to them by the numbers they have there.
pub fn make(root: &Root, users: Option<&Users>) -> Result<OwnedFd> {
    if users.is_some() {
        return in_one_option(root, users);
    }
    let paths = root.layers.iter().chain([&root.upper, &root.work]);
    let mut lengths = paths.map(|path| path.as_os_str().len());
    if lengths.all(|length| length <= MOST_BYTES) {
        match layer_by_layer(root) {
            // A kernel before 6.8 does not know how to be told so.
            Err(Errno::INVAL) => {}
            made => return made,
        }
    }
    in_one_option(root, None)
}

fn layer_by_layer(root: &Root) -> Result<OwnedFd> {
    let fs = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for layer in &root.layers {
        rustix::mount::fsconfig_set_string(&fs, "lowerdir+", layer.as_path())?;
    }
    rustix::mount::fsconfig_set_string(&fs, "upperdir", root.upper.as_path())?;
    rustix::mount::fsconfig_set_string(&fs, "workdir", root.work.as_path())?;
    rustix::mount::fsconfig_create(&fs)?;
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// A page holds forty names of layers, or all that overlayfs takes under short names: links in a directory that is there just for
/// this, which also saves colons and commas from being taken for more than letters. With users, mounts instead of links.
fn in_one_option(root: &Root, users: Option<&Users>) -> Result<OwnedFd> {
    let names = memory()?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&names, "", CWD, root.target.as_path(), flags)?;
    rustix::process::fchdir(&names)?;
    let made = mount_by_names(root, &names, users);
    // Whatever became of it, nobody needs the names any more.
    let left = rustix::process::chdir("/")
        .and_then(|()| rustix::mount::unmount(root.target.as_path(), UnmountFlags::DETACH));
    made.and_then(|made| left.map(|()| made))
}

fn mount_by_names(root: &Root, names: &OwnedFd, users: Option<&Users>) -> Result<OwnedFd> {
    let link = |to: &Path, name: &str| match users {
        Some(users) => attach_mapped(to, names, name, users),
        None => rustix::fs::symlinkat(to, names, name),
    };
    let mut layers = String::new();
    for (at, layer) in root.layers.iter().enumerate() {
        let name = at.to_string();
        link(layer, &name)?;
        layers.push_str(if at == 0 { "" } else { ":" });
        layers.push_str(&name);
    }
    if let Some(users) = users {
        // On disk what they write is theirs by their numbers on the host: the kernel does its own work there as the host's root.
        let (uid, gid) = (Uid::from_raw(users.uid), Gid::from_raw(users.gid));
        rustix::fs::chownat(CWD, root.upper.as_path(), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    rustix::fs::symlinkat(root.upper.as_path(), names, "upper")?;
    rustix::fs::symlinkat(root.work.as_path(), names, "work")?;
    rustix::fs::mkdirat(names, "root", Mode::from_raw_mode(0o700))?;
    let options = format!("lowerdir={layers},upperdir=upper,workdir=work");
    if options.len() > MOST_OPTIONS {
        return Err(Errno::NAMETOOLONG);
    }
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount("overlay", "root", "overlay", MountFlags::empty(), options.as_c_str())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    rustix::mount::open_tree(names.as_fd(), "root", flags)
}

fn attach_mapped(from: &Path, names: &OwnedFd, name: &str, users: &Users) -> Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, from, flags)?;
    let mapped = sys::map_owners(tree.as_fd(), users.namespace.as_fd());
    mapped.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    rustix::fs::mkdirat(names, name, Mode::from_raw_mode(0o700))?;
    rustix::mount::move_mount(&tree, "", names, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn memory() -> Result<OwnedFd> {
    let fs = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&fs, "mode", "0700")?;
    rustix::mount::fsconfig_create(&fs)?;
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
