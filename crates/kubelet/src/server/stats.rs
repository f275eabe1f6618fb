//! What pods, containers and the node use.
//!
//! ```text
//!  runtime: sandboxes, containers, their stats ── collect ─┐            ┌── json        /stats/summary
//!  /proc, file systems, logs, volumes ── machine, storage ─┴─ Summary ──┼── resource    /metrics/resource
//!                                                                       └── containers  /metrics/cadvisor
//! ```

mod collect;
mod containers;
mod groups;
mod json;
mod machine;
mod resource;
mod sampler;
mod storage;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cri::{CpuUsage, IoUsage, MemoryUsage, NetworkUsage, SwapUsage, UInt64Value};
use http::StatusCode;
use object::Value;

use super::Context;
use super::answer::{self, Answer};
use super::query::Query;
use crate::blocking::block;

pub use collect::{Usage, pods};
use groups::Groups;
pub use json::to_value;
pub use machine::Machine;
pub use resource::to_text as resource_metrics_text;
pub use sampler::Sampler;
pub use storage::{Directories, FsStats, complete as complete_storage, fs_of};

/// Usage is what CRI calls it; times are Unix nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub node: NodeStats,
    pub pods: Vec<PodStats>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeStats {
    pub name: String,
    /// Groups of processes, such as all pods.
    pub system_containers: Vec<ContainerStats>,
    /// When the machine started.
    pub started_at: i64,
    pub cpu: Option<CpuUsage>,
    pub memory: Option<MemoryUsage>,
    pub io: Option<IoUsage>,
    pub swap: Option<SwapUsage>,
    pub network: Option<NetworkUsage>,
    pub fs: Option<FsStats>,
    pub image_fs: Option<FsStats>,
    pub container_fs: Option<FsStats>,
    pub processes: Option<Processes>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    pub timestamp: i64,
    pub most: i64,
    pub running: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodStats {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub started_at: i64,
    pub containers: Vec<ContainerStats>,
    pub cpu: Option<CpuUsage>,
    pub memory: Option<MemoryUsage>,
    pub io: Option<IoUsage>,
    pub network: Option<NetworkUsage>,
    pub volumes: Vec<VolumeStats>,
    /// Files of the node that its containers may write to.
    pub own_files: Option<FsStats>,
    pub ephemeral_storage: Option<FsStats>,
    pub process_count: Option<u64>,
    pub swap: Option<SwapUsage>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStats {
    pub name: String,
    pub id: String,
    pub image: String,
    pub started_at: i64,
    pub cpu: Option<CpuUsage>,
    pub memory: Option<MemoryUsage>,
    pub io: Option<IoUsage>,
    pub swap: Option<SwapUsage>,
    pub rootfs: Option<FsStats>,
    /// Where its root file system is.
    pub rootfs_mountpoint: String,
    pub logs: Option<FsStats>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeStats {
    pub name: String,
    pub fs: FsStats,
    /// Namespace and name of its claim.
    pub claim: Option<(String, String)>,
    /// On the node's own file system, where it counts as ephemeral storage.
    pub is_ephemeral: bool,
}

/// A number a runtime may leave out.
fn number(of: &Option<UInt64Value>) -> Option<u64> {
    of.as_ref().map(|of| of.value)
}

pub(super) async fn summary(context: &Arc<Context>, query: &Query) -> Answer {
    let mut only = query.all("only_cpu_and_memory");
    let light = only.next() == Some("true") && only.next().is_none();
    let collected = if light { collect::light(context).await } else { collect::full(context, true).await };
    match collected {
        Ok(summary) => answer::json(&to_value(&summary)),
        Err(message) => {
            tracing::error!(message, "usage cannot be told");
            answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {message}"))
        }
    }
}

pub(super) async fn resource_metrics(context: &Arc<Context>) -> Answer {
    let collected = collect::light(context).await;
    if let Err(message) = &collected {
        tracing::error!(message, "usage cannot be told");
    }
    answer::metrics(resource_metrics_text(collected.as_ref().ok()))
}

pub(super) async fn container_metrics(context: &Arc<Context>) -> Answer {
    let summary = collect::full(context, false).await;
    if let Err(message) = &summary {
        tracing::error!(message, "usage cannot be told");
    }
    let now = context.env.now_seconds();
    let context = context.clone();
    let read = block(move || {
        let groups = Groups::read(Path::new("/sys/fs/cgroup"), context.node.pod_groups());
        containers::to_text(&Machine::read(), summary.as_ref().ok(), &groups, now)
    });
    match read.await {
        Ok(text) => answer::metrics(text),
        Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {error}")),
    }
}

/// `kubelet_volume_stats_*` of claims, in Prometheus' text format.
pub(super) async fn write_volume_metrics(context: &Context, out: &mut String) {
    let mut claims = BTreeMap::new();
    for pod in context.node.pods() {
        // Only of a pod that runs there is something to measure.
        if pod.str_at(&["status", "phase"]) == Some("Running") && has_claims(&pod) {
            let measured = context.node.volumes(&pod).await.into_iter();
            claims.extend(measured.filter_map(|volume| Some((volume.claim?, volume.fs))));
        }
    }
    type Read = fn(&FsStats) -> Option<u64>;
    const FAMILIES: [(&str, &str, Read); 6] = [
        ("available_bytes", "Number of available bytes in the volume", |fs| fs.available_bytes),
        ("capacity_bytes", "Capacity in bytes of the volume", |fs| fs.capacity_bytes),
        ("inodes", "Maximum number of inodes in the volume", |fs| fs.inodes),
        ("inodes_free", "Number of free inodes in the volume", |fs| fs.inodes_free),
        ("inodes_used", "Number of used inodes in the volume", |fs| fs.inodes_used),
        ("used_bytes", "Number of used bytes in the volume", |fs| fs.used_bytes),
    ];
    for (name, help, read) in FAMILIES.iter().filter(|_| !claims.is_empty()) {
        let name = format!("kubelet_volume_stats_{name}");
        metrics::header(out, &name, "gauge", &format!("[ALPHA] {help}"));
        for ((namespace, claim), fs) in &claims {
            if let Some(value) = read(fs) {
                *out += &format!(
                    "{name}{{namespace=\"{namespace}\",persistentvolumeclaim=\"{claim}\"}} {value}\n"
                );
            }
        }
    }
}

fn has_claims(pod: &Value) -> bool {
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
    volumes
        .iter()
        .any(|volume| volume.get("persistentVolumeClaim").is_some() || volume.get("ephemeral").is_some())
}

#[cfg(test)]
mod tests;
