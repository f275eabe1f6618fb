use super::*;
use crate::generate::Resolv;
use crate::generate::groups::pod_resources;
use crate::generate::testing::pod;

/// Trees of version 1, or the one of version 2, in a directory.
fn trees(version: Version) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    match version {
        Version::V2 => std::fs::write(root.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap(),
        Version::V1 => {
            for name in ["cpu", "memory", "pids"] {
                std::fs::create_dir(root.path().join(name)).unwrap();
            }
        }
    }
    root
}

fn config() -> Config {
    Config { cgroup_root: "/agent".to_owned(), ..crate::generate::testing::config() }
}

const BURSTABLE: &str =
    r#"{"containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2","memory":"1Mi"}}}]}"#;

#[test]
fn a_pod_has_its_group_below_its_class() {
    let (config, resolv) = (config(), Resolv::default());
    let node =
        NodeView { cpu_capacity_milli: 4000, memory_capacity: 1 << 30, ..NodeView::new(&config, &resolv) };
    let pod = pod(BURSTABLE);

    let root = trees(Version::V1);
    let groups = PodCgroups::at(root.path(), &config);
    let read = |file: &str| std::fs::read_to_string(root.path().join(file)).unwrap();
    groups.set_up(&node, []).unwrap();
    assert_eq!(read("cpu/agent/kubepods/cpu.shares"), "4096");
    assert_eq!(read("memory/agent/kubepods/memory.limit_in_bytes"), "1073741824");
    assert_eq!(read("cpu/agent/kubepods/besteffort/cpu.shares"), "2");
    assert_eq!(groups.create_pod(&pod, &node).unwrap(), Path::new("/agent/kubepods/burstable/pod1234"));
    assert_eq!(read("cpu/agent/kubepods/burstable/pod1234/cpu.shares"), "1024");
    assert_eq!(read("cpu/agent/kubepods/burstable/pod1234/cpu.cfs_quota_us"), "200000");
    assert_eq!(read("memory/agent/kubepods/burstable/pod1234/memory.limit_in_bytes"), "1048576");
    assert_eq!(groups.pods().into_keys().collect::<Vec<_>>(), ["1234"]);
    assert_eq!(read("cpu/agent/kubepods/burstable/cpu.shares"), "2");
    groups.update_classes(&node, [&pod]).unwrap();
    assert_eq!(read("cpu/agent/kubepods/burstable/cpu.shares"), "1024");

    let root = trees(Version::V2);
    let groups = PodCgroups::at(root.path(), &config);
    let read = |file: &str| std::fs::read_to_string(root.path().join(file)).unwrap();
    // The groups above are made along with the pod's.
    groups.create_pod(&pod, &node).unwrap();
    assert_eq!(read("agent/kubepods/memory.max"), "1073741824");
    assert_eq!(read("agent/kubepods/burstable/pod1234/cpu.max"), "200000 100000");
    assert_eq!(read("agent/kubepods/burstable/pod1234/memory.max"), "1048576");
    // Not the weights that runc gives containers.
    assert_eq!(read("agent/kubepods/cpu.weight"), "157");
    assert_eq!(read("agent/kubepods/burstable/pod1234/cpu.weight"), "39");
    groups.set_up(&node, []).unwrap();
    let weights =
        || ["burstable", "besteffort"].map(|class| read(&format!("agent/kubepods/{class}/cpu.weight")));
    assert_eq!(weights(), ["1", "1"]);
    groups.update_classes(&node, [&pod]).unwrap();
    assert_eq!(weights(), ["39", "1"]);
    // What is there is left alone, until it is to be changed.
    let file = root.path().join("agent/kubepods/burstable/pod1234/memory.max");
    std::fs::write(&file, "7").unwrap();
    groups.create_pod(&pod, &node).unwrap();
    assert_eq!(read("agent/kubepods/burstable/pod1234/memory.max"), "7");
    groups.update_pod(&pod, &pod_resources(&pod, &node)).unwrap();
    assert_eq!(read("agent/kubepods/burstable/pod1234/memory.max"), "1048576");
}

#[test]
fn what_a_pod_has_is_read_from_its_group() {
    let (config, pod) = (config(), pod(BURSTABLE));
    let group = "agent/kubepods/burstable/pod1234";
    let v1 = ["memory.usage_in_bytes", "memory.limit_in_bytes", "cpu.cfs_quota_us", "cpu.shares"];
    let v2 = ["memory.current", "memory.max", "cpu.max", "cpu.weight"];
    let trees_v1 = ["memory/", "memory/", "cpu/", "cpu/"];
    let no_limit = "9223372036854771712";
    for (version, trees_of, files, limited, unlimited, share) in [
        (Version::V1, trees_v1, v1, ["8192", "20000", "512"], [no_limit, "-1", "512"], CpuShare::Shares(512)),
        (
            Version::V2,
            [""; 4],
            v2,
            ["8192", "20000 50000", "20"],
            ["max", "max 50000", "20"],
            CpuShare::Weight(20),
        ),
    ] {
        let root = trees(version);
        let groups = PodCgroups::at(root.path(), &config);
        assert_eq!(groups.read_pod(&pod), None);
        let write = |tree: &str, file: &str, text: &str| {
            let folder = root.path().join(tree).join(group);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), format!("{text}\n")).unwrap();
        };
        write(trees_of[0], files[0], "4096");
        if version == Version::V1 {
            write("cpu/", "cpu.cfs_period_us", "50000");
        }
        let none = PodGroup {
            memory_usage: 4096,
            memory_limit: None,
            cpu_quota: None,
            cpu_period: Some(50_000),
            cpu_share: Some(share),
        };
        let both = PodGroup { memory_limit: Some(8192), cpu_quota: Some(20_000), ..none };
        for (texts, expected) in [(limited, both), (unlimited, none)] {
            for (at, text) in texts.iter().enumerate() {
                write(trees_of[at + 1], files[at + 1], text);
            }
            assert_eq!(groups.read_pod(&pod), Some(expected));
        }
    }
}

