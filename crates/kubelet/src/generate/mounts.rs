//! Where the volumes of a pod, its hosts file and its last words are in a container.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cri::MountPropagation;
use object::Value;

use crate::generate::container::whole_environment;
use crate::generate::env::Environment;
use crate::generate::files::etc_hosts_path;
use crate::generate::read::{flag, list, text};
use crate::generate::{ContainerInputs, GenerateError, expansion};

const ETC_HOSTS: &str = "/etc/hosts";
/// Longer ones the kernel does not take.
const MAX_SUB_PATH: usize = 64 << 10;

/// A volume that is ready for the pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountedVolume {
    /// Its directory or file on this machine.
    pub host_path: PathBuf,
    /// Nobody may write there, whatever the container says.
    pub read_only: bool,
    pub selinux_relabel: bool,
    /// A group its files belong to, that processes get as well.
    pub group: Option<i64>,
    /// A volume that is an image: the runtime mounts it.
    pub image: Option<cri::ImageSpec>,
    /// A volume that is a block device: its path here.
    pub device: Option<PathBuf>,
}

/// A part of a volume that a container wants, to be found or made without ever leaving the volume, and to be kept from being
/// exchanged by those who write there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPart {
    /// The place of the mount in the container's list.
    pub index: usize,
    pub volume: String,
    /// Relative, without `..`.
    pub path: String,
}

/// Which parts of volumes must be prepared before the container can be made.
pub fn wanted_parts(inputs: &ContainerInputs<'_>) -> Result<Vec<WantedPart>, GenerateError> {
    let all = list(inputs.container, &["volumeMounts"]).iter().enumerate();
    let named: Vec<_> = all.filter(|(_, mount)| names_part(mount)).collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let env = whole_environment(inputs)?;
    let mut parts = Vec::new();
    for (index, mount) in named {
        let volume = text(mount, &["name"]);
        let is_image = inputs.volumes.get(volume).is_some_and(|volume| volume.image.is_some());
        let path = sub_path(mount, &env).map_err(GenerateError::config)?;
        if !path.is_empty() && !is_image {
            parts.push(WantedPart { index, volume: volume.to_owned(), path });
        }
    }
    Ok(parts)
}

pub(super) fn mounts(inputs: &ContainerInputs<'_>, env: &Environment) -> Result<Vec<cri::Mount>, String> {
    let mut all = inputs.devices.mounts.clone();
    let mut own_hosts =
        !inputs.pod_ips.is_empty() || flag(inputs.pod, &["spec", "hostNetwork"]) == Some(true);
    for (index, mount) in list(inputs.container, &["volumeMounts"]).iter().enumerate() {
        own_hosts &= text(mount, &["mountPath"]) != ETC_HOSTS;
        all.push(volume_mount(inputs, index, mount, env)?);
    }
    let selinux_relabel = inputs.node.selinux;
    if own_hosts {
        let path = etc_hosts_path(inputs.node.config, text(inputs.pod, &["metadata", "uid"]));
        let host_path = path.to_string_lossy().into_owned();
        let container_path = ETC_HOSTS.to_owned();
        all.push(cri::Mount { container_path, host_path, selinux_relabel, ..Default::default() });
    }
    let message_path = text(inputs.container, &["terminationMessagePath"]);
    if let Some(log) = inputs.termination_log.filter(|_| !message_path.is_empty()) {
        let host_path = log.to_string_lossy().into_owned();
        let container_path = absolute(message_path);
        all.push(cri::Mount { container_path, host_path, selinux_relabel, ..Default::default() });
    }
    Ok(all)
}

/// Volumes that are devices.
pub(super) fn block_devices(
    container: &Value,
    volumes: &BTreeMap<String, MountedVolume>,
) -> Result<Vec<cri::Device>, String> {
    let device = |wanted: &Value| {
        let (name, path) = (text(wanted, &["name"]), text(wanted, &["devicePath"]));
        if !path.starts_with('/') {
            return Err(format!("error DevicePath `{path}` must be an absolute path"));
        }
        let found = volumes.get(name).and_then(|volume| Some((volume, volume.device.as_ref()?)));
        let Some((volume, device)) = found else {
            let (name, container) = (object::quote(name), object::quote(text(container, &["name"])));
            return Err(format!("cannot find volume {name} to pass into container {container}"));
        };
        Ok(cri::Device {
            container_path: path.to_owned(),
            host_path: device.to_string_lossy().into_owned(),
            permissions: if volume.read_only { "r" } else { "mrw" }.to_owned(),
        })
    };
    list(container, &["volumeDevices"]).iter().map(device).collect()
}

