//! What a container finds mounted: what every container has, the pod's files, and what is asked for.

use std::path::{Path, PathBuf};

use container::config::{Mount, Propagation, Source};
use cri::{Error, MountPropagation};
use rustix::fs::OFlags;

use super::{Parts, files, layers};
use crate::error::{Context, unknown};

pub fn build(parts: &Parts<'_>) -> Result<Vec<Mount>, Error> {
    let context = parts.context();
    let asked = &parts.config.mounts;
    let is_asked =
        |target: &Path| asked.iter().any(|mount| normal(Path::new(&mount.container_path)) == normal(target));
    let mut all = defaults(context.privileged, parts.runtime.has_mqueue);
    let own_users = parts.sandbox.record.has_users();
    for (name, target) in files::ALL {
        all.push(Mount {
            target: target.into(),
            source: Source::Bind { path: parts.sandbox.directory.join(name), sub_path: PathBuf::new() },
            readonly: context.readonly_rootfs,
            nosuid: true,
            nodev: true,
            noexec: true,
            id_mapped: own_users,
            ..Mount::default()
        });
    }
    if context.readonly_rootfs {
        all.extend(volumes(parts));
    }
    all.retain(|mount| !is_asked(&mount.target));
    if let Some(devices) = devices_of_host(parts.config) {
        let is_there = |below: &Path| Path::new(&devices.host_path).join(below).exists();
        all.retain(|mount| mount.target.strip_prefix("/dev").ok().is_none_or(is_there));
    }
    for mount in asked {
        all.push(convert(parts, mount)?);
    }
    // What is above before what is below; the order within stays.
    all.sort_by_key(|mount| normal(&mount.target).components().count());
    Ok(all)
}

/// A `/dev` of the host's has what it has: nothing is made in it.
pub fn devices_of_host(config: &cri::ContainerConfig) -> Option<&cri::Mount> {
    config.mounts.iter().find(|mount| normal(Path::new(&mount.container_path)) == Path::new("/dev"))
}

fn normal(path: &Path) -> PathBuf {
    Path::new("/").join(path).components().collect()
}

fn defaults(privileged: bool, has_mqueue: bool) -> Vec<Mount> {
    let filesystem = |kind: &str, options: &[(&str, &str)]| Source::Filesystem {
        kind: kind.to_owned(),
        options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let mount = |target: &str, source: Source| Mount {
        target: target.into(),
        source,
        nosuid: true,
        nodev: true,
        noexec: true,
        ..Mount::default()
    };
    let with_devices = |target: &str, source: Source| Mount { nodev: false, ..mount(target, source) };
    let mut all = vec![
        mount("/proc", filesystem("proc", &[])),
        Mount {
            noexec: false,
            ..with_devices("/dev", filesystem("tmpfs", &[("mode", "755"), ("size", "65536k")]))
        },
        with_devices(
            "/dev/pts",
            filesystem(
                "devpts",
                &[("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5")],
            ),
        ),
        mount("/dev/shm", Source::SharedMemory),
        Mount { readonly: !privileged, ..mount("/sys", filesystem("sysfs", &[])) },
        Mount { readonly: !privileged, ..mount("/sys/fs/cgroup", Source::Cgroup { host: false }) },
    ];
    if has_mqueue {
        all.push(mount("/dev/mqueue", filesystem("mqueue", &[])));
    }
    all
}

/// Where an image wants to write although the root is read-only: empty directories of the container's own.
fn volumes(parts: &Parts<'_>) -> impl Iterator<Item = Mount> {
    let path = |at: usize| volume(parts.directory, at);
    parts.image.config.volumes.iter().enumerate().map(move |(at, target)| Mount {
        target: target.into(),
        source: Source::Bind { path: path(at), sub_path: PathBuf::new() },
        id_mapped: parts.sandbox.record.has_users(),
        ..Mount::default()
    })
}

fn volume(directory: &Path, at: usize) -> PathBuf {
    directory.join("volumes").join(at.to_string())
}

/// Makes them, for whom the image's own are.
pub fn make_volumes(parts: &Parts<'_>) -> std::io::Result<()> {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !parts.context().readonly_rootfs {
        return Ok(());
    }
    let layers = parts.runtime.images.layers(parts.image);
    for (at, target) in parts.image.config.volumes.iter().enumerate() {
        let path = volume(parts.directory, at);
        std::fs::create_dir_all(&path)?;
        let like = layers.iter().find_map(|layer| layers::open(layer, Path::new(target), OFlags::PATH));
        if let Some(like) = like.and_then(|like| rustix::fs::fstat(like).ok()) {
            chown(&path, Some(like.st_uid), Some(like.st_gid))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(like.st_mode & 0o7777))?;
        }
    }
    Ok(())
}

