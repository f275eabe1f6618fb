//! What has to be done from time to time: logs that grew, containers and images nobody needs.

use std::path::Path;
use std::sync::{Arc, Weak};

use super::{PodTask, Shared};
use crate::blocking::block;
use crate::pod_logs::PodLogs;

#[cfg(test)]
mod tests;

pub fn start(shared: &Arc<Shared>) {
    let env = shared.parts.env.clone();
    env.spawn("container logs", logs(Arc::downgrade(shared)));
}

async fn logs(shared: Weak<Shared>) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let (env, interval) = (strong.parts.env.clone(), strong.parts.config.container_log_monitor_interval);
        for task in strong.tasks() {
            rotate(&strong, &task).await;
        }
        drop(strong);
        env.sleep(interval).await;
    }
}

/// Logs of running containers that are longer than they may be.
async fn rotate(shared: &Arc<Shared>, task: &Arc<PodTask>) {
    let config = &shared.parts.config;
    for (name, id, attempt) in task.running_with_attempt() {
        let pod = task.cache.lock().pod.clone();
        if pod.as_map().is_none() {
            continue;
        }
        let log = shared.log_path(&pod, &name, attempt);
        let (most, files) = (config.container_log_max_size, config.container_log_max_files);
        let path = log.clone();
        let length = block(move || std::fs::metadata(&path).map(|metadata| metadata.len()));
        let reopen = || {
            let request = cri::ReopenContainerLogRequest { container_id: id.clone() };
            shared.parts.cri.reopen_container_log(request)
        };
        match length.await.unwrap_or_else(Err) {
            Ok(length) if length >= most => {}
            // Whoever rotated it last did not get to the end.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if let Err(error) = reopen().await {
                    tracing::warn!(log = %log.display(), %error, "failed to reopen log");
                }
                continue;
            }
            _ => continue,
        }
        let now = container_log::Timestamp::utc(shared.parts.env.now_nanos() as i128);
        let path = log.clone();
        let renamed = block(move || {
            container_log::make_room(&path, files)?;
            container_log::rename_latest(&path, now)
        });
        match renamed.await.unwrap_or_else(Err) {
            Ok(Some(renamed)) => {
                if let Err(error) = reopen().await {
                    tracing::warn!(log = %log.display(), %error, "failed to reopen log");
                    let _ = block(move || container_log::rename_back(&renamed, &log)).await;
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(log = %log.display(), %error, "failed to rotate log"),
        }
    }
}

impl Shared {
    pub(super) fn tasks(&self) -> Vec<Arc<PodTask>> {
        let mut all: Vec<Arc<PodTask>> = self.pods.lock().values().cloned().collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    pub(super) async fn remove_directories(&self, task: &PodTask) {
        let config = &self.parts.config;
        let directory = config.root_directory.join("pods").join(&task.uid);
        let logs = PodLogs::of(config);
        let of_pod =
            container_log::pod_directory(Path::new(""), task.key.namespace(), task.key.name(), &task.uid);
        let removed = block(move || {
            // Never onto a mount: what is still mounted there is somebody else's.
            if let Err(error) = container::tree::remove(&directory) {
                tracing::warn!(directory = %directory.display(), %error, "failed to remove directory");
            }
            if let Err(error) = logs.remove(&of_pod) {
                tracing::warn!(pod = %of_pod.display(), %error, "failed to remove logs");
            }
        });
        let _ = removed.await;
    }
}

impl PodTask {
    /// Name, id and number of restarts of what runs.
    pub(super) fn running_with_attempt(&self) -> Vec<(String, String, u32)> {
        let cache = self.cache.lock();
        let runs = cache.containers.iter().filter_map(|(name, slot)| Some((name, slot.run.as_ref()?)));
        let running = runs.filter(|(_, run)| run.is_running());
        running.map(|(name, run)| (name.clone(), run.id.clone(), run.attempt)).collect()
    }
}
