//! What is used, over HTTP.

use cri::{ContainerAttributes, ContainerStats, CpuUsage, MemoryUsage, UInt64Value};
use http::StatusCode;

use super::fixture::{Fixture, parse};
use crate::server::stats::{FsStats, VolumeStats};

fn usage() -> ContainerStats {
    let some = |value| Some(UInt64Value { value });
    let timestamp = 1_700_000_100_000_000_000;
    ContainerStats {
        attributes: Some(ContainerAttributes { id: "c1".to_owned(), ..ContainerAttributes::default() }),
        cpu: Some(CpuUsage {
            timestamp,
            usage_core_nano_seconds: some(2_500_000_000),
            ..CpuUsage::default()
        }),
        memory: Some(MemoryUsage { timestamp, working_set_bytes: some(1 << 20), ..MemoryUsage::default() }),
        ..ContainerStats::default()
    }
}

#[tokio::test]
async fn resource_metrics_are_told_of_containers_pods_and_the_node() {
    let fixture = Fixture::start().await;
    *fixture.host.container_stats.lock() = vec![usage()];
    let (status, metrics) = fixture.get("/metrics/resource").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "container_cpu_usage_seconds_total{container=\"app\",namespace=\"default\",pod=\"web\"} 2.5 1700000100000",
        "container_memory_working_set_bytes{container=\"app\",namespace=\"default\",pod=\"web\"} 1048576 1700000100000",
        "container_start_time_seconds{container=\"app\",namespace=\"default\",pod=\"web\"} 1700000000",
        "pod_cpu_usage_seconds_total{namespace=\"default\",pod=\"web\"} 2.5 1700000100000",
        "resource_scrape_error 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert!(metrics.contains("\nnode_memory_working_set_bytes "), "{metrics}");
    let (_, cadvisor) = fixture.get("/metrics/cadvisor").await;
    let line = "container_memory_working_set_bytes{container=\"app\",id=\"c1\",image=\"busybox\",name=\"c1\",namespace=\"default\",pod=\"web\"} 1048576 1700000100000";
    assert!(cadvisor.lines().any(|found| found == line), "{cadvisor}");
}

#[tokio::test]
async fn statusz_tells_what_the_node_is() {
    let fixture = Fixture::start().await;
    let (status, text) = fixture.get("/statusz").await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        text.contains("\nkubelet statusz\nWarning: ") && text.contains("\nBinary version: 1.36.4\n"),
        "{text}"
    );
}

#[tokio::test]
async fn the_summary_has_logs_and_file_systems() {
    let fixture = Fixture::start().await;
    *fixture.host.container_stats.lock() = vec![usage()];
    let logs = fixture.directory.path().join("logs/default_web_u1/app");
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(logs.join("0.log"), vec![b'x'; 100_000]).unwrap();
    let (status, text) = fixture.get("/stats/summary").await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let summary = parse(&text);
    assert_eq!(summary.str_at(&["node", "nodeName"]), Some("n1"));
    let int = |path: &[&str]| summary.at(path).and_then(|value| value.as_int()).unwrap_or(0);
    assert!(int(&["node", "fs", "capacityBytes"]) > 0 && int(&["node", "memory", "workingSetBytes"]) > 0);
    assert_eq!(int(&["node", "runtime", "imageFs", "usedBytes"]), 4096);
    let pod = &summary.get("pods").unwrap().as_list().unwrap()[0];
    assert_eq!(pod.str_at(&["podRef", "uid"]), Some("u1"));
    let container = &pod.get("containers").unwrap().as_list().unwrap()[0];
    let logs = container.at(&["logs", "usedBytes"]).and_then(|used| used.as_int()).unwrap();
    assert!(logs >= 100_000, "{logs}");
    let ephemeral = pod.at(&["ephemeral-storage", "usedBytes"]).and_then(|used| used.as_int());
    assert_eq!(ephemeral, Some(logs));
    let (_, light) = fixture.get("/stats/summary?only_cpu_and_memory=true").await;
    assert!(!light.contains("ephemeral-storage") && light.contains("workingSetBytes"), "{light}");
}

#[tokio::test]
async fn volumes_of_pods_are_told_and_those_of_claims_counted() {
    let fixture = Fixture::start().await;
    *fixture.host.container_stats.lock() = vec![usage()];
    let volume = |name: &str, used: u64, is_ephemeral: bool, claim: Option<&str>| VolumeStats {
        name: name.to_owned(),
        fs: FsStats {
            timestamp: 1_700_000_100_000_000_000,
            available_bytes: Some(900),
            capacity_bytes: Some(1000),
            used_bytes: Some(used),
            inodes_free: Some(7),
            inodes: Some(9),
            inodes_used: Some(2),
        },
        claim: claim.map(|claim| ("default".to_owned(), claim.to_owned())),
        is_ephemeral,
    };
    *fixture.node.volumes.lock() = vec![volume("tmp", 100, true, None), volume("data", 50, false, Some("c"))];
    let (_, text) = fixture.get("/stats/summary").await;
    let summary = parse(&text);
    let pod = &summary.get("pods").unwrap().as_list().unwrap()[0];
    let told = String::from_utf8(codec::json::to_vec(pod.get("volume").unwrap())).unwrap();
    let head = r#""time":"2023-11-14T22:15:00Z","availableBytes":900,"capacityBytes":1000,"#;
    let inodes = r#""inodesFree":7,"inodes":9,"inodesUsed":2"#;
    assert_eq!(
        told,
        format!(
            r#"[{{{head}"usedBytes":100,{inodes},"name":"tmp"}},{{{head}"usedBytes":50,{inodes},"name":"data","pvcRef":{{"name":"c","namespace":"default"}}}}]"#
        )
    );
    // What is on the node's own disk, and no other.
    assert_eq!(pod.at(&["ephemeral-storage", "usedBytes"]).and_then(|used| used.as_int()), Some(100));
    let claimed = r#"{"metadata":{"name":"web","namespace":"default","uid":"u1"},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"c"}}]},"status":{"phase":"Running"}}"#;
    *fixture.node.pods.lock() = vec![std::sync::Arc::new(parse(claimed))];
    let (_, metrics) = fixture.get("/metrics").await;
    for (name, value) in [("capacity_bytes", 1000), ("used_bytes", 50), ("inodes_free", 7)] {
        let line = format!(
            "kubelet_volume_stats_{name}{{namespace=\"default\",persistentvolumeclaim=\"c\"}} {value}"
        );
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("\"tmp\""));
}

#[tokio::test]
async fn requests_are_counted() {
    let fixture = Fixture::start().await;
    fixture.get("/pods").await;
    let (_, metrics) = fixture.get("/metrics").await;
    let line = "kubelet_http_requests_total{long_running=\"false\",method=\"GET\",path=\"pods\",server_type=\"readwrite\"} 1";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    assert!(metrics.contains("kubelet_running_pods 1\n"), "{metrics}");
}
