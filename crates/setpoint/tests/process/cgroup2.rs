//! Pods on a machine with cgroup v2, in the kernel's own files: the numbers are kubelet's and runc's. Needs root and such a machine;
//! `scripts/test-cgroup2` emulates one.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::skipped;
use crate::node_cluster::{Cluster, Runtime};

const MIB: u64 = 1 << 20;
const SLEEP: &str = "image: IMAGE, command: [/bin/busybox, sleep, '100000']";

fn start(number: u8, config: &str) -> Option<Cluster> {
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        skipped("no machine with cgroup v2: see scripts/test-cgroup2");
        return None;
    }
    Cluster::with(number, Runtime::Embedded, config)
}

/// One file of the kernel's after another.
fn files(cluster: &Cluster, pod: &str, container: Option<&str>, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| cluster.cgroup_file("", pod, container, name)).collect()
}

fn of_class(cluster: &Cluster, class: &str, file: &str) -> String {
    let group = Path::new("/sys/fs/cgroup").join(&cluster.bridge).join("kubepods").join(class);
    std::fs::read_to_string(group.join(file)).unwrap().trim().to_owned()
}

#[test]
fn limits_are_in_the_files_of_version_2() {
    let Some(cluster) = start(44, "podPidsLimit: 200") else { return };
    let with = |resources: &str| format!("containers: [{{name: c, {SLEEP}, resources: {resources}}}]");
    cluster.run_pod("guaranteed", &with("{limits: {cpu: 500m, memory: 64Mi}}"));
    cluster.run_pod("burstable", &with("{requests: {cpu: 100m, memory: 32Mi}, limits: {memory: 64Mi}}"));
    cluster.run_pod("besteffort", &with("{}"));
    let both = format!(
        "containers: [{{name: c, {SLEEP}}}, {{name: d, {SLEEP}, resources: {{limits: {{memory: 32Mi}}}}}}]"
    );
    cluster.run_pod("whole", &format!("resources: {{requests: {{cpu: 250m, memory: 64Mi}}, limits: {{cpu: '1', memory: 128Mi}}}}, {both}"));
    cluster.wait_for("Running", &["guaranteed", "burstable", "besteffort", "whole"]);

    // A pod's weight is kubelet's, a container's is runc's.
    let limits = [
        "cpu.weight",
        "cpu.max",
        "memory.max",
        "memory.swap.max",
        "pids.max",
        "memory.oom.group",
        "memory.min",
        "memory.low",
        "memory.high",
    ];
    let none = ["0", "0", "max"];
    for (pod, container, wanted) in [
        ("guaranteed", None, ["20", "50000 100000", "67108864", "max", "200", "0"]),
        ("guaranteed", Some("c"), ["59", "50000 100000", "67108864", "0", "max", "1"]),
        ("burstable", None, ["4", "max 100000", "67108864", "max", "200", "0"]),
        ("burstable", Some("c"), ["17", "max 100000", "67108864", "0", "max", "1"]),
        ("besteffort", None, ["1", "max 100000", "max", "max", "200", "0"]),
        ("besteffort", Some("c"), ["1", "max 100000", "max", "max", "max", "1"]),
        ("whole", None, ["10", "100000 100000", "134217728", "max", "200", "0"]),
        ("whole", Some("c"), ["100", "100000 100000", "134217728", "0", "max", "1"]),
        ("whole", Some("d"), ["100", "100000 100000", "33554432", "0", "max", "1"]),
    ] {
        let read = files(&cluster, pod, container, &limits);
        // Whether swap is kept from who has no limit depends on where this process is.
        let wanted: Vec<&str> = wanted.into_iter().chain(none).collect();
        let same =
            |at: usize| read[at] == wanted[at] || limits[at] == "memory.swap.max" && wanted[2] == "max";
        assert!((0..limits.len()).all(same), "{pod} {container:?}: {read:?}, not {wanted:?}");
    }
    // 100m and 250m: 102 and 256 shares.
    cluster.wait("the class has the sum of its pods", |cluster| {
        of_class(cluster, "burstable", "cpu.weight") == "14"
    });
    assert_eq!(of_class(&cluster, "besteffort", "cpu.weight"), "1");
    let node: Value = serde_json::from_str(&cluster.kubectl.run("get node one -o json")).unwrap();
    let capacity =
        node["status"]["capacity"]["memory"].as_str().unwrap().trim_end_matches("Ki").parse::<u64>();
    assert_eq!(of_class(&cluster, "", "memory.max"), (capacity.unwrap() * 1024).to_string());
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let told: Vec<String> =
        conditions.iter().map(|c| format!("{}={}", c["type"], c["status"]).replace('"', "")).collect();
    assert_eq!(told, ["MemoryPressure=False", "DiskPressure=False", "PIDPressure=False", "Ready=True"]);
    let log = cluster.server.as_ref().unwrap().log();
    assert!(!log.contains("cgroup v1") && !log.contains("WARN"), "{log}");

    // Pages of a size that the machine has.
    if Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists() {
        for container in [None, Some("c")] {
            let pages =
                files(&cluster, "besteffort", container, &["hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"]);
            assert_eq!(pages, ["0", "0"]);
        }
        // The kernel rounds what is meant to be no limit.
        assert!(
            of_class(&cluster, "burstable", "hugetlb.2MB.max")
                .parse::<u64>()
                .is_ok_and(|most| most >= 1 << 61)
        );
    }
    what_is_told(&cluster);
    cluster.kubectl.run("delete pod --all --wait=true");
}

