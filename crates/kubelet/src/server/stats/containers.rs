//! `/metrics/cadvisor`: those of cAdvisor's metrics that dashboards and alerts are made of.

use std::fmt::Write as _;

use cri::{NetworkInterfaceUsage, UInt64Value};
use metrics::{header, single};

use super::groups::{Group, Groups};
use super::machine::Machine;
use super::{ContainerStats, PodStats, Summary, number};

/// What is read of a container, or of a pod as a whole; and what its cgroup says.
struct Of<'a> {
    pod: &'a PodStats,
    container: Option<&'a ContainerStats>,
    group: Option<&'a Group>,
}

impl Of<'_> {
    fn labels(&self, more: &str) -> String {
        let (container, id, image) = match self.container {
            None => ("", self.pod.uid.as_str(), ""),
            Some(of) => (of.name.as_str(), of.id.as_str(), of.image.as_str()),
        };
        let path = self.group.map_or(id, |group| &group.path);
        format!(
            "{{container={container:?},{more}id={path:?},image={image:?},name={:?},namespace={:?},pod={:?}}}",
            if container.is_empty() { "" } else { id },
            self.pod.namespace,
            self.pod.name
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
            let cpu = of.container.map_or(of.pod.cpu.as_ref(), |of| of.cpu.as_ref())?;
            Some((number(&cpu.usage_core_nano_seconds)? as f64 / 1e9, cpu.timestamp))
        },
    ),
    (
        "container_fs_usage_bytes",
        "gauge",
        "Number of bytes that are consumed by the container on this filesystem.",
        "device=\"\",",
        |of| {
            let fs = of.container?.rootfs.as_ref()?;
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
        let pod = Some(of.pod).filter(|_| of.container.is_none())?;
        Some((pod.process_count? as f64, 0))
    }),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        "",
        |of| {
            let started = of.container.map_or(of.pod.started_at, |of| of.started_at);
            (started > 0).then_some((started as f64 / 1e9, 0))
        },
    ),
];

