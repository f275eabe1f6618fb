//! The part of a mount that touches the disk: done on a thread that may block, from values it owns.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use env::Env;

use super::empty_dir::{self, Medium};
use super::local::{self, Bound, Records};
use super::ownership::{ChangePolicy, Ownership};
use super::payload::Payload;
use super::ready;
use super::{atomic, host_path};

/// What is to be done for one volume.
pub enum SetUp {
    EmptyDir {
        directory: PathBuf,
        ready: PathBuf,
        medium: Medium,
        group: Option<u32>,
    },
    Files {
        directory: PathBuf,
        medium: Medium,
        payload: Payload,
        nested: Vec<String>,
        group: Option<u32>,
    },
    HostPath {
        path: String,
        kind: String,
    },
    Local {
        path: String,
        options: Vec<String>,
        target: PathBuf,
        ready: PathBuf,
        pods: PathBuf,
        read_only: bool,
        owner: Option<Ownership>,
    },
    Provisioned {
        path: PathBuf,
        records: PathBuf,
        owner: Option<Ownership>,
    },
}

/// A volume that is there.
pub struct Ready {
    pub path: PathBuf,
    /// What people should know of it all the same.
    pub warning: Option<String>,
}

impl SetUp {
    pub fn run(self, env: &Env) -> Result<Ready, String> {
        let mut warning = None;
        let path = match self {
            SetUp::EmptyDir { directory, ready, medium, group } => {
                if empty_dir::set_up(&directory, ready::is_marked(&ready), &medium)? {
                    own(&directory, group, false);
                    ready::mark(&ready)?;
                }
                directory
            }
            SetUp::Files { directory, medium, payload, nested, group } => {
                let new = empty_dir::set_up(&directory, atomic::is_written(&directory), &medium)?;
                let written = write(env, &directory, &payload, &nested, group);
                if let Err(error) = written {
                    // Nobody has it yet: the next attempt begins anew.
                    if new && let Err(error) = empty_dir::tear_down(&directory) {
                        tracing::warn!(directory = %directory.display(), %error, "failed to remove volume");
                    }
                    return Err(error);
                }
                directory
            }
            SetUp::HostPath { path, kind } => {
                host_path::check(&path, &kind)?;
                PathBuf::from(path)
            }
            SetUp::Local { path, options, target, ready, pods, read_only, owner } => {
                let failed = |error: std::io::Error| format!("{path}: {error}");
                let bound = local::bind(&path, &target, &ready, &pods, read_only, &options)?;
                if bound != Bound::Already {
                    let given = give(bound, &target, owner, read_only).map_err(failed);
                    let done = given.and_then(|told| ready::mark(&ready).map(|()| told));
                    // The next attempt begins anew.
                    warning = done.inspect_err(|_| local::unbind(&target))?;
                }
                target
            }
            SetUp::Provisioned { path, records, owner } => {
                let failed = |error: std::io::Error| format!("{}: {error}", path.display());
                Records { directory: records }.make(&path).map_err(failed)?;
                if let Some(owner) = owner {
                    owner.apply(&path).map_err(failed)?;
                }
                path
            }
        };
        Ok(Ready { path, warning })
    }
}

/// Gives a volume that was bound to a pod to its group; returns what people should know.
fn give(
    bound: Bound,
    target: &Path,
    owner: Option<Ownership>,
    read_only: bool,
) -> std::io::Result<Option<String>> {
    match (bound, owner) {
        (Bound::First, Some(owner)) if !read_only => owner.apply(target).map(|()| None),
        // It stays the group's of whoever was first.
        (Bound::Shared, Some(owner)) => of_another_group(target, owner),
        _ => Ok(None),
    }
}

/// In kubelet's words.
fn of_another_group(directory: &Path, wanted: Ownership) -> std::io::Result<Option<String>> {
    let (wanted, has) = (wanted.group, std::fs::metadata(directory)?.gid());
    let name = directory.file_name().unwrap_or_default().display();
    let told = || {
        format!(
            "The requested fsGroup is {wanted}, but the volume {name} has GID {has}. The volume may not be shareable."
        )
    };
    Ok((wanted != has).then(told))
}

fn write(
    env: &Env,
    directory: &Path,
    payload: &Payload,
    nested: &[String],
    group: Option<u32>,
) -> Result<(), String> {
    for place in nested {
        let made = std::fs::create_dir_all(directory.join(place));
        made.map_err(|error| format!("unable to create nested volume mountpoints: {error}"))?;
    }
    let owner = |group| Ownership { group, read_only: true, policy: ChangePolicy::Always };
    let own = || group.map_or(Ok(()), |group| owner(group).apply(directory));
    atomic::write(env, directory, payload, own).map(drop).map_err(|error| error.to_string())
}

/// Of an emptyDir: what cannot be given to the group stays root's, as with kubelet.
fn own(directory: &Path, group: Option<u32>, read_only: bool) {
    let Some(group) = group else { return };
    let owner = Ownership { group, read_only, policy: ChangePolicy::Always };
    if let Err(error) = owner.apply(directory) {
        tracing::warn!(directory = %directory.display(), %error, "failed to give a volume to its group");
    }
}
