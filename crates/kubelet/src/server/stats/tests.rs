use cri::{
    Container, ContainerAttributes, ContainerMetadata, CpuUsage, LinuxPodSandboxStats, MemoryUsage,
    PodSandbox, PodSandboxAttributes, PodSandboxMetadata, PodSandboxStats, ProcessUsage, SwapUsage,
    UInt64Value,
};

use super::*;

const TIME: i64 = 1_767_225_600_000_000_000;

fn some(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

fn sandbox(id: &str, name: &str) -> PodSandbox {
    let metadata = PodSandboxMetadata {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        namespace: "ns".to_owned(),
        attempt: 0,
    };
    PodSandbox { id: id.to_owned(), metadata: Some(metadata), created_at: TIME, ..PodSandbox::default() }
}

fn container(id: &str, sandbox: &str) -> Container {
    Container {
        id: id.to_owned(),
        pod_sandbox_id: sandbox.to_owned(),
        metadata: Some(ContainerMetadata { name: format!("name-{id}"), attempt: 0 }),
        created_at: TIME,
        ..Container::default()
    }
}

fn stats(id: &str, cpu: u64, memory: u64) -> cri::ContainerStats {
    cri::ContainerStats {
        attributes: Some(ContainerAttributes { id: id.to_owned(), ..ContainerAttributes::default() }),
        cpu: Some(CpuUsage { timestamp: TIME, usage_core_nano_seconds: some(cpu), ..CpuUsage::default() }),
        memory: Some(MemoryUsage {
            timestamp: TIME,
            working_set_bytes: some(memory),
            ..MemoryUsage::default()
        }),
        swap: Some(SwapUsage { timestamp: TIME, swap_available_bytes: some(5), swap_usage_bytes: some(1) }),
        ..cri::ContainerStats::default()
    }
}

#[test]
fn stats_of_containers_add_up_to_their_pods() {
    let sandboxes = [sandbox("s2", "b"), sandbox("s1", "a")];
    let containers =
        [container("c1", "s1"), container("c2", "s1"), container("c3", "s2"), container("c4", "gone")];
    let stats = ["c2", "c1", "c3", "c4", "c5"].map(|id| stats(id, 10, 100)).to_vec();
    let pods = pods(&sandboxes, &containers, Usage::Containers(stats));
    let names: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.containers.len())).collect();
    assert_eq!(names, [("a", 2), ("b", 1)]);
    assert_eq!(pods[0].cpu.as_ref().unwrap().usage_core_nano_seconds, some(20));
    assert_eq!(pods[0].cpu.as_ref().unwrap().usage_nano_cores, None, "nobody told");
    assert_eq!(pods[0].memory.as_ref().unwrap().working_set_bytes, some(200));
    assert_eq!(pods[0].swap.as_ref().unwrap().swap_usage_bytes, some(2));
}

#[test]
fn what_is_told_of_a_pod_counts() {
    let linux = LinuxPodSandboxStats {
        cpu: Some(CpuUsage { timestamp: TIME, usage_core_nano_seconds: some(77), ..CpuUsage::default() }),
        process: Some(ProcessUsage { timestamp: TIME, process_count: some(3) }),
        containers: vec![stats("c1", 10, 100)],
        ..LinuxPodSandboxStats::default()
    };
    let attributes = Some(PodSandboxAttributes { id: "s1".to_owned(), ..PodSandboxAttributes::default() });
    let told = PodSandboxStats { attributes, linux: Some(linux) };
    let unknown = PodSandboxStats::default();
    let pods = pods(&[sandbox("s1", "a")], &[container("c1", "s1")], Usage::Pods(vec![told, unknown]));
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].cpu.as_ref().unwrap().usage_core_nano_seconds, some(77));
    assert_eq!(pods[0].memory.as_ref().unwrap().working_set_bytes, some(100), "the sum, as it is not told");
    assert_eq!(pods[0].process_count, Some(3));
}

#[test]
fn a_summary_is_upstreams_json() {
    let usage = Usage::Containers(vec![stats("c1", 10, 100)]);
    let pods = pods(&[sandbox("s1", "a")], &[container("c1", "s1")], usage);
    let node = NodeStats { name: "n".to_owned(), started_at: TIME, ..NodeStats::default() };
    let text = codec::json::to_vec(&to_value(&Summary { node, pods }));
    let usage = r#""cpu":{"time":"2026-01-01T00:00:00Z","usageCoreNanoSeconds":10},"memory":{"time":"2026-01-01T00:00:00Z","workingSetBytes":100}"#;
    let swap = r#""swap":{"time":"2026-01-01T00:00:00Z","swapAvailableBytes":5,"swapUsageBytes":1}"#;
    let expected = format!(
        r#"{{"node":{{"nodeName":"n","startTime":"2026-01-01T00:00:00Z"}},"pods":[{{"podRef":{{"name":"a","namespace":"ns","uid":"uid-a"}},"startTime":"2026-01-01T00:00:00Z","containers":[{{"name":"name-c1","startTime":"2026-01-01T00:00:00Z",{usage},{swap}}}],{usage},{swap}}}]}}"#
    );
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn a_failure_is_a_metric() {
    let text = resource_metrics_text(None);
    assert!(text.ends_with("# TYPE resource_scrape_error gauge\nresource_scrape_error 1\n"), "{text}");
    assert!(!text.contains("node_cpu"));
    for (summary, failed) in [(Some(&Summary::default()), 0), (None, 1)] {
        let text = containers::to_text(&Machine::default(), summary, &Groups::default(), 0);
        let line = format!("container_scrape_error {failed}");
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