fn volume_mount(
    inputs: &ContainerInputs<'_>,
    index: usize,
    mount: &Value,
    env: &Environment,
) -> Result<cri::Mount, String> {
    let name = text(mount, &["name"]);
    let container = text(inputs.container, &["name"]);
    let (quoted, quoted_container) = (object::quote(name), object::quote(container));
    let volume = inputs.volumes.get(name).filter(|volume| volume.device.is_none());
    let volume = volume
        .ok_or_else(|| format!("cannot find volume {quoted} to mount into container {quoted_container}"))?;
    let sub_path = sub_path(mount, env)?;
    let mut host_path = PathBuf::new();
    if volume.image.is_none() {
        host_path.clone_from(&volume.host_path);
        if !sub_path.is_empty() {
            let prepared = inputs.parts.get(&index).ok_or_else(|| {
                format!("failed to prepare subPath for volumeMount {quoted} of container {quoted_container}")
            })?;
            host_path.clone_from(prepared);
        }
    }
    let read_only = flag(mount, &["readOnly"]).unwrap_or(false);
    Ok(cri::Mount {
        container_path: absolute(text(mount, &["mountPath"])),
        host_path: host_path.to_string_lossy().into_owned(),
        readonly: read_only || volume.read_only,
        selinux_relabel: inputs.node.selinux && volume.selinux_relabel,
        propagation: propagation(mount)? as i32,
        recursive_read_only: recursive_read_only(mount, inputs.node.recursive_read_only)
            .map_err(|error| format!("failed to resolve recursive read-only mode: {error}"))?,
        image: volume.image.clone(),
        image_sub_path: if volume.image.is_some() { sub_path } else { String::new() },
        ..Default::default()
    })
}

fn names_part(mount: &Value) -> bool {
    ["subPath", "subPathExpr"].iter().any(|member| !text(mount, &[member]).is_empty())
}

/// The part of the volume, with its variables replaced: all must be there and not empty.
fn sub_path(mount: &Value, env: &Environment) -> Result<String, String> {
    let mut path = text(mount, &["subPath"]).to_owned();
    let with_variables = text(mount, &["subPathExpr"]);
    if !with_variables.is_empty() {
        let mut missing = BTreeSet::new();
        let mut budget = expansion::Budget::of(MAX_SUB_PATH);
        let whole = expansion::expand(with_variables.as_bytes(), &mut budget, |name| {
            let name = String::from_utf8_lossy(name).into_owned();
            let value = env.get(&name).cloned().unwrap_or_default();
            if value.is_empty() {
                missing.insert(name);
            }
            value
        });
        let whole = whole.map_err(|error| error.to_string())?;
        if !missing.is_empty() {
            let names: Vec<String> = missing.into_iter().collect();
            return Err(format!("missing value for {}", names.join(", ")));
        }
        path = String::from_utf8_lossy(&whole).into_owned();
    }
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    Ok(path)
}

fn propagation(mount: &Value) -> Result<MountPropagation, String> {
    match mount.str_at(&["mountPropagation"]) {
        None | Some("None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(format!("invalid MountPropagation mode: {}", object::quote(other))),
    }
}

fn recursive_read_only(mount: &Value, supported: bool) -> Result<bool, String> {
    let mode = match mount.str_at(&["recursiveReadOnly"]) {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    let volume = object::quote(text(mount, &["name"]));
    let refused =
        |why: &str| Err(format!("volume {volume} requested recursive read-only mode, but it is not {why}"));
    if flag(mount, &["readOnly"]) != Some(true) {
        return refused("read-only");
    }
    if let Some(other) = mount.str_at(&["mountPropagation"]).filter(|mode| *mode != "None") {
        return refused(&format!("compatible with propagation {}", object::quote(other)));
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => refused("supported by the runtime"),
        _ => Err(format!("unknown recursive read-only mode {}", object::quote(mode))),
    }
}

/// As it is seen in a container.
pub fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests;
