//! What the container sees as `/`: its image under a layer of its own, its mounts and devices, and nothing of the host.
//!
//! Every path of the container is resolved with the container's root as the end of the world (`openat2`), so no symbolic link of an
//! image or a volume leads out of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use super::{Context, StartError};
use crate::config::{ContainerConfig, Device, Mount, Propagation, Root, Source};
use crate::sys::{self, MountAttributes};

/// A mount that is attached nowhere yet.
pub struct Detached {
    tree: OwnedFd,
    is_directory: bool,
}

/// Opens what is to be bound from the host, in the order of the mounts; `None`: made inside.
pub fn open_sources(
    config: &ContainerConfig,
    shared_memory: Option<&Path>,
) -> Result<Vec<Option<Detached>>, StartError> {
    let mut all = Vec::with_capacity(config.mounts.len());
    for mount in &config.mounts {
        all.push(match &mount.source {
            Source::Bind { path, sub_path } => Some(open_source(path, sub_path)?),
            Source::SharedMemory => match shared_memory {
                Some(path) => Some(open_source(path, Path::new(""))?),
                None => Some(open_source(Path::new("/dev/shm"), Path::new(""))?),
            },
            Source::Filesystem { .. } | Source::Cgroup { .. } => None,
        });
    }
    Ok(all)
}

fn open_source(path: &Path, sub_path: &Path) -> Result<Detached, StartError> {
    let shown = || format!("failed to open {}", path.join(sub_path).display());
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mut source = rustix::fs::open(path, flags, Mode::empty()).context(shown)?;
    if !sub_path.as_os_str().is_empty() {
        source = rustix::fs::openat2(&source, sub_path, flags, Mode::empty(), ResolveFlags::BENEATH)
            .context(shown)?;
    }
    let is_directory = is_directory(source.as_fd())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(&source, "", flags).context(shown)?;
    Ok(Detached { tree, is_directory })
}

fn is_directory(file: BorrowedFd<'_>) -> Result<bool, StartError> {
    let stat = rustix::fs::fstat(file).context(|| "failed to look at a file".to_owned())?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Mounts everything and makes it the root of this process.
pub fn enter(config: &ContainerConfig, sources: Vec<Option<Detached>>) -> Result<(), StartError> {
    // What the container mounts stays its own; what the host mounts may still come in.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .context(|| "failed to part from the host's mounts".to_owned())?;
    if !config.cgroup.as_os_str().is_empty() {
        super::unshare_cgroups()?;
    }
    let root = mount_root(&config.root)?;
    for (mount, source) in config.mounts.iter().zip(sources) {
        attach(mount, source, root.as_fd()).map_err(|why| {
            StartError(format!("error mounting to rootfs at {:?}: {why}", mount.target.display().to_string()))
        })?;
    }
    for device in &config.devices {
        make_device(device, root.as_fd())?;
    }
    link_devices(root.as_fd())?;
    // An image may name a working directory that it does not have.
    make_target(root.as_fd(), &config.process.cwd, true)?;
    let failed = || "failed to change the root".to_owned();
    rustix::process::fchdir(&root).context(failed)?;
    rustix::process::pivot_root(".", ".").context(failed)?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).context(failed)?;
    rustix::process::chdir("/").context(failed)?;
    for path in &config.readonly_paths {
        make_readonly(path)?;
    }
    for path in &config.masked_paths {
        mask(path)?;
    }
    if config.root.readonly {
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).context(failed)?;
        let attributes = MountAttributes { set: sys::READ_ONLY, ..MountAttributes::default() };
        sys::mount_setattr(root.as_fd(), attributes)
            .context(|| "failed to make the root read-only".to_owned())?;
    }
    Ok(())
}

/// The image's layers under one of the container's own. Layers are given one by one: a page of options would hold forty of them.
fn mount_root(root: &Root) -> Result<OwnedFd, StartError> {
    let failed = || "failed to mount the root file system".to_owned();
    let mounted = if root.layers.is_empty() {
        open_source(&root.upper, Path::new(""))?.tree
    } else {
        let fs = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).context(failed)?;
        for layer in &root.layers {
            rustix::mount::fsconfig_set_string(&fs, "lowerdir+", layer.as_path()).context(failed)?;
        }
        rustix::mount::fsconfig_set_string(&fs, "upperdir", root.upper.as_path()).context(failed)?;
        rustix::mount::fsconfig_set_string(&fs, "workdir", root.work.as_path()).context(failed)?;
        rustix::mount::fsconfig_create(&fs).context(failed)?;
        rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).context(failed)?
    };
    rustix::mount::move_mount(
        &mounted,
        "",
        CWD,
        root.target.as_path(),
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .context(failed)?;
    rustix::fs::open(root.target.as_path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).context(failed)
}

