//! `/metrics/resource`: what metrics-server asks every node for, in Prometheus' text format.

use std::fmt::Write as _;

use cri::{CpuUsage, MemoryUsage, SwapUsage};
use metrics::header;

use super::{ContainerStats, PodStats, Summary, number};

const NANOS: f64 = 1e9;

/// A series: its labels, its value, and when it was measured, in nanoseconds (0: not told).
type Sample = (String, f64, i64);

/// `None`: it could not be collected.
pub fn to_text(summary: Option<&Summary>) -> String {
    let mut out = String::new();
    if let Some(summary) = summary {
        families(&mut out, summary);
    }
    let name = "resource_scrape_error";
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    metrics::single(&mut out, name, "gauge", help, u8::from(summary.is_none()));
    out
}

fn families(out: &mut String, summary: &Summary) {
    let Summary { node, pods } = summary;
    let containers = |read: &dyn Fn(&ContainerStats) -> Option<(f64, i64)>| -> Vec<Sample> {
        let all = pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
        all.filter_map(|(pod, container)| {
            read(container).map(|(value, at)| (labels(pod, Some(container)), value, at))
        })
        .collect()
    };
    let of_pods = |read: &dyn Fn(&PodStats) -> Option<(f64, i64)>| -> Vec<Sample> {
        pods.iter().filter_map(|pod| read(pod).map(|(value, at)| (labels(pod, None), value, at))).collect()
    };
    let of_node =
        |read: Option<(f64, i64)>| read.map(|(value, at)| (String::new(), value, at)).into_iter().collect();
    family(
        out,
        "container_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
        containers(&|of| cpu(&of.cpu)),
    );
    family(
        out,
        "container_memory_working_set_bytes",
        "gauge",
        "[STABLE] Current working set of the container in bytes",
        containers(&|of| memory(&of.memory)),
    );
    family(
        out,
        "container_start_time_seconds",
        "gauge",
        "[STABLE] Start time of the container since unix epoch in seconds",
        containers(&|of| (of.started_at > 0).then_some((of.started_at as f64 / NANOS, 0))),
    );
    family(
        out,
        "container_swap_limit_bytes",
        "gauge",
        "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
        containers(&|of| swap_limit(&of.swap)),
    );
    family(
        out,
        "container_swap_usage_bytes",
        "gauge",
        "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
        containers(&|of| swap(&of.swap)),
    );
    family(
        out,
        "node_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
        of_node(cpu(&node.cpu)),
    );
    family(
        out,
        "node_memory_working_set_bytes",
        "gauge",
        "[STABLE] Current working set of the node in bytes",
        of_node(memory(&node.memory)),
    );
    family(
        out,
        "node_swap_usage_bytes",
        "gauge",
        "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
        of_node(swap(&node.swap)),
    );
    family(
        out,
        "pod_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        of_pods(&|of| cpu(&of.cpu)),
    );
    family(
        out,
        "pod_memory_working_set_bytes",
        "gauge",
        "[STABLE] Current working set of the pod in bytes",
        of_pods(&|of| memory(&of.memory)),
    );
    family(
        out,
        "pod_swap_usage_bytes",
        "gauge",
        "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
        of_pods(&|of| swap(&of.swap)),
    );
}

fn family(out: &mut String, name: &str, kind: &str, help: &str, samples: Vec<Sample>) {
    if samples.is_empty() {
        return;
    }
    header(out, name, kind, help);
    for (labels, value, at) in samples {
        let _ = write!(out, "{name}{labels} {value}");
        if at != 0 {
            let _ = write!(out, " {}", at.div_euclid(1_000_000));
        }
        out.push('\n');
    }
}

fn labels(pod: &PodStats, container: Option<&ContainerStats>) -> String {
    let container = container.map(|of| format!("container={:?},", of.name)).unwrap_or_default();
    format!("{{{container}namespace={:?},pod={:?}}}", pod.namespace, pod.name)
}

fn cpu(of: &Option<CpuUsage>) -> Option<(f64, i64)> {
    let of = of.as_ref()?;
    Some((number(&of.usage_core_nano_seconds)? as f64 / NANOS, of.timestamp))
}

fn memory(of: &Option<MemoryUsage>) -> Option<(f64, i64)> {
    let of = of.as_ref()?;
    Some((number(&of.working_set_bytes)? as f64, of.timestamp))
}

fn swap(of: &Option<SwapUsage>) -> Option<(f64, i64)> {
    let of = of.as_ref()?;
    Some((number(&of.swap_usage_bytes)? as f64, of.timestamp))
}

fn swap_limit(of: &Option<SwapUsage>) -> Option<(f64, i64)> {
    let of = of.as_ref()?;
    let used = number(&of.swap_usage_bytes).unwrap_or(0);
    Some((number(&of.swap_available_bytes)?.saturating_add(used) as f64, of.timestamp))
}