/// Usage, with what only version 2 knows.
fn what_is_told(cluster: &Cluster) {
    cluster.said("guaranteed", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    let text = cluster.kubectl.run("get --raw /api/v1/nodes/one/proxy/stats/summary");
    let summary: Value = serde_json::from_str(&text).unwrap();
    let pods = summary["pods"].as_array().unwrap();
    let pod = pods.iter().find(|pod| pod["podRef"]["name"] == "guaranteed").unwrap();
    for of in [&summary["node"], pod, &pod["containers"][0]] {
        for resource in ["cpu", "memory", "io"] {
            assert!(of[resource]["psi"]["some"]["total"].is_u64(), "{resource}: {of}");
        }
        assert!(of["cpu"]["usageCoreNanoSeconds"].as_u64() > Some(0), "{of}");
        assert!(of["memory"]["workingSetBytes"].as_u64() > Some(0), "{of}");
    }
    // It had half a processor.
    assert!(pod["containers"][0]["cpu"]["psi"]["some"]["total"].as_u64() > Some(0), "{pod}");
    assert_eq!(pod["containers"][0]["swap"]["swapUsageBytes"], 0);
    assert_eq!(
        pod["containers"][0]["memory"]["availableBytes"].as_u64().map(|bytes| bytes < 64 * MIB),
        Some(true)
    );
    let metrics = cluster.kubectl.run("get --raw /api/v1/nodes/one/proxy/metrics/cadvisor");
    for name in [
        "container_pressure_cpu_waiting_seconds_total",
        "container_cpu_cfs_throttled_periods_total",
        "container_spec_memory_limit_bytes",
    ] {
        assert!(
            metrics.lines().any(|line| line.starts_with(name) && line.contains("pod=\"guaranteed\"")),
            "{name}: {metrics}"
        );
    }
    cluster.wait("usage is shown", |cluster| {
        let top = cluster.kubectl.try_run("top pod guaranteed --no-headers");
        top.status.success() && String::from_utf8_lossy(&top.stdout).contains("Mi")
    });
}

#[test]
fn a_container_out_of_memory_ends_as_a_whole() {
    let Some(mut cluster) = start(45, "") else { return };
    // The first process does not ask for memory; one that it started does.
    let script = "(/bin/busybox tail /dev/zero; echo alone) & sleep 20; echo went on";
    let eats = format!(
        "restartPolicy: Never, containers: [{{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, '{script}'], resources: {{limits: {{memory: 32Mi}}}}}}]"
    );
    cluster.run_pod("eats", &eats);
    cluster.wait_for("Failed", &["eats"]);
    let ended = cluster.container("eats", "c")["state"]["terminated"].clone();
    assert_eq!((&ended["reason"], &ended["exitCode"]), (&"OOMKilled".into(), &137.into()));
    cluster.restart_with("singleProcessOOMKill: true");
    cluster.run_pod("eats-alone", &eats);
    cluster.wait_for("Succeeded", &["eats-alone"]);
    let log = cluster.log("eats-alone", "c");
    assert!(log.contains("alone") && log.contains("went on"), "{log}");
    cluster.kubectl.run("delete pod --all --wait=true");
}

#[test]
fn memory_that_is_used_is_not_taken_away() {
    let Some(cluster) = start(46, "") else { return };
    cluster.run_pod(
        "full",
        &format!("containers: [{{name: c, {SLEEP}, resources: {{limits: {{cpu: 100m, memory: 128Mi}}}}}}]"),
    );
    cluster.wait_for("Running", &["full"]);
    cluster.said("full", "dd if=/dev/zero of=/dev/shm/x bs=1M count=60 2>/dev/null");
    let resize = |memory: &str| {
        let both = json!({"cpu": "100m", "memory": memory});
        let containers = json!([{"name": "c", "resources": {"requests": both, "limits": both}}]);
        let patch = json!({"spec": {"containers": containers}}).to_string();
        cluster.kubectl.words(&["patch", "pod", "full", "--subresource=resize", "-p", &patch])
    };
    resize("32Mi");
    cluster.wait("it is refused", |cluster| {
        cluster.condition("full", "PodResizeInProgress")["reason"] == "Error"
    });
    let told = cluster.condition("full", "PodResizeInProgress")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("cannot decrease memory limits: [attempting to set pod memory limit (33554432) below current usage ("), "{told}");
    assert!(
        told.contains("attempting to set container \"c\" memory limit (33554432) below current usage ("),
        "{told}"
    );
    for container in [None, Some("c")] {
        assert_eq!(files(&cluster, "full", container, &["memory.max"]), ["134217728"]);
    }
    let first = cluster.container("full", "c");
    assert_eq!(
        (&first["restartCount"], &first["state"]["running"]["startedAt"].is_string()),
        (&0.into(), &true)
    );
    // Once there is room it happens by itself.
    cluster.said("full", "rm /dev/shm/x");
    cluster.wait("it is smaller", |cluster| {
        cluster.container("full", "c")["resources"]["limits"]["memory"] == "32Mi"
    });
    for container in [None, Some("c")] {
        assert_eq!(
            files(&cluster, "full", container, &["memory.max", "cpu.max"]),
            ["33554432", "10000 100000"]
        );
    }
    resize("64Mi");
    cluster
        .wait("it is larger", |cluster| files(cluster, "full", Some("c"), &["memory.max"]) == ["67108864"]);
    assert_eq!(cluster.container("full", "c")["containerID"], first["containerID"]);
    cluster.kubectl.run("delete pod --all --wait=true");
}

