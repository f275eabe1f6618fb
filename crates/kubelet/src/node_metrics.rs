//! What a node counts: pods and containers it started, pods it ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Bounds, Histogram, header, single};
use node::machine::{KUBELET_VERSION, OS, architecture};
use node::pod::{Pod, Role};
use parking_lot::Mutex;

const SECOND: u64 = 1_000_000_000;
const START: Bounds<24> = Bounds {
    values: [
        SECOND / 2,
        SECOND,
        2 * SECOND,
        3 * SECOND,
        4 * SECOND,
        5 * SECOND,
        6 * SECOND,
        8 * SECOND,
        10 * SECOND,
        20 * SECOND,
        30 * SECOND,
        45 * SECOND,
        60 * SECOND,
        120 * SECOND,
        180 * SECOND,
        240 * SECOND,
        300 * SECOND,
        360 * SECOND,
        480 * SECOND,
        600 * SECOND,
        900 * SECOND,
        1200 * SECOND,
        1800 * SECOND,
        3600 * SECOND,
    ],
    labels: [
        "0.5", "1", "2", "3", "4", "5", "6", "8", "10", "20", "30", "45", "60", "120", "180", "240", "300",
        "360", "480", "600", "900", "1200", "1800", "3600",
    ],
    per_unit: SECOND,
};

#[derive(Default)]
pub struct NodeMetrics {
    pods_started: AtomicU64,
    pods_failed: AtomicU64,
    pod_start: Histogram<24>,
    /// Guards the counts; held to add one. Labels and reasons are a fixed set.
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    containers_started: BTreeMap<&'static str, u64>,
    containers_failed: BTreeMap<(&'static str, String), u64>,
    evictions: BTreeMap<&'static str, u64>,
}

impl NodeMetrics {
    /// From when the node saw it first until it ran.
    pub fn pod_started(&self, took: Duration) {
        self.pod_start.took(&START, took);
    }

    /// A sandbox was asked for.
    pub fn sandbox_made(&self, succeeded: bool) {
        self.pods_started.fetch_add(1, Ordering::Relaxed);
        if !succeeded {
            self.pods_failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A start of a container was begun, with its image.
    pub fn container_begun(&self, pod: &Pod<'_>, name: &str) {
        *self.counts.lock().containers_started.entry(container_type(pod, name)).or_default() += 1;
    }

    /// And failed; `reason`: what the container waits with.
    pub fn container_failed(&self, pod: &Pod<'_>, name: &str, reason: &str) {
        let of = (container_type(pod, name), reason.to_owned());
        *self.counts.lock().containers_failed.entry(of).or_default() += 1;
    }

    pub fn evicted(&self, signal: &'static str) {
        *self.counts.lock().evictions.entry(signal).or_default() += 1;
    }

    pub fn write(&self, out: &mut String) {
        let name = "kubelet_pod_start_duration_seconds";
        let help = "[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run";
        header(out, name, "histogram", help);
        self.pod_start.write(out, name, "", &START, 0);
        let started = self.pods_started.load(Ordering::Relaxed);
        let name = "kubelet_started_pods_total";
        single(out, name, "counter", "[ALPHA] Cumulative number of pods started", started);
        let failed = self.pods_failed.load(Ordering::Relaxed);
        let name = "kubelet_started_pods_errors_total";
        single(out, name, "counter", "[ALPHA] Cumulative number of errors when starting pods", failed);
        let counts = self.counts.lock();
        let name = "kubelet_started_containers_total";
        header(out, name, "counter", "[ALPHA] Cumulative number of containers started");
        for (kind, count) in &counts.containers_started {
            *out += &format!("{name}{{container_type=\"{kind}\"}} {count}\n");
        }
        let name = "kubelet_started_containers_errors_total";
        header(out, name, "counter", "[ALPHA] Cumulative number of errors when starting containers");
        for ((kind, reason), count) in &counts.containers_failed {
            *out += &format!("{name}{{code={reason:?},container_type=\"{kind}\"}} {count}\n");
        }
        let name = "kubelet_evictions";
        header(out, name, "counter", "[ALPHA] Cumulative number of pod evictions by eviction signal");
        for (signal, count) in &counts.evictions {
            *out += &format!("{name}{{eviction_signal=\"{signal}\"}} {count}\n");
        }
    }
}

fn container_type(pod: &Pod<'_>, name: &str) -> &'static str {
    match pod.containers.iter().find(|container| container.name == name).map(|of| of.role) {
        Some(Role::Ephemeral) => "ephemeral_container",
        Some(role) if role.is_init() => "init_container",
        _ => "container",
    }
}

/// Whose release the node is like.
pub fn write_build_info(out: &mut String) {
    let name = "kubernetes_build_info";
    header(out, name, "gauge", "[ALPHA] A constant 1; the labels name version, compiler and platform.");
    let numbers: Vec<&str> = KUBELET_VERSION.trim_start_matches('v').split('.').collect();
    let (major, minor) = (numbers.first().unwrap_or(&""), numbers.get(1).unwrap_or(&""));
    let version = format!("{KUBELET_VERSION}+setpoint-{}", env!("CARGO_PKG_VERSION"));
    let platform = format!("{OS}/{}", architecture());
    *out += &format!(
        "{name}{{build_date=\"\",compiler=\"rustc\",git_commit=\"\",git_tree_state=\"\",git_version=\"{version}\",go_version=\"\",\
         major=\"{major}\",minor=\"{minor}\",platform=\"{platform}\"}} 1\n"
    );
}