fn attach(mount: &Mount, source: Option<Detached>, root: BorrowedFd<'_>) -> Result<(), StartError> {
    let source = match source {
        Some(source) => source,
        None => Detached { tree: new_filesystem(mount)?, is_directory: true },
    };
    let target = make_target(root, &mount.target, source.is_directory)?;
    let flag = |on: bool, flag: u64| if on { flag } else { 0 };
    let set =
        flag(mount.nosuid, sys::NO_SUID) | flag(mount.nodev, sys::NO_DEV) | flag(mount.noexec, sys::NO_EXEC);
    let propagation = match mount.propagation {
        Propagation::None => sys::PRIVATE,
        Propagation::HostToContainer => sys::SLAVE,
        Propagation::Bidirectional => 0,
    };
    let failed = || "failed to set the mount's attributes".to_owned();
    let tree = source.tree.as_fd();
    if propagation != 0 {
        sys::mount_setattr(tree, MountAttributes { set: 0, propagation, recursive: true }).context(failed)?;
    }
    let readonly = flag(mount.readonly, sys::READ_ONLY);
    if set | readonly != 0 {
        let recursive = mount.recursive_readonly;
        sys::mount_setattr(tree, MountAttributes { set: set | readonly, propagation: 0, recursive })
            .context(failed)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", &target, "", flags).context(|| "failed to attach it".to_owned())
}

fn new_filesystem(mount: &Mount) -> Result<OwnedFd, StartError> {
    match &mount.source {
        Source::Filesystem { kind, options } => make_filesystem(kind, options),
        Source::Cgroup { .. } => match crate::cgroup::Version::of_host() {
            crate::cgroup::Version::V2 => make_filesystem("cgroup2", &[]),
            crate::cgroup::Version::V1 => Ok(open_source(Path::new("/sys/fs/cgroup"), Path::new(""))?.tree),
        },
        Source::Bind { .. } | Source::SharedMemory => Err(StartError("its source was not opened".to_owned())),
    }
}

/// A new file system, mounted nowhere yet.
pub fn make_filesystem(kind: &str, options: &[(String, String)]) -> Result<OwnedFd, StartError> {
    let failed = || format!("failed to make a {kind}");
    let fs = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).context(failed)?;
    for (name, value) in options {
        if value.is_empty() {
            rustix::mount::fsconfig_set_flag(&fs, name.as_str()).context(failed)?;
        } else {
            rustix::mount::fsconfig_set_string(&fs, name.as_str(), value.as_str()).context(failed)?;
        }
    }
    rustix::mount::fsconfig_create(&fs).context(failed)?;
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).context(failed)
}

/// The file or directory to mount on, made where it is missing.
fn make_target(root: BorrowedFd<'_>, target: &Path, directory: bool) -> Result<OwnedFd, StartError> {
    let shown = || format!("failed to make {}", target.display());
    let parts: Vec<&std::ffi::OsStr> = normal(target).collect();
    let Some((last, parents)) = parts.split_last() else {
        return open_in(root, Path::new("."), OFlags::PATH).context(shown);
    };
    let mut path = PathBuf::new();
    let mut at = open_in(root, Path::new("."), OFlags::PATH).context(shown)?;
    let steps = parents.iter().map(|part| (part, true)).chain([(last, directory)]);
    for (part, as_directory) in steps {
        path.push(part);
        match open_in(root, &path, OFlags::PATH) {
            Ok(there) => at = there,
            Err(rustix::io::Errno::NOENT) => {
                // Directly in what was resolved just now: a link that appears meanwhile is an error, not a way out.
                if as_directory {
                    rustix::fs::mkdirat(&at, *part, Mode::from_raw_mode(0o755)).context(shown)?;
                } else {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat(&at, *part, flags, Mode::from_raw_mode(0o644)).context(shown)?;
                }
                at = open_in(root, &path, OFlags::PATH).context(shown)?;
            }
            Err(error) => return Err(error).context(shown),
        }
    }
    Ok(at)
}

fn normal(path: &Path) -> impl Iterator<Item = &std::ffi::OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

fn open_in(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn make_device(device: &Device, root: BorrowedFd<'_>) -> Result<(), StartError> {
    let shown = || format!("failed to make device {}", device.path.display());
    let (Some(parent), Some(name)) = (device.path.parent(), device.path.file_name()) else {
        return Err(StartError(shown()));
    };
    let parent = make_target(root, parent, true)?;
    let kind = if device.block { FileType::BlockDevice } else { FileType::CharacterDevice };
    let number = rustix::fs::makedev(device.major, device.minor);
    let mode = Mode::from_raw_mode(device.mode);
    match rustix::fs::mknodat(&parent, name, kind, mode, number) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error).context(shown),
    }
    // Whatever the umask made of it.
    rustix::fs::chmodat(&parent, name, mode, AtFlags::empty()).context(shown)
}

/// What programs expect in `/dev` besides devices.
fn link_devices(root: BorrowedFd<'_>) -> Result<(), StartError> {
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

/// Of the container's own root, after it is one; paths that are not there need no care.
fn make_readonly(path: &Path) -> Result<(), StartError> {
    let shown = || format!("failed to make {} read-only", path.display());
    if !path.exists() {
        return Ok(());
    }
    let bound = open_source(path, Path::new(""))?;
    let attributes = MountAttributes { set: sys::READ_ONLY, propagation: 0, recursive: true };
    sys::mount_setattr(bound.tree.as_fd(), attributes).context(shown)?;
    rustix::mount::move_mount(&bound.tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .context(shown)
}

/// An empty read-only directory, or nothing to be read.
fn mask(path: &Path) -> Result<(), StartError> {
    let shown = || format!("failed to mask {}", path.display());
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let cover = if metadata.is_dir() {
        let empty = make_filesystem(
            "tmpfs",
            &[("size".to_owned(), "0".to_owned()), ("nr_inodes".to_owned(), "1".to_owned())],
        )?;
        let attributes = MountAttributes { set: sys::READ_ONLY, ..MountAttributes::default() };
        sys::mount_setattr(empty.as_fd(), attributes).context(shown)?;
        empty
    } else {
        open_source(Path::new("/dev/null"), Path::new(""))?.tree
    };
    rustix::mount::move_mount(&cover, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).context(shown)
}
