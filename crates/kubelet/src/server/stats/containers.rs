//! `/metrics/cadvisor`: those of cAdvisor's metrics that dashboards and alerts are made of.

use std::fmt::Write as _;

use cri::{NetworkInterfaceUsage, UInt64Value};
use metrics::{header, single};

use super::machine::Machine;
use super::{ContainerStats, PodStats, Summary, number};

/// What is read of a container, or of a pod as a whole.
enum Of<'a> {
    Pod(&'a PodStats),
    Container(&'a PodStats, &'a ContainerStats),
}

impl Of<'_> {
    fn labels(&self, more: &str) -> String {
        let (pod, container, id, image) = match self {
            Of::Pod(pod) => (pod, "", pod.uid.as_str(), ""),
            Of::Container(pod, of) => (pod, of.name.as_str(), of.id.as_str(), of.image.as_str()),
        };
        format!(
            "{{container={container:?},{more}id={id:?},image={image:?},name={:?},namespace={:?},pod={:?}}}",
            if container.is_empty() { "" } else { id },
            pod.namespace,
            pod.name
        )
    }
}

type Read = fn(&Of<'_>) -> Option<(f64, i64)>;

/// Name, type, help, labels of its own, and how it is read.
const FAMILIES: [(&str, &str, &str, &str, Read); 8] = [
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed in seconds.",
        "cpu=\"total\",",
        |of| {
            let cpu = match of {
                Of::Pod(pod) => pod.cpu.as_ref(),
                Of::Container(_, of) => of.cpu.as_ref(),
            }?;
            Some((number(&cpu.usage_core_nano_seconds)? as f64 / 1e9, cpu.timestamp))
        },
    ),
    (
        "container_fs_usage_bytes",
        "gauge",
        "Number of bytes that are consumed by the container on this filesystem.",
        "device=\"\",",
        |of| {
            let Of::Container(_, of) = of else { return None };
            let fs = of.rootfs.as_ref()?;
            Some((fs.used_bytes? as f64, fs.timestamp))
        },
    ),
    (
        "container_memory_failures_total",
        "counter",
        "Cumulative count of memory allocation failures.",
        "failure_type=\"pgmajfault\",",
        |of| memory(of, |memory| &memory.major_page_faults),
    ),
    ("container_memory_rss", "gauge", "Size of RSS in bytes.", "", |of| {
        memory(of, |memory| &memory.rss_bytes)
    }),
    (
        "container_memory_usage_bytes",
        "gauge",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        "",
        |of| memory(of, |memory| &memory.usage_bytes),
    ),
    ("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", "", |of| {
        memory(of, |memory| &memory.working_set_bytes)
    }),
    ("container_processes", "gauge", "Number of processes running inside the container.", "", |of| {
        let Of::Pod(pod) = of else { return None };
        Some((pod.process_count? as f64, 0))
    }),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        "",
        |of| {
            let started = match of {
                Of::Pod(pod) => pod.started_at,
                Of::Container(_, of) => of.started_at,
            };
            (started > 0).then_some((started as f64 / 1e9, 0))
        },
    ),
];

fn memory(of: &Of<'_>, read: fn(&cri::MemoryUsage) -> &Option<UInt64Value>) -> Option<(f64, i64)> {
    let memory = match of {
        Of::Pod(pod) => pod.memory.as_ref(),
        Of::Container(_, of) => of.memory.as_ref(),
    }?;
    Some((number(read(memory))? as f64, memory.timestamp))
}

type ReadInterface = fn(&NetworkInterfaceUsage) -> &Option<UInt64Value>;

const INTERFACES: [(&str, &str, ReadInterface); 4] = [
    ("container_network_receive_bytes_total", "Cumulative count of bytes received", |of| &of.rx_bytes),
    (
        "container_network_receive_errors_total",
        "Cumulative count of errors encountered while receiving",
        |of| &of.rx_errors,
    ),
    ("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", |of| &of.tx_bytes),
    (
        "container_network_transmit_errors_total",
        "Cumulative count of errors encountered while transmitting",
        |of| &of.tx_errors,
    ),
];

pub fn to_text(machine: &Machine, summary: &Summary) -> String {
    let mut out = String::new();
    let all = || {
        summary.pods.iter().flat_map(|pod| {
            let containers = pod.containers.iter().map(move |of| Of::Container(pod, of));
            std::iter::once(Of::Pod(pod)).chain(containers)
        })
    };
    for (name, kind, help, labels, read) in FAMILIES {
        let samples: Vec<_> =
            all().filter_map(|of| read(&of).map(|read| (of.labels(labels), read))).collect();
        if samples.is_empty() {
            continue;
        }
        header(&mut out, name, kind, help);
        for (labels, (value, at)) in samples {
            write_sample(&mut out, name, &labels, value, at);
        }
    }
    for (name, help, read) in INTERFACES {
        let pods = summary.pods.iter().filter_map(|pod| Some((pod, pod.network.as_ref()?)));
        let samples: Vec<_> = pods
            .flat_map(|(pod, network)| {
                let interfaces = network.default_interface.iter().chain(&network.interfaces);
                interfaces.filter_map(move |of| {
                    let labels = Of::Pod(pod).labels("").replacen(
                        ",name=",
                        &format!(",interface={:?},name=", of.name),
                        1,
                    );
                    Some((labels, number(read(of))? as f64, network.timestamp))
                })
            })
            .collect();
        if !samples.is_empty() {
            header(&mut out, name, "counter", help);
        }
        for (labels, value, at) in samples {
            write_sample(&mut out, name, &labels, value, at);
        }
    }
    single(&mut out, "machine_cpu_cores", "gauge", "Number of logical CPU cores.", machine.cores);
    single(
        &mut out,
        "machine_memory_bytes",
        "gauge",
        "Amount of memory installed on the machine.",
        machine.memory_bytes,
    );
    out
}

fn write_sample(out: &mut String, name: &str, labels: &str, value: f64, at: i64) {
    let _ = write!(out, "{name}{labels} {value}");
    if at != 0 {
        let _ = write!(out, " {}", at.div_euclid(1_000_000));
    }
    out.push('\n');
}