#[test]
fn a_group_is_changed_by_what_it_does_not_have() {
    for (share, read) in [(CpuShare::Shares(1024), 1024), (CpuShare::Weight(39), 998)] {
        let mut group = PodGroup {
            memory_usage: 0,
            memory_limit: Some(4096),
            cpu_quota: None,
            cpu_period: Some(100_000),
            cpu_share: Some(share),
        };
        assert_eq!(group.cpu_shares(), Some(read));
        let same = GroupResources {
            cpu_shares: Some(1024),
            cpu_quota: Some(-1),
            memory: Some(4096),
            ..GroupResources::default()
        };
        assert!(!group.is_changed_by(&GroupResources::default()) && !group.is_changed_by(&same));
        for change in [
            GroupResources { cpu_shares: Some(512), ..same.clone() },
            GroupResources { cpu_quota: Some(5000), ..same.clone() },
            GroupResources { memory: Some(-1), ..same.clone() },
        ] {
            assert!(group.is_changed_by(&change), "{change:?}");
            group.set(&change);
            assert!(!group.is_changed_by(&change), "{change:?}");
            group.set(&same);
        }
        assert!(!group.is_changed_by(&same));
    }
}

/// On the machine itself: a process in a pod's group ends with it.
#[test]
fn removing_a_pod_ends_what_runs_in_it() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let name = format!("/setpoint-test-groups-{}", std::process::id());
    let config = Config { cgroup_root: name.clone(), ..config() };
    let resolv = Resolv::default();
    let node = NodeView {
        cpu_capacity_milli: 1000,
        memory_capacity: 1 << 30,
        pid_capacity: 10_000,
        ..NodeView::new(&config, &resolv)
    };
    let groups = PodCgroups::new(&config);
    groups.set_up(&node, []).unwrap();
    let path = groups.create_pod(&pod(BURSTABLE), &node).unwrap();
    let below = Cgroup::at_host(&path.join("container"));
    below.create().unwrap();
    let mut child = std::process::Command::new("/bin/sleep").arg("600").spawn().unwrap();
    below.add(i32::try_from(child.id()).unwrap()).unwrap();
    groups.update_pod(&pod(BURSTABLE), &pod_resources(&pod(BURSTABLE), &node)).unwrap();
    groups.update_classes(&node, [&pod(BURSTABLE)]).unwrap();
    // Busy until the process is gone, which the kernel does after the signal.
    let first = groups.remove_pod(&path);
    child.wait().unwrap();
    groups.remove_pod(&path).unwrap();
    assert!(groups.pods().is_empty(), "{first:?}");
    groups.remove_all().unwrap();
    Cgroup::at_host(Path::new(&name)).remove().unwrap();
}

#[test]
fn what_comes_of_it_is_told_of_the_node() {
    let config = config();
    let told = |outcome: io::Result<()>| {
        let event = enforcement_event(&config, &outcome);
        (event.severity, event.reason, event.message)
    };
    let done = "Updated Node Allocatable limit across pods".to_owned();
    assert_eq!(told(Ok(())), (Severity::Normal, "NodeAllocatableEnforced", done));
    let failed = "Failed to update Node Allocatable Limits [\"agent\" \"kubepods\"]: busy".to_owned();
    let expected = (Severity::Warning, "FailedNodeAllocatableEnforcement", failed);
    assert_eq!(told(Err(io::Error::other("busy"))), expected);
}

#[test]
fn page_sizes_are_read_from_the_machine() {
    let root = tempfile::tempdir().unwrap();
    for name in ["hugepages-1048576kB", "hugepages-2048kB", "other"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    assert_eq!(hugepage_sizes_at(root.path()), ["2MB", "1GB"]);
    assert_eq!(hugepage_sizes_at(&root.path().join("missing")), [] as [&str; 0]);
}

#[test]
fn whether_swap_is_counted_is_told_by_the_groups_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let file = |path: &str, text: &str| {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    };
    assert!(!counts_swap(root, false) && !counts_swap(root, true));
    file("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "");
    assert!(counts_swap(root, false) && !counts_swap(root, true));
    // Without systemd: in the root group, which has no such file.
    file("proc/self/cgroup", "0::/\n");
    file("sys/fs/cgroup/kubepods/memory.max", "max\n");
    assert!(!counts_swap(root, true));
    file("sys/fs/cgroup/kubepods/memory.swap.max", "max\n");
    assert!(counts_swap(root, true));
    file("proc/self/cgroup", "0::/system.slice/setpoint.service\n");
    file("sys/fs/cgroup/system.slice/setpoint.service/memory.swap.max", "max\n");
    assert!(counts_swap(root, true));
}
