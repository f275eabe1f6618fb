//! What is left of pods, and what volumes take.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::resources::PERSISTENT_VOLUMES;
use container::disk_usage::Usage;
use container::{mounts, tree};

use super::Volumes;
use super::local::{self, DIRECTORY as PROVISIONED, RECORDS, Records};
use super::source::EMPTY_DIR;

/// How much the files of one volume take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUsage {
    pub volume: String,
    pub usage: Usage,
    /// An emptyDir, which has a limit; else the files of a config map and the like.
    pub empty_dir: bool,
    /// In memory: the disk is not used.
    pub memory: bool,
}

impl Volumes {
    /// Removes all volumes of a pod whose containers are gone, also those an earlier agent has made.
    pub async fn unmount(&self, uid: &str) -> io::Result<()> {
        self.remove_parts(uid, Some(&["volume-subpaths", "volumes", "plugins"])).await
    }

    /// The same with everything else in the pod's directory.
    pub async fn remove(&self, uid: &str) -> io::Result<()> {
        self.remove_parts(uid, None).await
    }

    async fn remove_parts(&self, uid: &str, parts: Option<&'static [&'static str]>) -> io::Result<()> {
        if !local::is_name(uid) {
            return Ok(());
        }
        let turn = self.turn(uid).lock_owned().await;
        let directory = self.pod_directory(uid);
        let done = self.blocking(move || {
            let _turn = turn;
            if !directory.exists() {
                return Ok(());
            }
            mounts::unmount_below(&directory)?;
            match parts {
                Some(parts) => parts.iter().try_for_each(|part| tree::remove(&directory.join(part))),
                None => tree::remove(&directory),
            }
        });
        done.await?
    }

    /// Directories of pods that are not known (any more), to be removed.
    pub async fn orphans(&self, known: &BTreeSet<String>) -> io::Result<Vec<String>> {
        let (pods, known) = (self.pods_directory(), known.clone());
        let found = self.blocking(move || {
            let entries = match std::fs::read_dir(pods) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.filter(|name| !name.as_ref().is_ok_and(|name| known.contains(name))).collect()
        });
        found.await?
    }

    /// What the volumes of a pod take, those that count: emptyDirs, and files of config maps and the like. Those that take longer than
    /// `patience` to count are told as they were before, or as far as they have been counted.
    pub async fn usage(&self, uid: &str, patience: Duration) -> io::Result<Vec<VolumeUsage>> {
        if !local::is_name(uid) {
            return Ok(Vec::new());
        }
        let (directory, disk) = (self.pod_directory(uid).join("volumes"), self.disk.clone());
        let measure = move || {
            let all = places(&directory)?;
            let paths: Vec<PathBuf> = all.iter().map(|(path, _)| path.clone()).collect();
            let measured = all.into_iter().zip(disk.of(&paths, patience));
            Ok(measured
                .filter_map(|((_, volume), usage)| Some(VolumeUsage { usage: usage?, ..volume }))
                .collect())
        };
        self.blocking(measure).await?
    }

    /// Removes directories of the provisioner whose PersistentVolume is gone; to be called now and then. The names of those removed.
    pub async fn reclaim(&self) -> io::Result<Vec<String>> {
        let records = self.records();
        let names = self.blocking(move || Records { directory: records }.names()).await??;
        let mut removed = Vec::new();
        for name in names {
            // Only a clear answer counts: a server that is away, or does not let the node look, keeps the data.
            match self.client.get(PERSISTENT_VOLUMES.at("", &name)).await {
                Err(status) if status.code == 404 && status.reason == "NotFound" => {}
                _ => continue,
            }
            let (records, volumes, volume) = (self.records(), self.provisioned.clone(), name.clone());
            self.blocking(move || Records { directory: records }.remove(&volumes, &volume)).await??;
            tracing::info!(volume = name, "removed the directory of a deleted volume");
            removed.push(name);
        }
        Ok(removed)
    }
}

/// The directories that a node made for claims, in [`PROVISIONED`], by the names of their PersistentVolumes. `root`: the node's own
/// directory.
pub fn provisioned(root: &Path) -> io::Result<Vec<String>> {
    Records { directory: root.join(RECORDS) }.names()
}

/// Removes these directories with all that is in them: the node is going to be forgotten.
pub fn remove_provisioned(root: &Path) -> io::Result<()> {
    let records = Records { directory: root.join(RECORDS) };
    for name in records.names()? {
        let named =
            |error| io::Error::other(format!("{}: {error}", Path::new(PROVISIONED).join(&name).display()));
        records.remove(Path::new(PROVISIONED), &name).map_err(named)?;
    }
    Ok(())
}

/// The volumes that count, with nothing counted yet.
fn places(volumes: &Path) -> io::Result<Vec<(PathBuf, VolumeUsage)>> {
    let mut all = Vec::new();
    for plugin in ["kubernetes.io~configmap", "kubernetes.io~secret", "kubernetes.io~projected", EMPTY_DIR] {
        let entries = match std::fs::read_dir(volumes.join(plugin)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let volume = VolumeUsage {
                volume: entry.file_name().to_string_lossy().into_owned(),
                usage: Usage::default(),
                empty_dir: plugin == EMPTY_DIR,
                memory: mounts::at(&entry.path())?.is_some(),
            };
            all.push((entry.path(), volume));
        }
    }
    Ok(all)
}
