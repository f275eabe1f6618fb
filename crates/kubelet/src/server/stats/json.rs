//! A summary as JSON: `stats/v1alpha1`, fields in upstream's order.

use cri::{
    CpuUsage, IoUsage, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PsiData, PsiStats, SwapUsage,
    UInt64Value,
};
use object::{Map, Value, time};

use super::{ContainerStats, FsStats, NodeStats, PodStats, Summary, VolumeStats};

pub fn to_value(summary: &Summary) -> Value {
    let mut out = Map::with_capacity(2);
    out.set("node", node(&summary.node));
    out.set("pods", summary.pods.iter().map(|of| Value::Map(pod(of))).collect::<Vec<_>>());
    Value::Map(out)
}

fn node(of: &NodeStats) -> Map {
    let mut out = Map::default();
    out.set("nodeName", of.name.as_str());
    out.set("startTime", timestamp(of.started_at));
    put(&mut out, "cpu", of.cpu.as_ref().map(cpu));
    put(&mut out, "memory", of.memory.as_ref().map(memory));
    put(&mut out, "io", of.io.as_ref().map(io));
    put(&mut out, "network", of.network.as_ref().map(network));
    put(&mut out, "fs", of.fs.as_ref().map(fs));
    if of.image_fs.is_some() || of.container_fs.is_some() {
        let mut runtime = Map::with_capacity(2);
        put(&mut runtime, "imageFs", of.image_fs.as_ref().map(fs));
        put(&mut runtime, "containerFs", of.container_fs.as_ref().map(fs));
        out.set("runtime", runtime);
    }
    if let Some(processes) = &of.processes {
        let mut limit = Map::with_capacity(3);
        limit.set("time", timestamp(processes.timestamp));
        limit.set("maxpid", processes.most);
        limit.set("curproc", processes.running);
        out.set("rlimit", limit);
    }
    put(&mut out, "swap", of.swap.as_ref().map(swap));
    out
}

fn pod(of: &PodStats) -> Map {
    let mut reference = Map::with_capacity(3);
    reference.set("name", of.name.as_str());
    reference.set("namespace", of.namespace.as_str());
    reference.set("uid", of.uid.as_str());
    let mut out = Map::default();
    out.set("podRef", reference);
    out.set("startTime", timestamp(of.started_at));
    out.set("containers", of.containers.iter().map(|of| Value::Map(container(of))).collect::<Vec<_>>());
    put(&mut out, "cpu", of.cpu.as_ref().map(cpu));
    put(&mut out, "memory", of.memory.as_ref().map(memory));
    put(&mut out, "io", of.io.as_ref().map(io));
    put(&mut out, "network", of.network.as_ref().map(network));
    if !of.volumes.is_empty() {
        out.set("volume", of.volumes.iter().map(|of| Value::Map(volume(of))).collect::<Vec<_>>());
    }
    put(&mut out, "ephemeral-storage", of.ephemeral_storage.as_ref().map(fs));
    if let Some(count) = of.process_count {
        let mut processes = Map::with_capacity(1);
        processes.set("process_count", number(count));
        out.set("process_stats", processes);
    }
    put(&mut out, "swap", of.swap.as_ref().map(swap));
    out
}

fn container(of: &ContainerStats) -> Map {
    let mut out = Map::default();
    out.set("name", of.name.as_str());
    out.set("startTime", timestamp(of.started_at));
    put(&mut out, "cpu", of.cpu.as_ref().map(cpu));
    put(&mut out, "memory", of.memory.as_ref().map(memory));
    put(&mut out, "io", of.io.as_ref().map(io));
    put(&mut out, "rootfs", of.rootfs.as_ref().map(fs));
    put(&mut out, "logs", of.logs.as_ref().map(fs));
    put(&mut out, "swap", of.swap.as_ref().map(swap));
    out
}

fn cpu(of: &CpuUsage) -> Map {
    let mut out = timed(of.timestamp);
    count(&mut out, "usageNanoCores", &of.usage_nano_cores);
    count(&mut out, "usageCoreNanoSeconds", &of.usage_core_nano_seconds);
    put(&mut out, "psi", of.psi.as_ref().map(psi));
    out
}

