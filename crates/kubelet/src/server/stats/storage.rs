//! File systems: how full they are, and how much of them is whose.

use std::path::{Path, PathBuf};
use std::{io, iter};

use container::disk_usage::{self, Usage};
use cri::FilesystemUsage;

use super::{PodStats, number};

/// Times are Unix nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    pub timestamp: i64,
    pub available_bytes: Option<u64>,
    pub capacity_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    pub inodes_free: Option<u64>,
    pub inodes: Option<u64>,
    pub inodes_used: Option<u64>,
}

impl FsStats {
    /// What a runtime tells of its part of a file system, with the file system's own numbers where they can be had.
    pub fn of_usage(usage: &FilesystemUsage, fs: impl Fn(&Path, i64) -> io::Result<FsStats>) -> FsStats {
        let mountpoint = usage.fs_id.as_ref().map_or("", |id| id.mountpoint.as_str());
        let whole = fs(Path::new(mountpoint), usage.timestamp).unwrap_or_default();
        FsStats {
            timestamp: usage.timestamp,
            used_bytes: number(&usage.used_bytes),
            inodes_used: number(&usage.inodes_used),
            ..whole
        }
    }

    /// Another part of the same file system.
    fn part(&self, used: Usage, timestamp: i64) -> FsStats {
        FsStats { timestamp, used_bytes: Some(used.bytes), inodes_used: Some(used.inodes), ..self.clone() }
    }
}

/// The file system a path is on.
pub fn fs_of(path: &Path, timestamp: i64) -> io::Result<FsStats> {
    let fs = rustix::fs::statvfs(path)?;
    let capacity = fs.f_blocks.saturating_mul(fs.f_frsize);
    Ok(FsStats {
        timestamp,
        available_bytes: Some(fs.f_bavail.saturating_mul(fs.f_frsize)),
        capacity_bytes: Some(capacity),
        used_bytes: Some(capacity.saturating_sub(fs.f_bfree.saturating_mul(fs.f_frsize))),
        inodes_free: Some(fs.f_ffree),
        inodes: Some(fs.f_files),
        inodes_used: Some(fs.f_files.saturating_sub(fs.f_ffree)),
    })
}

/// Where the node keeps what belongs to pods.
#[derive(Clone, Copy, Debug)]
pub struct Directories<'a> {
    /// The node's own.
    pub root: &'a Path,
    pub logs: &'a Path,
}

/// Adds what a pod holds on the node's file system: `root`'s.
pub fn complete(pod: &mut PodStats, root: &FsStats, directories: Directories<'_>, now: i64) {
    let directory = container_log::pod_directory(directories.logs, &pod.namespace, &pod.name, &pod.uid);
    let (mut bytes, mut inodes) = (0u64, 0u64);
    let mut add = |used: &FsStats| {
        bytes = bytes.saturating_add(used.used_bytes.unwrap_or(0));
        inodes = inodes.saturating_add(used.inodes_used.unwrap_or(0));
    };
    for container in &mut pod.containers {
        let logs = root.part(log_usage(&directory.join(&container.name)), now);
        add(&logs);
        container.logs = Some(logs);
        if let Some(rootfs) = &mut container.rootfs {
            let timestamp = rootfs.timestamp;
            let whole = fs_of(Path::new(&container.rootfs_mountpoint), timestamp).unwrap_or_default();
            *rootfs = FsStats { used_bytes: rootfs.used_bytes, inodes_used: rootfs.inodes_used, ..whole };
            rootfs.timestamp = timestamp;
            add(rootfs);
        }
    }
    pod.volumes.iter().filter(|volume| volume.is_ephemeral).for_each(|volume| add(&volume.fs));
    let own = root.part(own_usage(&directories.root.join("pods").join(&pod.uid)), now);
    add(&own);
    pod.own_files = Some(own);
    pod.ephemeral_storage = Some(root.part(Usage { bytes, inodes }, now));
}

/// The hosts file and the termination messages of a pod: its containers may write to them as much as they like.
fn own_usage(directory: &Path) -> Usage {
    let messages = entries(&directory.join("containers")).flat_map(|container| entries(&container));
    messages.chain([directory.join("etc-hosts")]).map(|file| disk_usage::of_one(&file)).sum()
}

/// Files of a directory, itself among them: a log and its rotated ones, which have no directories.
fn log_usage(directory: &Path) -> Usage {
    iter::once(directory.to_owned()).chain(entries(directory)).map(|path| disk_usage::of_one(&path)).sum()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_containers_write_to_files_of_the_node_is_their_pods() {
        let folder = tempfile::tempdir().unwrap();
        let of_pod = folder.path().join("pods/u1");
        let messages = of_pod.join("containers/app");
        std::fs::create_dir_all(&messages).unwrap();
        let used = || {
            let mut pod = PodStats { uid: "u1".to_owned(), ..PodStats::default() };
            let directories = Directories { root: folder.path(), logs: &folder.path().join("logs") };
            complete(&mut pod, &FsStats::default(), directories, 1);
            let used = pod.ephemeral_storage.unwrap();
            assert_eq!(pod.own_files.unwrap(), used);
            (used.used_bytes.unwrap(), used.inodes_used.unwrap())
        };
        assert_eq!(used(), (0, 0));
        for (files, name) in [of_pod.join("etc-hosts"), messages.join("00000001"), messages.join("00000002")]
            .iter()
            .enumerate()
        {
            let before = used().0;
            std::fs::write(name, vec![1; 100_000]).unwrap();
            let (bytes, inodes) = used();
            assert!(bytes >= before + 100_000 && inodes == files as u64 + 1, "{bytes} {inodes}");
        }
    }
}
