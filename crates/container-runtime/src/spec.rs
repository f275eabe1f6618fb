//! From what CRI asks for and what the image says to what the kernel is told. Rules and defaults are containerd's.

mod cdi;
mod devices;
pub mod files;
mod layers;
pub mod mounts;
mod process;
pub mod resources;
mod security;
pub mod signals;
pub mod users;

use std::path::{Path, PathBuf};

use container::config::{ContainerConfig, PidNamespace, Root};
use cri::{Error, NamespaceMode};
use image::Image;

use crate::Inner;
use crate::error::{invalid, unknown};
use crate::pods::Sandbox;

/// What a container is made of.
pub struct Parts<'a> {
    pub id: &'a str,
    pub directory: &'a Path,
    pub sandbox: &'a Sandbox,
    pub image: &'a Image,
    pub config: &'a cri::ContainerConfig,
    pub runtime: &'a Inner,
}

impl Parts<'_> {
    pub fn context(&self) -> cri::LinuxContainerSecurityContext {
        self.config.linux.clone().unwrap_or_default().security_context.unwrap_or_default()
    }
}

pub fn build(parts: &Parts<'_>) -> Result<ContainerConfig, Error> {
    let context = parts.context();
    let config = parts.config;
    if !config.cdi_devices.is_empty() {
        let directories: Vec<&Path> =
            parts.runtime.settings.cdi_directories.iter().map(PathBuf::as_path).collect();
        let edited = cdi::inject(&directories, config)?;
        return build(&Parts { config: &edited, ..*parts });
    }
    let namespaces = context.namespace_options.clone().unwrap_or_default();
    let (pid, target) = match namespaces.pid() {
        NamespaceMode::Container => (PidNamespace::Own, String::new()),
        NamespaceMode::Pod => (PidNamespace::Pod, String::new()),
        NamespaceMode::Node => (PidNamespace::Host, String::new()),
        NamespaceMode::Target => (PidNamespace::Pod, target(parts, &namespaces.target_id)?),
    };
    if namespaces.pid() == NamespaceMode::Pod && parts.sandbox.record.namespaces().pid() != NamespaceMode::Pod
    {
        return Err(invalid("the sandbox has no process namespace to share"));
    }
    let devices = devices::of(config, context.privileged)?;
    let linux = config.linux.clone().unwrap_or_default();
    let mut resources = resources::convert(&linux.resources.unwrap_or_default());
    resources.devices = (!context.privileged).then(|| devices.rules());
    let (masked_paths, readonly_paths) = security::masked_and_readonly_paths(&context);
    Ok(ContainerConfig {
        id: parts.id.to_owned(),
        root: Root {
            layers: parts.runtime.images.layers(parts.image),
            upper: parts.directory.join("upper"),
            work: parts.directory.join("work"),
            target: parts.directory.join("root"),
            readonly: context.readonly_rootfs,
        },
        process: process::build(parts)?,
        mounts: mounts::build(parts)?,
        devices: if mounts::devices_of_host(config).is_some() { Vec::new() } else { devices.nodes },
        masked_paths,
        readonly_paths,
        pid,
        pid_of: target,
        cgroup: parts.runtime.cgroup_path(parts.sandbox, parts.id),
        resources,
        // Known to who writes it down.
        log: PathBuf::new(),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
    })
}

/// The container of the same pod whose processes are to be seen.
fn target(parts: &Parts<'_>, id: &str) -> Result<String, Error> {
    let wrong = |why: &str| unknown(format!("invalid target container: {why}"));
    let target = parts.runtime.container(id).map_err(|error| wrong(&error.message))?;
    if target.sandbox.record.id != parts.sandbox.record.id {
        return Err(wrong(&format!("container {id:?} does not belong to the sandbox")));
    }
    if !target.phase.borrow().is_running() {
        return Err(wrong(&format!("container {id:?} is not running")));
    }
    Ok(id.to_owned())
}
