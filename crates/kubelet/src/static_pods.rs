//! Static pods: files of a directory of the machine, and what a URL answers: pods that run whatever the API says.
//!
//! ```text
//!  staticPodPath ── inotify, and every 20 s ── read ─┬─ decode ──> node::static_pods::StaticPods
//!  staticPodURL ─── every 20 s ──────────────── GET ─┘
//! ```
//! A file that cannot be read as a pod keeps the pod it had until the next regular look: it may be half written.

mod decode;
mod directory;
#[cfg(test)]
mod tests;
mod url;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use container_log::Changes;
use env::Env;
use node::static_pods::StaticPods;
use runtime::Stop;

use crate::blocking::block;
use crate::config::Config;
pub use decode::{DecodeError, decode};
use directory::Directory;

/// Sources, as annotations of pods name them.
pub const FILE_SOURCE: &str = "file";
pub const URL_SOURCE: &str = "http";
/// A directory that does not exist yet is looked for so often.
const RETRY: Duration = Duration::from_secs(1);

/// What the node is told of its static pods; nothing is read yet.
pub fn sources(config: &Config) -> StaticPods {
    let files = config.static_pod_path.is_some().then_some(FILE_SOURCE);
    let url = (!config.static_pod_url.is_empty()).then_some(URL_SOURCE);
    StaticPods::new(files.into_iter().chain(url))
}

/// Keeps `pods` as their sources have them, until stopped. The first look at files is over when this returns.
pub async fn follow(
    env: &Env,
    config: &Config,
    pods: &Arc<StaticPods>,
    stop: Stop,
) -> Vec<tokio::task::JoinHandle<()>> {
    let url = url::follow(env, config, pods, stop.clone());
    follow_files(env, config, pods, stop).await.into_iter().chain(url).collect()
}

async fn follow_files(
    env: &Env,
    config: &Config,
    pods: &Arc<StaticPods>,
    stop: Stop,
) -> Option<tokio::task::JoinHandle<()>> {
    let path = config.static_pod_path.clone()?;
    tracing::info!(path = %path.display(), "watching static pods");
    let changes = watch(&path);
    let directory = Directory::new(path, &config.node_name);
    let directory = look(env, directory, pods, true).await?;
    let (env, pods, period) = (env.clone(), pods.clone(), config.file_check_frequency);
    let spawner = env.clone();
    Some(spawner.spawn("static pods", run(env, directory, changes, pods, period, stop)))
}

async fn run(
    env: Env,
    mut directory: Directory,
    mut changes: Option<Changes>,
    pods: Arc<StaticPods>,
    period: Duration,
    stop: Stop,
) {
    let mut due = env.monotonic() + period;
    loop {
        let retry = async {
            match &mut changes {
                Some(changes) => changes.changed().await.is_err(),
                None => {
                    env.sleep(RETRY).await;
                    true
                }
            }
        };
        let regular = tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = env.sleep_until(due) => true,
            lost = retry => {
                if lost || !directory.path().exists() {
                    changes = watch(directory.path());
                }
                false
            }
        };
        if regular {
            due = env.monotonic() + period;
        }
        match look(&env, directory, &pods, regular).await {
            Some(back) => directory = back,
            None => return,
        }
    }
}

/// `None`: there is nothing to watch yet.
fn watch(path: &Path) -> Option<Changes> {
    Changes::watch_directory(path).ok()
}

/// `None` after a panic, which was told.
async fn look(env: &Env, mut directory: Directory, pods: &StaticPods, regular: bool) -> Option<Directory> {
    let nanos = env.now_nanos();
    let (directory, read) = block(move || {
        let read = directory.read(regular, nanos);
        (directory, read)
    })
    .await
    .ok()?;
    match read {
        Ok(read) => pods.set(FILE_SOURCE, read, i64::try_from(env.now_seconds()).unwrap_or(0)),
        Err(error) => {
            tracing::error!(path = %directory.path().display(), %error, "failed to read static pods");
        }
    }
    Some(directory)
}
