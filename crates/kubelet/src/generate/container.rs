//! One run of one container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::Value;

use crate::generate::env::{EnvSources, Environment, environment};
use crate::generate::limits::container_resources;
use crate::generate::mounts::{MountedVolume, block_devices, mounts};
use crate::generate::read::{flag, strings, text};
use crate::generate::security::{security_context, verify_non_root};
use crate::generate::{GenerateError, NodeView, expansion, labels};

/// Everything a container is made of.
#[derive(Clone, Copy)]
pub struct ContainerInputs<'a> {
    pub node: &'a NodeView<'a>,
    pub pod: &'a Value,
    pub container: &'a Value,
    pub restart_count: u32,
    /// What the runtime calls the image that was found or pulled.
    pub image_ref: &'a str,
    pub image_user: &'a ImageUser,
    /// The primary first; empty with the host's network, or if there is none yet.
    pub pod_ips: &'a [String],
    /// By their names in the pod.
    pub volumes: &'a BTreeMap<String, MountedVolume>,
    pub sources: &'a dyn EnvSources,
    /// Parts of volumes by the places of their mounts: those that [`wanted_parts`](crate::generate::wanted_parts) lists, prepared.
    pub parts: &'a BTreeMap<usize, PathBuf>,
    /// Made by [`crate::generate::files::create_termination_log`].
    pub termination_log: Option<&'a Path>,
    /// The container whose processes a debugging container looks at: see [`target_id`].
    pub target_id: Option<&'a str>,
    pub devices: &'a DeviceResources,
}

/// As whom an image wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    Uid(i64),
    Name(String),
}

impl ImageUser {
    /// An image that says nothing runs as root.
    pub fn of(image: Option<&cri::Image>) -> ImageUser {
        match image {
            Some(cri::Image { uid: Some(uid), .. }) => ImageUser::Uid(uid.value),
            Some(image) if !image.username.is_empty() => ImageUser::Name(image.username.clone()),
            _ => ImageUser::Uid(0),
        }
    }
}

/// What devices add to a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceResources {
    pub devices: Vec<cri::Device>,
    pub cdi_devices: Vec<cri::CDIDevice>,
    pub mounts: Vec<cri::Mount>,
    pub env: Vec<(String, String)>,
    pub annotations: BTreeMap<String, String>,
}

pub fn container_config(inputs: &ContainerInputs<'_>) -> Result<cri::ContainerConfig, GenerateError> {
    let ContainerInputs { node, pod, container, restart_count, devices, .. } = *inputs;
    let name = text(container, &["name"]);
    let block = block_devices(container, inputs.volumes).map_err(GenerateError::config)?;
    let env = whole_environment(inputs)?;
    let mounts = mounts(inputs, &env).map_err(GenerateError::config)?;
    verify_non_root(pod, container, inputs.image_user).map_err(GenerateError::config)?;
    let security = security_context(inputs).map_err(GenerateError::config)?;
    Ok(cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt: restart_count }),
        image: Some(cri::ImageSpec {
            image: inputs.image_ref.to_owned(),
            user_specified_image: text(container, &["image"]).to_owned(),
            ..Default::default()
        }),
        command: expanded(container, "command", &env)?,
        args: expanded(container, "args", &env)?,
        working_dir: text(container, &["workingDir"]).to_owned(),
        mounts: with_mappings(mounts, &security),
        devices: devices.devices.iter().cloned().chain(block).collect(),
        labels: labels::of_container(pod, container),
        annotations: labels::annotations_of_container(pod, container, restart_count, &devices.annotations),
        log_path: labels::log_path(name, restart_count),
        stdin: flag(container, &["stdin"]).unwrap_or(false),
        stdin_once: flag(container, &["stdinOnce"]).unwrap_or(false),
        tty: flag(container, &["tty"]).unwrap_or(false),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(container_resources(pod, container, node)),
            security_context: Some(security),
        }),
        cdi_devices: devices.cdi_devices.clone(),
        stop_signal: cri::Signal::RuntimeDefault as i32,
        envs: env.into_iter().map(|(key, value)| cri::KeyValue { key, value }).collect(),
    })
}

/// With what devices add, which the container's own variables replace.
pub(super) fn whole_environment(inputs: &ContainerInputs<'_>) -> Result<Environment, GenerateError> {
    let of_devices = inputs.devices.env.iter();
    let mut env: Environment =
        of_devices.map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    env.extend(environment(inputs).map_err(GenerateError::config)?);
    Ok(env)
}

/// The run of the container that a debugging container names, by what is known of those that run; `None`: it names none.
pub fn target_id<'a>(
    container: &Value,
    id_of: impl FnOnce(&str) -> Option<&'a str>,
) -> Result<Option<&'a str>, GenerateError> {
    match text(container, &["targetContainerName"]) {
        "" => Ok(None),
        name => match id_of(name) {
            Some(id) => Ok(Some(id)),
            None => Err(GenerateError::config(format!("unable to find target container {name}"))),
        },
    }
}

/// What names no variable stays as it is.
fn expanded(container: &Value, member: &str, env: &Environment) -> Result<Vec<String>, GenerateError> {
    let lookup = |name: &[u8]| {
        let known = std::str::from_utf8(name).ok().and_then(|name| env.get(name));
        known.cloned().unwrap_or_else(|| expansion::unresolved(name))
    };
    let refused = |message: String| GenerateError { reason: "CreateContainerError", message };
    let mut budget = expansion::Budget::default();
    let word = |word: String| {
        let whole = expansion::expand(word.as_bytes(), &mut budget, lookup);
        let whole = whole.map_err(|error| refused(error.to_string()))?;
        // A variable's value need not be text, an argument must.
        String::from_utf8(whole).map_err(|_| {
            refused("grpc: error while marshaling: string field contains invalid UTF-8".to_owned())
        })
    };
    strings(container, &[member]).into_iter().map(word).collect()
}

/// What is mounted is seen through the users of the container's namespace.
fn with_mappings(
    mut mounts: Vec<cri::Mount>,
    security: &cri::LinuxContainerSecurityContext,
) -> Vec<cri::Mount> {
    let users = security.namespace_options.as_ref().and_then(|options| options.userns_options.as_ref());
    for mount in &mut mounts {
        if let Some(users) = users {
            mount.uid_mappings.clone_from(&users.uids);
            mount.gid_mappings.clone_from(&users.gids);
        }
    }
    mounts
}

#[cfg(test)]
mod tests;