fn convert(parts: &Parts<'_>, mount: &cri::Mount) -> Result<Mount, Error> {
    let source = match &mount.image {
        Some(image) if !image.image.is_empty() => image_source(parts, &image.image, &mount.image_sub_path)?,
        _ => host_source(&mount.host_path)?,
    };
    let propagation = match mount.propagation() {
        MountPropagation::Private => Propagation::None,
        MountPropagation::HostToContainer => Propagation::HostToContainer,
        MountPropagation::Bidirectional => Propagation::Bidirectional,
    };
    if mount.recursive_read_only && (!mount.readonly || propagation != Propagation::None) {
        return Err(unknown(format!(
            "recursive read-only mount {:?} must be read-only and private",
            mount.container_path
        )));
    }
    Ok(Mount {
        target: normal(Path::new(&mount.container_path)),
        source,
        readonly: mount.readonly || mount.image.is_some(),
        recursive_readonly: mount.recursive_read_only,
        nosuid: false,
        nodev: false,
        noexec: false,
        propagation,
        id_mapped: !mount.uid_mappings.is_empty() && parts.sandbox.record.has_users(),
    })
}

/// A path of the host that is missing becomes a directory.
fn host_source(path: &str) -> Result<Source, Error> {
    if path.is_empty() {
        return Err(unknown("a mount needs a host path"));
    }
    let is_there = std::fs::exists(path).context(|| format!("failed to stat {path:?}"))?;
    if !is_there {
        std::fs::create_dir_all(path).context(|| format!("failed to mkdir {path:?}"))?;
    }
    Ok(Source::Bind { path: path.into(), sub_path: PathBuf::new() })
}

/// Bidirectional propagation needs a shared mount: else what the container mounts there would not reach the host. As with containerd this
/// holds for host paths of the request, and not for images or the mounts of CDI devices.
pub fn check_propagation(mounts: &[cri::Mount]) -> Result<(), Error> {
    let bidirectional = mounts.iter().filter(|mount| mount.propagation() == MountPropagation::Bidirectional);
    for path in bidirectional.filter(|mount| !is_image(mount)).map(|mount| &mount.host_path) {
        let mounted = container::mounts::holding(Path::new(path));
        let mounted = mounted.context(|| format!("failed to find the mount of {path:?}"))?;
        if let Some(private) = mounted.filter(|mounted| !mounted.is_shared()) {
            let place = private.path.display().to_string();
            let mend = format!("`mount --make-shared {place}` on the node makes it one");
            let why = format!("path {path:?} is mounted on {place:?} but it is not a shared mount: {mend}");
            return Err(unknown(why));
        }
    }
    Ok(())
}

fn is_image(mount: &cri::Mount) -> bool {
    mount.image.as_ref().is_some_and(|image| !image.image.is_empty())
}

/// The files of another image.
fn image_source(parts: &Parts<'_>, name: &str, sub_path: &str) -> Result<Source, Error> {
    let image = parts.runtime.find_image(name)?;
    let image = image.ok_or_else(|| unknown(format!("failed to resolve image {name:?}: not found")))?;
    let layers = parts.runtime.images.layers(&image);
    match &*layers {
        [] => Err(unknown(format!("image {name:?} has no layers"))),
        // One is no stack: overlayfs wants two.
        [only] => Ok(Source::Bind { path: only.clone(), sub_path: sub_path.into() }),
        _ => Ok(Source::Image { layers, sub_path: sub_path.into() }),
    }
}