fn memory(of: &MemoryUsage) -> Map {
    let mut out = timed(of.timestamp);
    count(&mut out, "availableBytes", &of.available_bytes);
    count(&mut out, "usageBytes", &of.usage_bytes);
    count(&mut out, "workingSetBytes", &of.working_set_bytes);
    count(&mut out, "rssBytes", &of.rss_bytes);
    count(&mut out, "pageFaults", &of.page_faults);
    count(&mut out, "majorPageFaults", &of.major_page_faults);
    put(&mut out, "psi", of.psi.as_ref().map(psi));
    out
}

fn swap(of: &SwapUsage) -> Map {
    let mut out = timed(of.timestamp);
    count(&mut out, "swapAvailableBytes", &of.swap_available_bytes);
    count(&mut out, "swapUsageBytes", &of.swap_usage_bytes);
    out
}

fn io(of: &IoUsage) -> Map {
    let mut out = timed(of.timestamp);
    put(&mut out, "psi", of.psi.as_ref().map(psi));
    out
}

fn psi(of: &PsiStats) -> Map {
    let data = |of: &Option<PsiData>| {
        let of = of.clone().unwrap_or_default();
        let mut out = Map::with_capacity(4);
        out.set("total", number(of.total));
        for (name, average) in [("avg10", of.avg10), ("avg60", of.avg60), ("avg300", of.avg300)] {
            // JSON has no other numbers.
            out.set(name, Value::Float(if average.is_finite() { average } else { 0.0 }));
        }
        out
    };
    let mut out = Map::with_capacity(2);
    out.set("full", data(&of.full));
    out.set("some", data(&of.some));
    out
}

fn network(of: &NetworkUsage) -> Map {
    let mut out = timed(of.timestamp);
    interface(&mut out, &of.default_interface.clone().unwrap_or_default());
    if !of.interfaces.is_empty() {
        let each = |of: &NetworkInterfaceUsage| {
            let mut out = Map::with_capacity(5);
            interface(&mut out, of);
            Value::Map(out)
        };
        out.set("interfaces", of.interfaces.iter().map(each).collect::<Vec<_>>());
    }
    out
}

fn interface(out: &mut Map, of: &NetworkInterfaceUsage) {
    out.set("name", of.name.as_str());
    count(out, "rxBytes", &of.rx_bytes);
    count(out, "rxErrors", &of.rx_errors);
    count(out, "txBytes", &of.tx_bytes);
    count(out, "txErrors", &of.tx_errors);
}

fn fs(of: &FsStats) -> Map {
    let mut out = timed(of.timestamp);
    let numbers = [
        ("availableBytes", of.available_bytes),
        ("capacityBytes", of.capacity_bytes),
        ("usedBytes", of.used_bytes),
        ("inodesFree", of.inodes_free),
        ("inodes", of.inodes),
        ("inodesUsed", of.inodes_used),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            out.set(name, number(value));
        }
    }
    out
}

fn volume(of: &VolumeStats) -> Map {
    let mut out = fs(&of.fs);
    out.set("name", of.name.as_str());
    if let Some((namespace, name)) = &of.claim {
        let mut claim = Map::with_capacity(2);
        claim.set("name", name.as_str());
        claim.set("namespace", namespace.as_str());
        out.set("pvcRef", claim);
    }
    out
}

fn timed(nanos: i64) -> Map {
    let mut out = Map::with_capacity(8);
    out.set("time", timestamp(nanos));
    out
}

/// Null where there is none.
fn timestamp(nanos: i64) -> Value {
    if nanos == 0 { Value::Null } else { time::format_seconds(nanos.div_euclid(1_000_000_000)).into() }
}

fn put(out: &mut Map, name: &'static str, value: Option<Map>) {
    if let Some(value) = value {
        out.set(name, value);
    }
}

fn count(out: &mut Map, name: &'static str, value: &Option<UInt64Value>) {
    if let Some(value) = value {
        out.set(name, number(value.value));
    }
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