#[test]
fn a_container_sees_its_own_group_and_few_devices() {
    let Some(cluster) = start(47, "") else { return };
    let disk = std::fs::read_to_string("/sys/block/vda/dev")
        .unwrap_or_else(|_| "254:0".to_owned())
        .trim()
        .replace(':', " ");
    cluster.run_pod("plain", &format!("containers: [{{name: c, {SLEEP}}}]"));
    cluster.run_pod(
        "root",
        &format!("containers: [{{name: c, {SLEEP}, securityContext: {{privileged: true}}}}]"),
    );
    cluster.wait_for("Running", &["plain", "root"]);
    let both = |pod: &str, script: &str| {
        let done = cluster.exec(pod, script);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        format!("{}{}", text(&done.stdout), text(&done.stderr))
    };
    assert_eq!(both("plain", "cat /proc/self/cgroup /sys/fs/cgroup/memory.max"), "0::/\nmax");
    assert!(both("plain", "mkdir /sys/fs/cgroup/x").contains("Read-only file system"));
    let open =
        format!("mknod /dev/disk-of-host b {disk} && dd if=/dev/disk-of-host of=/dev/null bs=512 count=1");
    assert!(both("plain", &open).contains("Operation not permitted"), "{}", both("plain", &open));
    assert!(both("plain", "head -c 4 /dev/zero | wc -c; echo x > /dev/null").contains('4'));

    // Who is privileged sees all.
    let own = both("root", "cat /proc/self/cgroup");
    assert!(own.starts_with(&format!("0::/{}/kubepods/besteffort/pod", cluster.bridge)), "{own}");
    assert!(both("root", "cat /sys/fs/cgroup/cgroup.controllers").contains("memory"));
    if Path::new("/sys/block/vda").exists() {
        assert!(both("root", &open).contains("1+0 records in"), "{}", both("root", &open));
    }
    // It makes groups of its own, as systemd would; it can be entered all the same, and ends with all of them.
    let group = format!("/sys/fs/cgroup{}", own.strip_prefix("0::").unwrap());
    let divide = format!(
        "cd {group} && mkdir init && for p in $(cat cgroup.procs); do echo $p > init/cgroup.procs; done; echo +memory > cgroup.subtree_control"
    );
    cluster.said("root", &divide);
    assert_eq!(both("root", "cat /proc/self/cgroup"), format!("{own}/init"));
    cluster.kubectl.run("delete pod --all --wait=true");
    assert!(!Path::new(&group).exists());
}
