//! The stats of a runtime, by pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use container::cgroup::Cgroup;
use cri::{
    Code, Container, CpuUsage, ImageFsInfoRequest, ListContainerStatsRequest, ListPodSandboxStatsRequest,
    MemoryUsage, PodSandbox, PodSandboxStats, SwapUsage, UInt64Value,
};

use super::machine::Machine;
use super::storage::{self, FsStats};
use super::{ContainerStats, NodeStats, PodStats, Summary, number};
use crate::server::{Context, containers};

/// No pod's uid, and no container's id.
const ALL_PODS: &str = "/pods";

/// What a runtime tells: all of a pod, or of its containers alone.
pub enum Usage {
    Pods(Vec<PodSandboxStats>),
    Containers(Vec<cri::ContainerStats>),
}

/// CPU and memory.
pub(super) async fn light(context: &Arc<Context>) -> Result<Summary, String> {
    let machine = Machine::read();
    let mut node = node_of(context, &machine);
    let pods = pods_of(context).await?;
    if let Some(cpu) = &mut node.cpu {
        context.sampler.complete("/", cpu);
    }
    node.system_containers.extend(all_pods(context));
    Ok(Summary { node, pods })
}

/// Kubelet's own and the runtime's are not told: no cgroup is named for them.
fn all_pods(context: &Context) -> Option<ContainerStats> {
    let group = Cgroup::at_host(&context.node.pods_group()?);
    let used = group.usage();
    let timestamp = i64::try_from(context.env.now_nanos()).unwrap_or(i64::MAX);
    let some = |value| Some(UInt64Value { value });
    let usage_core_nano_seconds = some(used.cpu_nanos);
    let mut cpu = CpuUsage { timestamp, usage_core_nano_seconds, ..CpuUsage::default() };
    context.sampler.complete(ALL_PODS, &mut cpu);
    let memory = MemoryUsage {
        timestamp,
        usage_bytes: some(used.memory),
        working_set_bytes: some(used.working_set),
        ..MemoryUsage::default()
    };
    Some(ContainerStats {
        name: "pods".to_owned(),
        started_at: group.made_at()?,
        cpu: Some(cpu),
        memory: Some(memory),
        ..ContainerStats::default()
    })
}

/// With storage and network. `volumes`: to measure them takes time.
pub(super) async fn full(context: &Arc<Context>, volumes: bool) -> Result<Summary, String> {
    let Summary { mut node, mut pods } = light(context).await?;
    let machine = Machine::read();
    let now = i64::try_from(context.env.now_nanos()).unwrap_or(i64::MAX);
    node.io = machine.io(now);
    node.network = Some(machine.network(now));
    node.processes = Some(machine.processes(now));
    let root_directory = context.node.root_directory();
    let root = storage::fs_of(&root_directory, now);
    let root = root.map_err(|error| format!("failed to get rootFs stats: {error}"))?;
    let images = context.node.runtime().image_fs_info(ImageFsInfoRequest {}).await;
    let images = images.map_err(|error| format!("failed to get imageFs stats: {error}"))?;
    node.image_fs = images.image_filesystems.first().map(|fs| FsStats::of_usage(fs, storage::fs_of));
    let containers = images.container_filesystems.first().map(|fs| FsStats::of_usage(fs, storage::fs_of));
    node.container_fs = containers.or_else(|| node.image_fs.clone());
    let logs = context.node.pod_logs_directory();
    let directories = storage::Directories { root: &root_directory, logs: &logs };
    for pod in &mut pods {
        if let Some(object) = context.node.find(&pod.namespace, &pod.name).filter(|_| volumes)
            && object.str_at(&["metadata", "uid"]) == Some(pod.uid.as_str())
        {
            pod.volumes = context.node.volumes(&object).await;
        }
        storage::complete(pod, &root, directories, now);
    }
    node.fs = Some(root);
    Ok(Summary { node, pods })
}

fn node_of(context: &Context, machine: &Machine) -> NodeStats {
    let now = i64::try_from(context.env.now_nanos()).unwrap_or(i64::MAX);
    NodeStats {
        name: context.node_name.clone(),
        started_at: machine.booted_at,
        cpu: Some(machine.cpu(now)),
        memory: Some(machine.memory(now)),
        swap: Some(machine.swap(now)),
        ..NodeStats::default()
    }
}

async fn pods_of(context: &Context) -> Result<Vec<PodStats>, String> {
    let runtime = context.node.runtime();
    let failed =
        |what: &str, error: cri::Error| format!("failed to list pod stats: failed to {what}: {error}");
    let containers = containers::running_containers(&*runtime, BTreeMap::new()).await;
    let containers = containers.map_err(|error| failed("list all containers", error))?;
    let sandboxes = containers::ready_sandboxes(&*runtime, BTreeMap::new()).await;
    let sandboxes = sandboxes.map_err(|error| failed("list all pod sandboxes", error))?;
    let usage = match runtime.list_pod_sandbox_stats(ListPodSandboxStatsRequest { filter: None }).await {
        Ok(listed) => Usage::Pods(listed.stats),
        // Older ones know of containers alone, and containerd 1.6 fails as long as there is a sandbox that has ended.
        Err(error) => {
            if error.code != Code::Unimplemented {
                tracing::debug!(%error, "failed to list all pod sandbox stats");
            }
            let listed = runtime.list_container_stats(ListContainerStatsRequest { filter: None }).await;
            Usage::Containers(listed.map_err(|error| failed("list all container stats", error))?.stats)
        }
    };
    let mut pods = pods(&sandboxes, &containers, usage);
    for pod in &mut pods {
        if let Some(cpu) = &mut pod.cpu {
            context.sampler.complete(&pod.uid, cpu);
        }
        for container in &mut pod.containers {
            if let Some(cpu) = &mut container.cpu {
                context.sampler.complete(&container.id, cpu);
            }
        }
    }
    context.sampler.retain(|whose| {
        whose == "/"
            || whose == ALL_PODS
            || sandboxes.iter().any(|of| of.metadata.as_ref().is_some_and(|metadata| metadata.uid == whose))
            || containers.iter().any(|container| container.id == whose)
    });
    Ok(pods)
}

