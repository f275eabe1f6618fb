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

use std::path::Path;
use std::sync::Arc;

use cri::{CpuUsage, IoUsage, MemoryUsage, NetworkUsage, SwapUsage, UInt64Value};
use http::StatusCode;

use super::Context;
use super::answer::{self, Answer};
use super::query::Query;

pub use collect::{Usage, pods};
use groups::Groups;
pub use json::to_value;
pub use machine::Machine;
pub use resource::to_text as resource_metrics_text;
pub use sampler::Sampler;
pub use storage::{FsStats, complete as complete_storage, fs_of};

/// Usage is what CRI calls it; times are Unix nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub node: NodeStats,
    pub pods: Vec<PodStats>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeStats {
    pub name: String,
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
    let collected = if light { collect::light(context).await } else { collect::full(context).await };
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
    let machine = Machine::read();
    let summary = collect::full(context).await.unwrap_or_else(|message| {
        tracing::error!(message, "usage cannot be told");
        Summary::default()
    });
    let groups = Groups::read(Path::new("/sys/fs/cgroup"), context.node.pod_groups());
    answer::metrics(containers::to_text(&machine, &summary, &groups, context.env.now_seconds()))
}

#[cfg(test)]
mod tests;
