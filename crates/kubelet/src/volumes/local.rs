//! PersistentVolumes that are directories of this machine.
//!
//! * `local` volumes are bound into the pod's directory, as kubelet does, so that one volume can be in several pods.
//! * Those of the provisioner `setpoint.dev/local` are directories this node makes with their first pod, and removes when the
//!   PersistentVolume is gone. Which ones it made is written down, since nothing else tells: a node may not list volumes.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use container::{mounts, tree};
use object::Value;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use super::host_path;
use super::ready::{is_marked, unmark};
use crate::directories;

pub const PROVISIONER: &str = "setpoint.dev/local";
/// Where the provisioner says that its volumes are.
pub const DIRECTORY: &str = "/var/lib/setpoint/volumes";
/// Which of them a node made is written down in this folder of its own directory.
pub const RECORDS: &str = "local-volumes";

/// What of a PersistentVolume this node can mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalVolume {
    HostPath { path: String, kind: String },
    Local { path: String, options: Vec<String> },
    Provisioned { path: String },
}

/// Reads the volume, or says why a pod cannot have it here. `mounted` and `device`: how containers use it.
pub fn read(
    volume: &Value,
    directory: &Path,
    in_pod: &str,
    mounted: bool,
    device: bool,
) -> Result<LocalVolume, String> {
    let spec = |path: &[&str]| volume.get("spec").and_then(|spec| spec.str_at(path)).unwrap_or_default();
    let mode = Some(spec(&["volumeMode"])).filter(|mode| !mode.is_empty()).unwrap_or("Filesystem");
    if mounted && mode != "Filesystem" {
        return Err(format!("volume {in_pod} has volumeMode {mode}, but is specified in volumeMounts"));
    }
    if device && mode != "Block" {
        return Err(format!("volume {in_pod} has volumeMode {mode}, but is specified in volumeDevices"));
    }
    if device {
        return Err(format!("volume {in_pod}: raw block volumes are not supported by this node"));
    }
    let options: Vec<String> = volume
        .at(&["spec", "mountOptions"])
        .and_then(Value::as_list)
        .unwrap_or_default()
        .iter()
        .filter_map(|option| option.as_str().map(str::to_owned))
        .collect();
    if volume.at(&["spec", "local"]).is_some() {
        return Ok(LocalVolume::Local { path: spec(&["local", "path"]).to_owned(), options });
    }
    if volume.at(&["spec", "hostPath"]).is_none() {
        let sources = volume.get("spec").and_then(Value::as_map);
        let kind = sources.and_then(|map| map.iter().find(|(name, _)| SOURCES.contains(&name.as_str())));
        let kind = kind.map_or("this kind of", |(name, _)| name.as_str());
        return Err(format!("no volume plugin matched: {kind} volumes are not supported by this node"));
    }
    let path = spec(&["hostPath", "path"]).to_owned();
    if is_provisioned(volume, directory, &path) {
        return Ok(LocalVolume::Provisioned { path });
    }
    if !options.is_empty() {
        return Err("mount options are not supported for this volume type".to_owned());
    }
    Ok(LocalVolume::HostPath { path, kind: spec(&["hostPath", "type"]).to_owned() })
}

/// What a PersistentVolume may be that no node without drivers can mount.
const SOURCES: [&str; 20] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Made by the provisioner, at the one place it makes volumes: a directory named like the volume.
fn is_provisioned(volume: &Value, directory: &Path, path: &str) -> bool {
    let by = volume.at(&["metadata", "annotations"]);
    let by = by.and_then(|annotations| annotations.str_at(&["pv.kubernetes.io/provisioned-by"]));
    let name = volume.str_at(&["metadata", "name"]).unwrap_or_default();
    by == Some(PROVISIONER) && is_name(name) && Path::new(path) == directory.join(name)
}

/// One part of a path, and nothing that means another.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && name.len() <= 253
}

/// Whether other pods of the node have a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// None.
    First,
    Shared,
    /// It is bound to this pod already, and was made ready.
    Already,
}

/// Binds a directory of the machine to the pod's, which is not ready before that is written down at `ready`: an agent that is killed
/// in between leaves the rest to the next one.
pub fn bind(
    source: &str,
    target: &Path,
    ready: &Path,
    pods: &Path,
    read_only: bool,
    options: &[String],
) -> Result<Bound, String> {
    host_path::check_backsteps(source).map_err(|error| format!("invalid path: {source} {error}"))?;
    match fs::metadata(source) {
        Ok(data) if data.is_dir() => {}
        Ok(_) => return Err("only directories are supported by this node".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("path {source:?} does not exist"));
        }
        Err(error) => return Err(format!("stat {source}: {error}")),
    }
    let flags = flags(options)? | if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    let failed = |error: io::Error| format!("mount {source} at {}: {error}", target.display());
    let mounted = mounts::below(pods).map_err(failed)?;
    let is_bound = mounted.iter().any(|mounted| mounted.path == target);
    if is_bound && is_marked(ready) {
        return Ok(Bound::Already);
    }
    let same_volume = target.file_name();
    let first = !mounted.iter().any(|mounted| {
        mounted.path != target
            && mounted.path.parent().and_then(Path::file_name) == target.parent().and_then(Path::file_name)
            && mounted.path.file_name() == same_volume
    });
    if !is_bound {
        // Of before the machine was started.
        unmark(ready).map_err(failed)?;
        directories::make(target).map_err(failed)?;
        mount_bind(source, target).map_err(|error| failed(error.into()))?;
    }
    if !flags.is_empty() {
        let changed = mount_remount(target, MountFlags::BIND | flags, c"");
        if let Err(error) = changed {
            // Never writable where it must not be.
            unbind(target);
            return Err(failed(error.into()));
        }
    }
    Ok(if first { Bound::First } else { Bound::Shared })
}