fn memory(of: &Of<'_>, read: fn(&cri::MemoryUsage) -> &Option<UInt64Value>) -> Option<(f64, i64)> {
    let memory = of.container.map_or(of.pod.memory.as_ref(), |of| of.memory.as_ref())?;
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

type ReadGroup = fn(&Group) -> Option<f64>;

const NANOS: f64 = 1e9;

/// Name, type, help, and how it is read.
const GROUPS: [(&str, &str, &str, ReadGroup); 23] = [
    ("container_cpu_cfs_periods_total", "counter", "Number of elapsed enforcement period intervals.", |of| {
        of.quota_micros.and(of.periods).map(|periods| periods as f64)
    }),
    ("container_cpu_cfs_throttled_periods_total", "counter", "Number of throttled period intervals.", |of| {
        of.quota_micros.and(of.throttled_periods).map(|periods| periods as f64)
    }),
    (
        "container_cpu_cfs_throttled_seconds_total",
        "counter",
        "Total time duration the container has been throttled.",
        |of| of.quota_micros.and(of.throttled_nanos).map(|nanos| nanos as f64 / NANOS),
    ),
    (
        "container_cpu_system_seconds_total",
        "counter",
        "Cumulative system cpu time consumed in seconds.",
        |of| of.system_nanos.map(|nanos| nanos as f64 / NANOS),
    ),
    ("container_cpu_user_seconds_total", "counter", "Cumulative user cpu time consumed in seconds.", |of| {
        of.user_nanos.map(|nanos| nanos as f64 / NANOS)
    }),
    ("container_memory_cache", "gauge", "Number of bytes of page cache memory.", |of| bytes(of.cache_bytes)),
    ("container_memory_failcnt", "counter", "Number of memory usage hits limits", |of| bytes(of.failures)),
    ("container_memory_mapped_file", "gauge", "Size of memory mapped files in bytes.", |of| {
        bytes(of.mapped_file_bytes)
    }),
    ("container_memory_max_usage_bytes", "gauge", "Maximum memory usage recorded in bytes", |of| {
        bytes(of.max_usage_bytes)
    }),
    ("container_memory_swap", "gauge", "Container swap usage in bytes.", |of| bytes(of.swap_bytes)),
    (
        "container_pressure_cpu_stalled_seconds_total",
        "counter",
        "Total time duration no tasks in the container could make progress due to CPU congestion.",
        |of| of.cpu_pressure.map(|of| of.full.total_micros as f64 / 1e6),
    ),
    (
        "container_pressure_cpu_waiting_seconds_total",
        "counter",
        "Total time duration tasks in the container have waited due to CPU congestion.",
        |of| of.cpu_pressure.map(|of| of.some.total_micros as f64 / 1e6),
    ),
    (
        "container_pressure_io_stalled_seconds_total",
        "counter",
        "Total time duration no tasks in the container could make progress due to IO congestion.",
        |of| of.io_pressure.map(|of| of.full.total_micros as f64 / 1e6),
    ),
    (
        "container_pressure_io_waiting_seconds_total",
        "counter",
        "Total time duration tasks in the container have waited due to IO congestion.",
        |of| of.io_pressure.map(|of| of.some.total_micros as f64 / 1e6),
    ),
    (
        "container_pressure_memory_stalled_seconds_total",
        "counter",
        "Total time duration no tasks in the container could make progress due to memory congestion.",
        |of| of.memory_pressure.map(|of| of.full.total_micros as f64 / 1e6),
    ),
    (
        "container_pressure_memory_waiting_seconds_total",
        "counter",
        "Total time duration tasks in the container have waited due to memory congestion.",
        |of| of.memory_pressure.map(|of| of.some.total_micros as f64 / 1e6),
    ),
    (
        "container_oom_events_total",
        "counter",
        "Count of out of memory events observed for the container",
        |of| bytes(of.oom_kills),
    ),
    ("container_spec_cpu_period", "gauge", "CPU period of the container.", |of| bytes(of.period_micros)),
    ("container_spec_cpu_quota", "gauge", "CPU quota of the container.", |of| bytes(of.quota_micros)),
    ("container_spec_cpu_shares", "gauge", "CPU share of the container.", |of| bytes(of.shares)),
    ("container_spec_memory_limit_bytes", "gauge", "Memory limit for the container.", |of| {
        bytes(of.memory_limit_bytes)
    }),
    (
        "container_spec_memory_reservation_limit_bytes",
        "gauge",
        "Memory reservation limit for the container.",
        |of| bytes(of.reservation_bytes),
    ),
    ("container_spec_memory_swap_limit_bytes", "gauge", "Memory swap limit for the container.", |of| {
        // Where it is limited with its memory, nothing is left for it.
        bytes(of.swap_limit_bytes).or(of.memory_limit_bytes.map(|_| 0.0))
    }),
];

fn bytes(of: Option<u64>) -> Option<f64> {
    of.map(|of| of as f64)
}

/// `None`: the runtime could not be asked.
pub fn to_text(machine: &Machine, summary: Option<&Summary>, groups: &Groups, now_seconds: u64) -> String {
    let mut out = String::new();
    let pods = summary.map(|summary| &*summary.pods).unwrap_or_default();
    let all = || {
        pods.iter().flat_map(|pod| {
            let of = move |container: Option<&'_ ContainerStats>| {
                container.map_or(pod.uid.as_str(), |of| of.id.as_str()).to_owned()
            };
            let containers = pod.containers.iter().map(Some);
            std::iter::once(None).chain(containers).map(move |container| Of {
                pod,
                container,
                group: groups.get(&of(container)),
            })
        })
    };
    let samples =
        |out: &mut String, name: &str, kind: &str, help: &str, read: &dyn Fn(&Of<'_>) -> Option<f64>| {
            let samples: Vec<_> = all().filter_map(|of| Some((of.labels(""), read(&of)?))).collect();
            if !samples.is_empty() {
                header(out, name, kind, help);
            }
            for (labels, value) in samples {
                write_sample(out, name, &labels, value, 0);
            }
        };
    for (name, kind, help, read) in GROUPS {
        samples(&mut out, name, kind, help, &|of| of.group.and_then(read));
    }
    let (name, help) = ("container_last_seen", "Last time a container was seen by the exporter");
    samples(&mut out, name, "gauge", help, &|_| Some(now_seconds as f64));
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
        let pods = pods.iter().filter_map(|pod| Some((pod, pod.network.as_ref()?)));
        let samples: Vec<_> = pods
            .flat_map(|(pod, network)| {
                let interfaces = network.default_interface.iter().chain(&network.interfaces);
                interfaces.filter_map(move |of| {
                    let whole = Of { pod, container: None, group: groups.get(&pod.uid) };
                    let labels =
                        whole.labels("").replacen(",name=", &format!(",interface={:?},name=", of.name), 1);
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
    single(
        &mut out,
        "container_scrape_error",
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
        u8::from(summary.is_none()),
    );
    single(&mut out, "machine_cpu_cores", "gauge", "Number of logical CPU cores.", machine.cores);
    single(
        &mut out,
        "machine_memory_bytes",
        "gauge",
        "Amount of memory installed on the machine.",
        machine.memory_bytes,
    );
    single(
        &mut out,
        "machine_scrape_error",
        "gauge",
        "1 if there was an error while getting machine metrics, 0 otherwise.",
        0,
    );
    single(
        &mut out,
        "machine_swap_bytes",
        "gauge",
        "Amount of swap memory available on the machine.",
        machine.swap_bytes,
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
