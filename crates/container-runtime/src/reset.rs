//! Leaves nothing behind.

use std::path::{Path, PathBuf};

use container::cgroup::{Cgroup, ROOT, Version};
use container::config::ContainerConfig;
use rustix::process::Signal;

use crate::blocking::block;
use crate::error::unknown;
use crate::records::{self, ContainerRecord, SandboxRecord};
use crate::recovery::entries;
use crate::sandbox::end_helper;
use crate::{Settings, cgroups, helper, pod_network};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ResetError(String);

/// `names`: bridge, table and cgroup are this agent's.
pub async fn reset(settings: Settings, names: bool) -> Result<(), ResetError> {
    block(move || run(&settings, names).map_err(unknown)).await.map_err(|error| ResetError(error.message))
}

/// Nothing runs any more; all else is as it was.
pub async fn end(settings: Settings) -> Result<(), ResetError> {
    block(move || end_all(&settings).map_err(unknown).map(drop))
        .await
        .map_err(|error| ResetError(error.message))
}

/// The pods that ran.
fn end_all(settings: &Settings) -> Result<Vec<SandboxRecord>, String> {
    let mut sandboxes = Vec::new();
    for directory in all(&records::sandboxes(&settings.directory))? {
        if let Err(error) = end_helper(&directory) {
            tracing::warn!(directory = %directory.display(), %error, "a pod's helper is killed");
            kill_helper(&directory);
        }
        sandboxes.extend(records::read::<SandboxRecord>(&directory, records::RECORD));
    }
    for directory in all(&records::containers(&settings.directory))? {
        let record = records::read::<ContainerRecord>(&directory, records::RECORD).unwrap_or_default();
        let spec = serde_json::from_slice::<ContainerConfig>(&record.spec).unwrap_or_default();
        if !spec.cgroup.as_os_str().is_empty() {
            remove_cgroup(&spec.cgroup)?;
        }
    }
    Ok(sandboxes)
}

fn run(settings: &Settings, names: bool) -> Result<(), String> {
    let sandboxes = end_all(settings)?;
    let ids: Vec<String> = sandboxes.iter().map(|record| record.id.clone()).collect();
    pod_network::disconnect_all(settings, &ids).map_err(|error| error.to_string())?;
    if names {
        pod_network::remove(settings).map_err(|error| error.to_string())?;
    }
    // The pods' own, if nobody uses them for anything else.
    for record in sandboxes.iter().filter(|record| !record.cgroup_parent().is_empty()) {
        let _ = Cgroup::at_host(Path::new(record.cgroup_parent())).remove();
    }
    for group in if names { below(&settings.cgroup) } else { Vec::new() } {
        remove_cgroup(&group)?;
    }
    container::tree::remove(&settings.directory)
        .map_err(|error| format!("failed to remove {}: {error}", settings.directory.display()))
}

fn all(directory: &Path) -> Result<Vec<PathBuf>, String> {
    entries(directory).map_err(|error| error.to_string())
}

/// One that does not listen.
fn kill_helper(directory: &Path) {
    if let Some(helper) = helper::process(directory) {
        let _ = rustix::process::kill_process(helper, Signal::KILL);
    }
}

fn remove_cgroup(path: &Path) -> Result<(), String> {
    cgroups::remove(path).map_err(|error| format!("failed to remove the cgroup {}: {error}", path.display()))
}

/// A group and all below it, the deepest first, as paths below the root.
fn below(path: &Path) -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let path = path.strip_prefix("/").unwrap_or(path);
    if path.as_os_str().is_empty() {
        return Vec::new();
    }
    let trees: Vec<PathBuf> = match Version::of_host() {
        Version::V2 => vec![root.to_owned()],
        Version::V1 => entries(root).unwrap_or_default(),
    };
    let mut found = Vec::new();
    for tree in trees {
        let mut open = vec![tree.join(path)];
        while let Some(directory) = open.pop() {
            if !directory.is_dir() {
                continue;
            }
            open.extend(entries(&directory).unwrap_or_default().into_iter().filter(|entry| entry.is_dir()));
            found.extend(directory.strip_prefix(&tree).map(Path::to_owned));
        }
    }
    found.sort_by_key(|path| (std::cmp::Reverse(path.components().count()), path.clone()));
    found.dedup();
    found
}
