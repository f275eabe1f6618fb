//! What nobody needs any more: dead containers and sandboxes, unused images, directories, logs and groups of pods that are gone.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use node::pod::{Pod, short_uid};
use object::Value;
use runtime::Severity;

use super::cache::Release;
use super::{Pods, Shared};
use crate::blocking::block;
use crate::generate::cgroups::{PodCgroups, enforcement_event};
use crate::images::ImageFileSystem;
use crate::images::collect::{ContainerPolicy, containers, sandboxes};
use crate::pod_logs::{ContainerLog, PodLogs};

/// Images, and volumes whose object may be gone, are looked at once in so many periods.
const IMAGE_PERIODS: u64 = 5;

pub fn start(shared: &Arc<Shared>) {
    let env = shared.parts.env.clone();
    env.spawn("garbage", run(Arc::downgrade(shared)));
}

async fn run(shared: Weak<Shared>) {
    let mut enforced = false;
    // At the last look.
    let mut images_failed = false;
    // Without an owner at the last look: pods may be known to the agent before they are here.
    let mut unowned = BTreeSet::new();
    for round in 0_u64.. {
        let Some(strong) = shared.upgrade() else { return };
        let env = strong.parts.env.clone();
        let period = strong.parts.config.garbage_period;
        if enforced {
            strong.update_classes().await;
        } else {
            enforced = enforce_allocatable(&strong).await;
        }
        if round > 0 {
            if let Err(error) = try_collect_containers(&strong, false).await {
                tracing::warn!(%error, "container garbage collection failed");
                let events = &strong.parts.events;
                events.of_node(Severity::Warning, "ContainerGCFailed", error.to_string());
            }
            // Until the node was heard of, nobody knows whose anything is.
            if !strong.node.lock().is_null() {
                unowned = collect_directories(&strong, &unowned).await;
            }
        }
        if round.is_multiple_of(IMAGE_PERIODS) {
            if let Err(error) = strong.parts.volumes.reclaim().await {
                tracing::warn!(%error, "failed to remove directories of deleted volumes");
            }
            let age = period.saturating_mul(u32::try_from(round).unwrap_or(u32::MAX));
            let collected = collect_images(&strong, age).await;
            if let Err(error) = &collected {
                tracing::warn!(error, "image garbage collection failed");
                // The first look may come before there is anything to be seen.
                if images_failed {
                    strong.parts.events.of_node(Severity::Warning, "ImageGCFailed", error.clone());
                }
            }
            images_failed = collected.is_err();
        }
        drop(strong);
        env.sleep(period).await;
    }
}

impl Pods {
    /// All that are dead, also those of pods that are still shown but over.
    pub(crate) async fn remove_dead_containers(&self) {
        collect_containers(&self.shared, true).await;
    }
}

/// Dead containers but the last of each, and all of pods that are gone or were evicted; or, if `over` ones need nothing either, of
/// those.
pub(super) async fn collect_containers(shared: &Arc<Shared>, over: bool) {
    if let Err(error) = try_collect_containers(shared, over).await {
        tracing::warn!(%error, "failed to look for dead containers");
    }
}

