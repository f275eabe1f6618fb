//! What there is, and who uses it: read from the machine and asked of the runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use container::cgroup::Cgroup;

use super::signal::{Observations, Signal, observe as note};
use super::threshold::Disks;
use crate::blocking::block;
use crate::config::Config;
use crate::generate::groups::root_group;
use crate::pods::Pods;
use crate::server::stats::{self, FsStats, Machine, PodStats, Usage, VolumeStats};

/// Where things are; that does not change while a node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystems {
    node: PathBuf,
    images: PathBuf,
    containers: PathBuf,
    pub disks: Disks,
}

pub async fn file_systems(config: &Config, cri: &dyn cri::Runtime) -> Result<FileSystems, cri::Error> {
    let info = cri.image_fs_info(cri::ImageFsInfoRequest {}).await?;
    let place = |of: &[cri::FilesystemUsage]| {
        let mountpoint = of.first().and_then(|of| of.fs_id.as_ref()).map(|id| PathBuf::from(&id.mountpoint));
        mountpoint.filter(|path| path.is_absolute())
    };
    let node = config.root_directory.clone();
    let images = place(&info.image_filesystems).unwrap_or_else(|| node.clone());
    let containers = place(&info.container_filesystems).unwrap_or_else(|| images.clone());
    let device = |path: &Path| rustix::fs::stat(path).ok().map(|stat| stat.st_dev);
    let own_image_fs = device(&images) != device(&node);
    let split_container_fs = own_image_fs && device(&containers) != device(&images);
    Ok(FileSystems { node, images, containers, disks: Disks { own_image_fs, split_container_fs } })
}

/// All signals that can be read. `allocatable`: the memory all pods together may have.
pub fn observe(file_systems: &FileSystems, config: &Config, allocatable: Option<u64>) -> Observations {
    let mut observations = Observations::new();
    let machine = Machine::read();
    let available = machine.memory(0).available_bytes.map(|bytes| bytes.value);
    let capacity = Some(machine.memory_bytes).filter(|bytes| *bytes > 0);
    note(&mut observations, Signal::MemoryAvailable, available, capacity);
    let used = Cgroup::at_host(&root_group(config)).usage().working_set;
    let left = allocatable.map(|limit| limit.saturating_sub(used));
    note(&mut observations, Signal::AllocatableMemoryAvailable, left, allocatable);
    let places = [
        (&file_systems.node, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        (&file_systems.images, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
        (&file_systems.containers, Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
    ];
    for (place, bytes, inodes) in places {
        let Ok(fs) = stats::fs_of(place, 0) else { continue };
        note(&mut observations, bytes, fs.available_bytes, fs.capacity_bytes);
        // Some file systems have no inodes to run out of.
        let whole = fs.inodes.filter(|inodes| *inodes > 0);
        note(&mut observations, inodes, fs.inodes_free, whole);
    }
    let processes = machine.processes(0);
    if processes.most > 0 {
        let left = u64::try_from(processes.most.saturating_sub(processes.running)).unwrap_or(0);
        note(&mut observations, Signal::PidAvailable, Some(left), u64::try_from(processes.most).ok());
    }
    observations
}

/// All that run, as the runtime knows them.
pub async fn pods(pods: &Pods) -> Result<Vec<PodStats>, String> {
    let parts = pods.parts();
    let told = |error: cri::Error| error.to_string();
    let containers = parts.cri.list_containers(cri::ListContainersRequest { filter: None }).await;
    let sandboxes = parts.cri.list_pod_sandbox(cri::ListPodSandboxRequest { filter: None }).await;
    let (containers, sandboxes) = (containers.map_err(told)?.containers, sandboxes.map_err(told)?.items);
    let usage = parts.cri.list_pod_sandbox_stats(cri::ListPodSandboxStatsRequest { filter: None }).await;
    let usage = match usage {
        Ok(listed) => Usage::Pods(listed.stats),
        // Older ones know of containers alone, and containerd 1.6 fails as long as there is a sandbox that has ended.
        Err(error) => {
            tracing::debug!(%error, "failed to list all pod sandbox stats");
            let listed =
                parts.cri.list_container_stats(cri::ListContainerStatsRequest { filter: None }).await;
            Usage::Containers(listed.map_err(told)?.stats)
        }
    };
    Ok(stats::pods(&sandboxes, &containers, usage))
}

/// Adds what they keep on disk. Files that cannot be counted within `patience` are those of the last time, or fewer.
pub async fn with_storage(
    pods: &Pods,
    file_systems: &FileSystems,
    mut all: Vec<PodStats>,
    patience: Duration,
) -> Result<Vec<PodStats>, String> {
    let env = &pods.parts().env;
    let until = env.monotonic() + patience;
    for pod in &mut all {
        let patience = until.saturating_duration_since(env.monotonic());
        pod.volumes = volumes(pods, &pod.uid, patience).await;
    }
    let (node, logs) = (file_systems.node.clone(), pods.parts().config.pod_logs_directory.clone());
    let now = i64::try_from(env.now_nanos()).unwrap_or(i64::MAX);
    let completed = block(move || {
        let root = stats::fs_of(&node, now).map_err(|error| error.to_string())?;
        let directories = stats::Directories { root: &node, logs: &logs };
        for pod in &mut all {
            stats::complete_storage(pod, &root, directories, now);
        }
        Ok::<_, String>(all)
    });
    completed.await.map_err(|error| error.to_string())?
}

async fn volumes(pods: &Pods, uid: &str, patience: Duration) -> Vec<VolumeStats> {
    let measured = match pods.parts().volumes.usage(uid, patience).await {
        Ok(measured) => measured,
        Err(error) => {
            tracing::warn!(uid, %error, "failed to measure volumes");
            return Vec::new();
        }
    };
    let stats = measured.into_iter().map(|volume| VolumeStats {
        name: volume.volume,
        fs: FsStats {
            used_bytes: Some(volume.usage.bytes),
            inodes_used: Some(volume.usage.inodes),
            ..FsStats::default()
        },
        claim: None,
        is_ephemeral: !volume.memory,
    });
    stats.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::new("n", folder.path().to_owned());
        let here = folder.path().to_owned();
        let file_systems = FileSystems {
            node: here.clone(),
            images: here.clone(),
            containers: here,
            disks: Disks::default(),
        };
        let seen = observe(&file_systems, &config, Some(1 << 40));
        for signal in [
            Signal::MemoryAvailable,
            Signal::PidAvailable,
            Signal::NodeFsAvailable,
            Signal::NodeFsInodesFree,
            Signal::ImageFsAvailable,
            Signal::ImageFsInodesFree,
            Signal::ContainerFsAvailable,
            Signal::ContainerFsInodesFree,
        ] {
            let observed = seen[&signal];
            assert!(observed.available.sign() > 0 && observed.available <= observed.capacity, "{signal:?}");
        }
        let allocatable = seen[&Signal::AllocatableMemoryAvailable];
        assert_eq!(allocatable.capacity.to_string(), "1Ti");
        assert!(!observe(&file_systems, &config, None).contains_key(&Signal::AllocatableMemoryAvailable));
        let nowhere = FileSystems { node: "/nowhere".into(), ..file_systems };
        assert!(!observe(&nowhere, &config, None).contains_key(&Signal::NodeFsAvailable));
    }
}
