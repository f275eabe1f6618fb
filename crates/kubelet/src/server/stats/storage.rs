//! File systems: how full they are, and how much of them is whose.

use std::io;
use std::path::Path;

use container::disk_usage;
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
    fn part(&self, used_bytes: u64, inodes_used: u64, timestamp: i64) -> FsStats {
        FsStats { timestamp, used_bytes: Some(used_bytes), inodes_used: Some(inodes_used), ..self.clone() }
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
        let (used, files) = size_of(&directory.join(&container.name));
        let logs = root.part(used, files, now);
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
    let (used, files) = size_of_own(&directories.root.join("pods").join(&pod.uid));
    let own = root.part(used, files, now);
    add(&own);
    pod.own_files = Some(own);
    pod.ephemeral_storage = Some(root.part(bytes, inodes, now));
}

/// The hosts file and the termination messages of a pod: its containers may write to them as much as they like.
fn size_of_own(directory: &Path) -> (u64, u64) {
    let entries = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let containers = entries(&directory.join("containers"));
    let messages = containers.flat_map(|container| entries(&container.path())).map(|entry| entry.path());
    let all = messages.chain([directory.join("etc-hosts")]).map(|file| disk_usage::of_one(&file));
    let sum = all.fold(disk_usage::Usage::default(), disk_usage::Usage::plus);
    (sum.bytes, sum.inodes)
}

/// Files of a directory, itself among them: a log and its rotated ones, which have no directories.
fn size_of(directory: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let metadata = |path: &Path| std::fs::symlink_metadata(path).ok();
    // As they lie on the disk.
    let size = |path: &Path| metadata(path).map(|metadata| metadata.blocks().saturating_mul(512));
    let Some(own) = size(directory) else { return (0, 0) };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| size(&entry.path()))
        .fold((own, 1), |(bytes, files), size| (bytes + size, files + 1))
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