async fn try_collect_containers(shared: &Arc<Shared>, over: bool) -> Result<(), cri::Error> {
    let cri = &shared.parts.cri;
    let gone = |uid: &str| match shared.task(short_uid(uid)) {
        None => true,
        Some(task) => {
            let cache = task.cache.lock();
            cache.release == Release::Done && (over || cache.is_evicted())
        }
    };
    let listed = cri.list_containers(cri::ListContainersRequest { filter: None }).await?;
    let now = i64::try_from(shared.parts.env.now_nanos()).unwrap_or(i64::MAX);
    let plan = containers(&listed.containers, &ContainerPolicy::default(), now, &gone);
    let mut left = listed.containers;
    for removal in plan {
        if removal.stop_first {
            let request = cri::StopContainerRequest { container_id: removal.id.clone(), timeout: 2 };
            if cri.stop_container(request).await.is_err() {
                continue;
            }
        }
        let Some(at) = left.iter().position(|container| container.id == removal.id) else { continue };
        match remove_container(shared, left[at].clone()).await {
            Ok(()) => drop(left.swap_remove(at)),
            Err(error) => tracing::warn!(id = removal.id, error, "failed to remove a dead container"),
        }
    }
    let known: BTreeSet<String> = left.iter().map(|container| container.id.clone()).collect();
    let logs = PodLogs::of(&shared.parts.config);
    let _ = block(move || logs.remove_dead_links(&|id| known.contains(id))).await;
    let listed = cri.list_pod_sandbox(cri::ListPodSandboxRequest { filter: None }).await?;
    for pod_sandbox_id in sandboxes(&listed.items, &left, &gone) {
        // Whatever it holds is given back first.
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() };
        let stopped = cri.stop_pod_sandbox(request).await;
        let removed = match stopped {
            Ok(_) => cri.remove_pod_sandbox(cri::RemovePodSandboxRequest { pod_sandbox_id }).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "failed to remove a dead sandbox");
        }
    }
    Ok(())
}

/// Its log goes first, as in kubelet: who is killed in between finds a container without a log, and not a log that nobody knows.
async fn remove_container(shared: &Arc<Shared>, container: cri::Container) -> Result<(), String> {
    let container_id = container.id.clone();
    let of = shared.clone();
    let removed = block(move || remove_log(&of, &container)).await.unwrap_or_else(Err);
    removed.map_err(|error| format!("failed to remove its log: {error}"))?;
    let request = cri::RemoveContainerRequest { container_id };
    shared.parts.cri.remove_container(request).await.map(drop).map_err(|error| error.to_string())
}

/// With the link of log collectors. What no pod can be told of has none.
fn remove_log(shared: &Shared, container: &cri::Container) -> io::Result<()> {
    let label = |of: &str| container.labels.get(&format!("io.kubernetes.pod.{of}")).map(String::as_str);
    let pod = (label("namespace"), label("name"), label("uid"));
    let ((Some(namespace), Some(name), Some(uid)), Some(metadata)) = (pod, &container.metadata) else {
        return Ok(());
    };
    let config = &shared.parts.config;
    let directory = container_log::pod_directory(&config.pod_logs_directory, namespace, name, uid);
    let log = container_log::container_log(&directory, &metadata.name, metadata.attempt);
    container_log::remove(&log)?;
    let of = ContainerLog { namespace, pod: name, container: &metadata.name, id: &container.id };
    PodLogs::of(config).unlink(of, &log)
}

/// Of pods that were not known at the last look either. Those found now.
pub(super) async fn collect_directories(shared: &Arc<Shared>, before: &BTreeSet<String>) -> BTreeSet<String> {
    let tasks = shared.tasks();
    let known = tasks.iter().map(|task| task.uid.clone()).chain(shared.allocations.uids());
    let known: BTreeSet<String> = known.collect();
    let mut found: BTreeSet<String> = match shared.parts.volumes.orphans(&known).await {
        Ok(orphans) => orphans.into_iter().collect(),
        Err(error) => {
            tracing::warn!(%error, "failed to look for directories of pods that are gone");
            BTreeSet::new()
        }
    };
    let logs = PodLogs::of(&shared.parts.config);
    let of_pods = logs.clone();
    let listed = block(move || of_pods.own()).await.unwrap_or_default();
    let orphaned: Vec<(String, PathBuf)> =
        listed.into_iter().filter(|(uid, _)| !known.contains(uid)).collect();
    for uid in found.intersection(before) {
        tracing::info!(uid, "removing the directory of a pod that is gone");
        let removed = match shared.parts.volumes.remove(uid).await {
            Ok(()) => shared.remove_groups(uid).await,
            Err(error) => Err(error.to_string()),
        };
        match removed {
            Ok(()) => shared.release_users(uid).await,
            Err(error) => tracing::warn!(uid, error, "failed to clean up after a pod that is gone"),
        }
    }
    for (uid, directory) in &orphaned {
        if before.contains(uid) {
            let (logs, directory) = (logs.clone(), directory.clone());
            // What cannot be removed now is found again.
            let _ = block(move || logs.remove(&directory)).await;
        }
    }
    found.extend(orphaned.into_iter().map(|(uid, _)| uid));
    found
}

