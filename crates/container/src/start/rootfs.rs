//! What the container sees as `/`: its image under a layer of its own, its mounts and devices, and nothing of the host.
//!
//! Every path of the container is resolved with the container's root as the end of the world (`openat2`), so no symbolic link of an
//! image or a volume leads out of it.

mod cgroups;
mod covers;
mod devices;
mod overlay;
mod target;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Context, Namespaces, StartError, Users};
use crate::config::{ContainerConfig, Mount, Propagation, Source};
use crate::sys::{self, MountAttributes};

/// A mount that is attached nowhere yet.
pub struct Detached {
    tree: OwnedFd,
    is_directory: bool,
}

/// The mounts of the host, which the helper has left: a mount that shall be seen on both sides must come from there, and so must
/// what was mounted after the helper left.
pub struct HostMounts(OwnedFd);

impl AsRawFd for HostMounts {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl HostMounts {
    pub fn of_this_process() -> Result<HostMounts, StartError> {
        open_mounts().map(HostMounts)
    }

    /// Looks at files as the host has them.
    fn visit<T>(&self, look: impl FnOnce() -> T) -> Result<T, StartError> {
        let own = open_mounts()?;
        let go = |to: &OwnedFd| move_into_link_name_space(to.as_fd(), Some(LinkNameSpaceType::Mount));
        go(&self.0).context(|| "failed to enter the host's mounts".to_owned())?;
        let seen = look();
        if go(&own).is_err() {
            // Nothing that this process would do there was meant for the host.
            std::process::abort();
        }
        Ok(seen)
    }
}

fn open_mounts() -> Result<OwnedFd, StartError> {
    let file = std::fs::File::open("/proc/self/ns/mnt");
    Ok(file.context(|| "failed to open /proc/self/ns/mnt".to_owned())?.into())
}

/// What a container gets from the host, opened and attached nowhere yet.
pub struct Prepared {
    root: OwnedFd,
    /// In the order of the mounts; `None`: made inside.
    sources: Vec<Option<Detached>>,
    /// With users of the pod's own, who cannot make devices.
    devices: Option<Vec<OwnedFd>>,
}

impl Prepared {
    pub fn descriptors(&self) -> Vec<RawFd> {
        let mut all = vec![self.root.as_raw_fd()];
        all.extend(self.sources.iter().flatten().map(|source| source.tree.as_raw_fd()));
        all.extend(self.devices.iter().flatten().map(AsRawFd::as_raw_fd));
        all
    }
}

/// Does what needs the host's files, as the host's root.
pub fn prepare(config: &ContainerConfig, namespaces: &Namespaces<'_>) -> Result<Prepared, StartError> {
    let users = namespaces.users;
    let root = if config.root.layers.is_empty() {
        let own = open_source(&config.root.upper, Path::new(""))?.tree;
        users.map_or(Ok(()), |users| map_owners(own.as_fd(), users, &config.root.upper))?;
        own
    } else {
        overlay::make(&config.root, users).context(|| "failed to mount the root file system".to_owned())?
    };
    let sources = open_sources(config, namespaces)?;
    let devices = match users {
        Some(_) => Some(config.devices.iter().map(devices::open).collect::<Result<Vec<_>, _>>()?),
        None => None,
    };
    // Users of the pod's own may not be able to find it: they are there already when they come.
    rustix::process::chdir(config.root.target.as_path())
        .context(|| format!("failed to change to {}", config.root.target.display()))?;
    Ok(Prepared { root, sources, devices })
}

fn map_owners(tree: BorrowedFd<'_>, users: &Users, path: &Path) -> Result<(), StartError> {
    sys::map_owners(tree, users.namespace.as_fd()).context(|| {
        format!(
            "failed to set MOUNT_ATTR_IDMAP on {}: maybe the filesystem used doesn't support idmap mounts on this kernel",
            path.display()
        )
    })
}

fn open_sources(
    config: &ContainerConfig,
    namespaces: &Namespaces<'_>,
) -> Result<Vec<Option<Detached>>, StartError> {
    let shared_memory = namespaces.shared_memory;
    let mut all = Vec::with_capacity(config.mounts.len());
    for mount in &config.mounts {
        all.push(match &mount.source {
            Source::Bind { path, sub_path } => {
                let source = namespaces.host_mounts.visit(|| open_source(path, sub_path))??;
                if let (true, Some(users)) = (mount.id_mapped, namespaces.users) {
                    map_owners(source.tree.as_fd(), users, path)?;
                }
                Some(source)
            }
            Source::Image { layers, sub_path } => {
                let scratch = config.root.target.as_path();
                let tree = overlay::part_of_image(layers, sub_path, scratch, namespaces.users);
                let tree = tree.context(|| format!("failed to mount {} of an image", sub_path.display()))?;
                let is_directory = is_directory(tree.as_fd())?;
                Some(Detached { tree, is_directory })
            }
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
    let tree = clone_tree(source.as_fd()).context(shown)?;
    Ok(Detached { tree, is_directory })
}

fn is_directory(file: BorrowedFd<'_>) -> Result<bool, StartError> {
    let stat = rustix::fs::fstat(file).context(|| "failed to look at a file".to_owned())?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Mounts everything and makes it the root of this process.
pub fn enter(config: &ContainerConfig, prepared: Prepared) -> Result<(), StartError> {
    // What the container mounts stays its own; what the host mounts may still come in.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .context(|| "failed to part from the host's mounts".to_owned())?;
    if cgroups::begin_at_own(config) {
        super::unshare_cgroups()?;
    }
    // Whoever may not use all devices finds none in what others fill.
    let nodev = config.resources.devices.is_some();
    let root = prepared.root;
    attach_root(root.as_fd(), nodev)?;
    for (mount, source) in config.mounts.iter().zip(prepared.sources) {
        let attached = match mount.source {
            Source::Cgroup { host } => cgroups::attach(config, mount, host, root.as_fd()),
            _ => attach(mount, source, nodev, root.as_fd()),
        };
        attached.map_err(|why| {
            StartError(format!("error mounting to rootfs at {:?}: {why}", mount.target.display().to_string()))
        })?;
    }
    match prepared.devices {
        None => config.devices.iter().try_for_each(|device| devices::make(device, root.as_fd()))?,
        Some(opened) => {
            for (device, node) in config.devices.iter().zip(opened) {
                devices::bind(device, node.as_fd(), root.as_fd())?;
            }
        }
    }
    // What is the host's stays as it is.
    let is_dev_of_host =
        |mount: &Mount| mount.target == Path::new("/dev") && matches!(mount.source, Source::Bind { .. });
    if !config.mounts.iter().any(is_dev_of_host) {
        devices::link(root.as_fd())?;
    }
    for path in &config.readonly_paths {
        covers::make_readonly(path, root.as_fd())?;
    }
    for path in &config.masked_paths {
        covers::mask(path, root.as_fd())?;
    }
    // An image may name a working directory that it does not have.
    target::make(root.as_fd(), &config.process.cwd, true)?;
    let failed = || "failed to change the root".to_owned();
    rustix::process::fchdir(&root).context(failed)?;
    rustix::process::pivot_root(".", ".").context(failed)?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).context(failed)?;
    rustix::process::chdir("/").context(failed)?;
    if config.root.readonly {
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).context(failed)?;
        let attributes = MountAttributes { set: sys::READ_ONLY, ..MountAttributes::default() };
        sys::mount_setattr(root.as_fd(), attributes)
            .context(|| "failed to make the root read-only".to_owned())?;
    }
    Ok(())
}

/// Where this process is.
fn attach_root(root: BorrowedFd<'_>, nodev: bool) -> Result<(), StartError> {
    let failed = || "failed to mount the root file system".to_owned();
    if nodev {
        let attributes = MountAttributes { set: sys::NO_DEV, ..MountAttributes::default() };
        sys::mount_setattr(root, attributes).context(failed)?;
    }
    let here = rustix::fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).context(failed)?;
    move_onto(root, here.as_fd()).context(failed)
}

fn attach(
    mount: &Mount,
    source: Option<Detached>,
    nodev: bool,
    root: BorrowedFd<'_>,
) -> Result<(), StartError> {
    let of_host = source.is_some();
    let source = match source {
        Some(source) => source,
        None => Detached { tree: new_filesystem(mount)?, is_directory: true },
    };
    let target = target::make(root, &mount.target, source.is_directory)?;
    check_target(mount, &source, &target.path)?;
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
    let everywhere = flag(nodev && of_host, sys::NO_DEV);
    if propagation | everywhere != 0 {
        sys::mount_setattr(tree, MountAttributes { set: everywhere, propagation, recursive: true })
            .context(failed)?;
    }
    let readonly = flag(mount.readonly, sys::READ_ONLY);
    if set | readonly != 0 {
        let recursive = mount.recursive_readonly;
        sys::mount_setattr(tree, MountAttributes { set: set | readonly, propagation: 0, recursive })
            .context(failed)?;
    }
    move_onto(tree, target.file.as_fd()).context(|| "failed to attach it".to_owned())
}

fn new_filesystem(mount: &Mount) -> Result<OwnedFd, StartError> {
    match &mount.source {
        Source::Filesystem { kind, options } => make_filesystem(kind, options),
        _ => Err(StartError("its source was not opened".to_owned())),
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

/// What a container may mount over in `/proc`, as runc has it: files that tell of the machine.
const PROC_FILES: [&str; 10] = [
    "cpuinfo",
    "diskstats",
    "loadavg",
    "meminfo",
    "slabinfo",
    "stat",
    "swaps",
    "sys/crypto/fips_enabled",
    "sys/kernel/ns_last_pid",
    "uptime",
];

/// A false `/proc` would take what is written to it for security's sake, and masked paths would mask nothing.
fn check_target(mount: &Mount, source: &Detached, at: &Path) -> Result<(), StartError> {
    let kind = match &mount.source {
        Source::Filesystem { kind, .. } => kind.as_str(),
        _ => "",
    };
    if matches!(kind, "proc" | "sysfs") && normal(&mount.target).ne(normal(at)) {
        return Err(StartError(format!("filesystem {kind:?} must be mounted on ordinary directory")));
    }
    let Ok(below) = at.strip_prefix("/proc") else { return Ok(()) };
    let allowed = if below.as_os_str().is_empty() {
        rustix::fs::fstatfs(&source.tree).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
    } else {
        PROC_FILES.iter().any(|file| below == Path::new(file))
    };
    if allowed {
        return Ok(());
    }
    Err(StartError(format!("{:?} cannot be mounted because it is inside /proc", at.display().to_string())))
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

/// The host's, to be given to a container, which can neither keep it nor change its owner and mode.
pub fn open_null() -> Result<OwnedFd, StartError> {
    let failed = || "failed to open /dev/null".to_owned();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = rustix::mount::open_tree(rustix::fs::CWD, "/dev/null", flags).context(failed)?;
    let attributes = MountAttributes { set: sys::READ_ONLY, ..MountAttributes::default() };
    sys::mount_setattr(mount.as_fd(), attributes).context(failed)?;
    let path = format!("/proc/self/fd/{}", mount.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).context(failed)
}

/// A copy of what is mounted there and below, attached nowhere.
fn clone_tree(of: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(of, "", flags)
}

fn move_onto(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", target, "", flags)
}
