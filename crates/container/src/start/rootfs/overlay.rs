//! Layers of images: under one of its own, the root file system of a container; alone, what it reads of another image.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
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
    let stack = Stack {
        layers: &root.layers,
        own: Some((&root.upper, &root.work)),
        scratch: &root.target,
        users,
        part: Path::new(""),
    };
    if users.is_some() {
        return in_one_option(&stack);
    }
    let paths = root.layers.iter().chain([&root.upper, &root.work]);
    let mut lengths = paths.map(|path| path.as_os_str().len());
    if takes_layers_apart() && lengths.all(|length| length <= MOST_BYTES) {
        match layer_by_layer(root) {
            Err(Errno::INVAL) => {}
            made => return made,
        }
    }
    in_one_option(&stack)
}

/// A kernel before 6.8 does not know how to be told so; if it is all the same, that is a line in its log for each container.
fn takes_layers_apart() -> bool {
    let uname = rustix::system::uname();
    is_since_6_8(&uname.release().to_string_lossy())
}

fn is_since_6_8(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|word| word.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(8))
}

#[cfg(test)]
#[test]
fn kernels_are_told_apart() {
    for release in ["6.8.0-31-generic", "6.18.44-fc-v509", "10.0.1"] {
        assert!(is_since_6_8(release), "{release}");
    }
    for release in ["6.1.0-55-cloud-amd64", "5.15.0", "6.7.12", ""] {
        assert!(!is_since_6_8(release), "{release}");
    }
}

/// The layers of an image, or what is at `sub_path` in them and cannot lead out of them. `scratch`: an empty directory.
pub fn part_of_image(
    layers: &[PathBuf],
    sub_path: &Path,
    scratch: &Path,
    users: Option<&Users>,
) -> Result<OwnedFd> {
    in_one_option(&Stack { layers, own: None, scratch, users, part: sub_path })
}

/// What is mounted, and what of it is wanted.
struct Stack<'a> {
    layers: &'a [PathBuf],
    /// The one to write to, and where overlayfs works for it.
    own: Option<(&'a Path, &'a Path)>,
    scratch: &'a Path,
    users: Option<&'a Users>,
    part: &'a Path,
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
fn in_one_option(stack: &Stack<'_>) -> Result<OwnedFd> {
    let names = memory()?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&names, "", CWD, stack.scratch, flags)?;
    rustix::process::fchdir(&names)?;
    let made = mount_by_names(stack, &names);
    // Whatever became of it, nobody needs the names any more.
    let left = rustix::process::chdir("/")
        .and_then(|()| rustix::mount::unmount(stack.scratch, UnmountFlags::DETACH));
    made.and_then(|made| left.map(|()| made))
}

fn mount_by_names(stack: &Stack<'_>, names: &OwnedFd) -> Result<OwnedFd> {
    let link = |to: &Path, name: &str| match stack.users {
        Some(users) => attach_mapped(to, names, name, users),
        None => rustix::fs::symlinkat(to, names, name),
    };
    let mut layers = String::new();
    for (at, layer) in stack.layers.iter().enumerate() {
        let name = at.to_string();
        link(layer, &name)?;
        layers.push_str(if at == 0 { "" } else { ":" });
        layers.push_str(&name);
    }
    let mut options = format!("lowerdir={layers}");
    if let Some((upper, work)) = stack.own {
        own_layer(names, upper, work, stack.users)?;
        options.push_str(",upperdir=upper,workdir=work");
    }
    rustix::fs::mkdirat(names, "root", Mode::from_raw_mode(0o700))?;
    if options.len() > MOST_OPTIONS {
        return Err(Errno::NAMETOOLONG);
    }
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount("overlay", "root", "overlay", MountFlags::empty(), options.as_c_str())?;
    take(names, stack.part)
}

fn own_layer(names: &OwnedFd, upper: &Path, work: &Path, users: Option<&Users>) -> Result<()> {
    if let Some(users) = users {
        // On disk what they write is theirs by their numbers on the host: the kernel does its own work there as the host's root.
        let (uid, gid) = (Uid::from_raw(users.uid), Gid::from_raw(users.gid));
        rustix::fs::chownat(CWD, upper, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    rustix::fs::symlinkat(upper, names, "upper")?;
    rustix::fs::symlinkat(work, names, "work")
}

/// Off the scratch directory: a mount of its own, of all or of a part.
fn take(names: &OwnedFd, part: &Path) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if part.as_os_str().is_empty() {
        return rustix::mount::open_tree(names.as_fd(), "root", flags);
    }
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let whole = rustix::fs::openat(names, "root", path, Mode::empty())?;
    let part = rustix::fs::openat2(&whole, part, path, Mode::empty(), ResolveFlags::BENEATH)?;
    rustix::mount::open_tree(part.as_fd(), "", flags | OpenTreeFlags::AT_EMPTY_PATH)
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