/// By namespace and name; what neither runs nor is ready is left out.
pub fn pods(sandboxes: &[PodSandbox], containers: &[Container], usage: Usage) -> Vec<PodStats> {
    let containers: BTreeMap<&str, &Container> =
        containers.iter().map(|container| (container.id.as_str(), container)).collect();
    let mut pods: BTreeMap<&str, PodStats> = BTreeMap::new();
    let pod = |sandbox: &PodSandbox| {
        let metadata = sandbox.metadata.clone().unwrap_or_default();
        PodStats {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            started_at: sandbox.created_at,
            ..PodStats::default()
        }
    };
    let sandbox_of = |id: &str| sandboxes.iter().find(|sandbox| sandbox.id == id);
    match usage {
        Usage::Pods(stats) => {
            for stats in stats {
                let id = stats.attributes.map(|of| of.id).unwrap_or_default();
                let Some(sandbox) = sandbox_of(&id) else { continue };
                let of = stats.linux.unwrap_or_default();
                let measured = of.containers.into_iter().filter_map(|stats| container_of(&containers, stats));
                let mut pod = PodStats {
                    containers: measured.map(|(_, container)| container).collect(),
                    cpu: of.cpu,
                    memory: of.memory,
                    io: of.io,
                    network: of.network,
                    process_count: of.process.and_then(|of| number(&of.process_count)),
                    ..pod(sandbox)
                };
                add_up(&mut pod);
                pods.insert(&sandbox.id, pod);
            }
        }
        Usage::Containers(stats) => {
            for stats in stats {
                let Some((of, container)) = container_of(&containers, stats) else { continue };
                let Some(sandbox) = sandbox_of(&of.pod_sandbox_id) else { continue };
                pods.entry(&sandbox.id).or_insert_with(|| pod(sandbox)).containers.push(container);
            }
            pods.values_mut().for_each(add_up);
        }
    }
    let mut pods: Vec<PodStats> = pods.into_values().collect();
    for pod in &mut pods {
        pod.containers.sort_by(|a, b| a.name.cmp(&b.name));
    }
    pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
    pods
}

fn container_of<'a>(
    containers: &BTreeMap<&str, &'a Container>,
    stats: cri::ContainerStats,
) -> Option<(&'a Container, ContainerStats)> {
    let attributes = stats.attributes?;
    let container = *containers.get(attributes.id.as_str())?;
    let writable = stats.writable_layer;
    let measured = ContainerStats {
        name: container.metadata.as_ref().map(|of| of.name.clone()).unwrap_or_default(),
        id: attributes.id,
        image: container.image.as_ref().map(|of| of.image.clone()).unwrap_or_default(),
        started_at: container.created_at,
        cpu: stats.cpu,
        memory: stats.memory,
        io: stats.io,
        swap: stats.swap,
        rootfs_mountpoint: writable.as_ref().and_then(|of| of.fs_id.clone()).unwrap_or_default().mountpoint,
        rootfs: writable.map(|of| FsStats::of_usage(&of, |_, _| Ok(FsStats::default()))),
        logs: None,
    };
    Some((container, measured))
}

/// What is not told of a pod is the sum of its containers'; of swap nothing is.
fn add_up(pod: &mut PodStats) {
    let containers = &pod.containers;
    if pod.cpu.is_none() {
        pod.cpu = containers.iter().filter_map(|of| of.cpu.as_ref()).fold(None, |sum, of| {
            let sum: CpuUsage = sum.unwrap_or_default();
            Some(CpuUsage {
                timestamp: of.timestamp,
                usage_core_nano_seconds: plus(&sum.usage_core_nano_seconds, &of.usage_core_nano_seconds),
                usage_nano_cores: plus(&sum.usage_nano_cores, &of.usage_nano_cores),
                psi: None,
            })
        });
    }
    if pod.memory.is_none() {
        pod.memory = containers.iter().filter_map(|of| of.memory.as_ref()).fold(None, |sum, of| {
            let sum: MemoryUsage = sum.unwrap_or_default();
            Some(MemoryUsage {
                timestamp: of.timestamp,
                working_set_bytes: plus(&sum.working_set_bytes, &of.working_set_bytes),
                available_bytes: plus(&sum.available_bytes, &of.available_bytes),
                usage_bytes: plus(&sum.usage_bytes, &of.usage_bytes),
                rss_bytes: plus(&sum.rss_bytes, &of.rss_bytes),
                page_faults: plus(&sum.page_faults, &of.page_faults),
                major_page_faults: plus(&sum.major_page_faults, &of.major_page_faults),
                psi: None,
            })
        });
    }
    pod.swap = containers.iter().filter_map(|of| of.swap.as_ref()).fold(None, |sum, of| {
        let sum: SwapUsage = sum.unwrap_or_default();
        Some(SwapUsage {
            timestamp: of.timestamp,
            swap_available_bytes: plus(&sum.swap_available_bytes, &of.swap_available_bytes),
            swap_usage_bytes: plus(&sum.swap_usage_bytes, &of.swap_usage_bytes),
        })
    });
}

fn plus(a: &Option<UInt64Value>, b: &Option<UInt64Value>) -> Option<UInt64Value> {
    match (number(a), number(b)) {
        (None, None) => None,
        (a, b) => Some(UInt64Value { value: a.unwrap_or(0).saturating_add(b.unwrap_or(0)) }),
    }
}