/// The reverse of [`bind`], as far as that works: the next attempt finds what is left.
pub fn unbind(target: &Path) {
    if let Err(error) = mounts::unmount_below(target) {
        tracing::warn!(directory = %target.display(), %error, "failed to unmount volume");
    }
}

fn flags(options: &[String]) -> Result<MountFlags, String> {
    let mut flags = MountFlags::empty();
    for option in options {
        flags |= match option.as_str() {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "rw" | "bind" | "defaults" => MountFlags::empty(),
            other => return Err(format!("mount option {other:?} is not supported by this node")),
        };
    }
    Ok(flags)
}

/// The directories this node made for the provisioner.
pub struct Records {
    pub directory: PathBuf,
}

impl Records {
    /// Makes the directory of a volume, if it is not there, for every user to write into.
    pub fn make(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().ok_or_else(|| io::Error::other("a volume without a name"))?;
        directories::make(&self.directory)?;
        // First: a directory that nobody knows of is never removed.
        fs::write(self.directory.join(name), "")?;
        if let Some(parent) = path.parent() {
            // Every pod's user may write to the volume: nobody else may get there.
            directories::close(parent)?;
        }
        match fs::create_dir(path) {
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o777)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.filter(|name| name.as_ref().map_or(true, |name| is_name(name))).collect()
    }

    /// The volume is gone for good: so are its files.
    pub fn remove(&self, volumes: &Path, name: &str) -> io::Result<()> {
        tree::remove(&volumes.join(name))?;
        fs::remove_file(self.directory.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn volumes_are_told_apart() {
        let at = Path::new("/v");
        let of = |text: &str| read(&parse(text), at, "data", true, false);
        let annotated = "name: pvc-1, annotations: {pv.kubernetes.io/provisioned-by: setpoint.dev/local}";
        let provisioned =
            of(&format!("{{metadata: {{{annotated}}}, spec: {{hostPath: {{path: /v/pvc-1}}}}}}"));
        assert_eq!(provisioned, Ok(LocalVolume::Provisioned { path: "/v/pvc-1".to_owned() }));
        for elsewhere in ["/etc", "/v", "/v/pvc-2", "/v/../etc/pvc-1"] {
            let text = format!("{{metadata: {{{annotated}}}, spec: {{hostPath: {{path: {elsewhere}}}}}}}");
            assert!(
                matches!(of(&text), Ok(LocalVolume::HostPath { .. })),
                "{elsewhere} is nobody's to remove"
            );
        }
        let local = of("{spec: {local: {path: /d}, mountOptions: [noatime]}}");
        assert_eq!(
            local,
            Ok(LocalVolume::Local { path: "/d".to_owned(), options: vec!["noatime".to_owned()] })
        );
        let said = |text: &str| of(text).unwrap_err();
        assert_eq!(
            said("{spec: {capacity: {}, csi: {driver: d}}}"),
            "no volume plugin matched: csi volumes are not supported by this node"
        );
        assert_eq!(
            said("{spec: {local: {path: /d}, volumeMode: Block}}"),
            "volume data has volumeMode Block, but is specified in volumeMounts"
        );
        assert_eq!(
            said("{spec: {hostPath: {path: /d}, mountOptions: [ro]}}"),
            "mount options are not supported for this volume type"
        );
    }

    #[test]
    fn directories_are_made_for_all_and_removed_with_their_record() {
        let folder = tempfile::tempdir().unwrap();
        let (volumes, records) = (folder.path().join("v"), Records { directory: folder.path().join("r") });
        assert_eq!(records.names().unwrap(), Vec::<String>::new());
        records.make(&volumes.join("pvc-1")).unwrap();
        fs::set_permissions(&volumes, fs::Permissions::from_mode(0o755)).unwrap();
        records.make(&volumes.join("pvc-1")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&volumes.join("pvc-1")), mode(&volumes) & 0o027), (0o777, 0));
        fs::write(volumes.join("pvc-1/file"), "x").unwrap();
        assert_eq!(records.names().unwrap(), ["pvc-1"]);
        records.remove(&volumes, "pvc-1").unwrap();
        assert!(!volumes.join("pvc-1").exists());
        assert_eq!(records.names().unwrap(), Vec::<String>::new());
    }
}