/// Takes note of which images are used, and removes some if their disk is nearly full, or they were not used for long. `age`: how
/// long that has been watched.
async fn collect_images(shared: &Arc<Shared>, age: Duration) -> Result<(), String> {
    let (images, config) = (&shared.parts.images, &shared.parts.config);
    if age.is_zero() {
        if let Err(error) = images.detect().await {
            tracing::warn!(%error, "failed to look at images");
        }
        return Ok(());
    }
    let max_age = config.image_maximum_gc_age;
    if config.image_gc_high_threshold_percent == 100 && max_age.is_zero() {
        return Ok(());
    }
    if !max_age.is_zero() && age > max_age {
        images.delete_old(config).await.map_err(|error| error.to_string())?;
    }
    let disk = image_file_system(shared).await?;
    if let Err(error) = images.collect_garbage(config, disk).await {
        let told = error.to_string();
        if let Some(event) = error.event {
            shared.parts.events.of_node(event.severity, event.reason, event.message);
        }
        return Err(told);
    }
    Ok(())
}

async fn image_file_system(shared: &Arc<Shared>) -> Result<ImageFileSystem, String> {
    let info = shared.parts.cri.image_fs_info(cri::ImageFsInfoRequest {}).await;
    let info = info.map_err(|error| error.to_string())?;
    let place = info.image_filesystems.into_iter().find_map(|of| of.fs_id).map(|id| id.mountpoint);
    let place = place.ok_or("the runtime does not say where its images are")?;
    let read = block(move || crate::server::stats::fs_of(place.as_ref(), 0)).await;
    let fs = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let (capacity, available) = (fs.capacity_bytes.unwrap_or(0), fs.available_bytes.unwrap_or(0));
    Ok(ImageFileSystem { capacity, available })
}

/// Sets the limits of all pods together. `true`: done, or not wanted.
async fn enforce_allocatable(shared: &Arc<Shared>) -> bool {
    let config = &shared.parts.config;
    if !config.cgroups_per_qos || !config.enforce_node_allocatable.iter().any(|what| what == "pods") {
        return true;
    }
    let outcome =
        shared.with_groups(|groups, shared, pods| groups.set_up(&shared.node_view(&shared.moment()), pods));
    let outcome = outcome.await;
    let event = enforcement_event(config, &outcome);
    let severity = event.severity;
    shared.parts.events.of_node(severity, event.reason, event.message);
    severity == Severity::Normal
}

impl Shared {
    /// Gives the classes their shares anew.
    pub(super) async fn update_classes(self: &Arc<Shared>) {
        if !self.parts.config.cgroups_per_qos {
            return;
        }
        let outcome = self.with_groups(|groups, shared, pods| {
            groups.update_classes(&shared.node_view(&shared.moment()), pods)
        });
        if let Err(error) = outcome.await {
            tracing::warn!(%error, "failed to update the shares of the classes of pods");
        }
    }

    /// With the pods that are not over.
    async fn with_groups(
        self: &Arc<Shared>,
        work: fn(&PodCgroups, &Arc<Shared>, Vec<&Value>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let shared = self.clone();
        let done = block(move || {
            let tasks = shared.tasks();
            let pods: Vec<Arc<Value>> = tasks.iter().map(|task| task.cache.lock().pod.clone()).collect();
            let here = pods.iter().filter(|pod| pod.as_map().is_some() && !Pod::read(pod).is_over());
            let here: Vec<&Value> = here.map(|pod| &**pod).collect();
            work(&PodCgroups::new(&shared.parts.config), &shared, here)
        });
        done.await.unwrap_or_else(Err)
    }
}
