//! Against trees of their own: a machine has one version, the tests both.

use std::path::Path;

use super::limits::weight_of_shares;
use super::*;
use crate::config::Resources;

/// A machine with version 2 in a directory: there is none here to ask.
fn unified() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
    std::fs::write(root.path().join("cgroup.subtree_control"), "").unwrap();
    root
}

#[test]
fn version_2_has_one_directory() {
    let root = unified();
    let group = Cgroup::at(root.path(), Path::new("/kubepods/pod1"));
    group.create().unwrap();
    group
        .set(&Resources {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            memory: Some(1 << 20),
            pids: Some(-1),
            ..Resources::default()
        })
        .unwrap();
    group.add(42).unwrap();
    let read = |file: &str| std::fs::read_to_string(root.path().join("kubepods/pod1").join(file)).unwrap();
    assert_eq!(read("cpu.weight"), "100");
    assert_eq!(read("cpu.max"), "50000 100000");
    assert_eq!(read("memory.max"), "1048576");
    assert_eq!(group.memory_limit(), Some(1 << 20));
    assert_eq!(read("pids.max"), "max");
    assert_eq!(group.processes(), [42]);
    std::fs::write(root.path().join("kubepods/pod1/memory.events"), "oom 3\noom_kill 2\n").unwrap();
    assert_eq!(group.oom_kills(), 2);
    let handed = std::fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
    assert!(handed.starts_with('+'), "{handed}");
}

#[test]
fn version_1_has_a_directory_for_each_controller() {
    let root = tempfile::tempdir().unwrap();
    for name in ["cpu", "memory", "pids"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    let group = Cgroup::at(root.path(), Path::new("kubepods/pod1"));
    group.create().unwrap();
    group.set(&Resources { cpu_shares: Some(2), memory: Some(4096), ..Resources::default() }).unwrap();
    let read = |file: &str| std::fs::read_to_string(root.path().join(file)).unwrap();
    assert_eq!(read("cpu/kubepods/pod1/cpu.shares"), "2");
    assert_eq!(read("memory/kubepods/pod1/memory.limit_in_bytes"), "4096");
    assert_eq!(group.memory_limit(), Some(4096));
    std::fs::write(root.path().join("memory/kubepods/pod1/memory.limit_in_bytes"), "9223372036854771712\n")
        .unwrap();
    assert_eq!(group.memory_limit(), None);
}

#[test]
fn shares_become_weights() {
    assert_eq!(
        [1, 2, 3, 102, 512, 1024, 2048, 262_143, 262_144].map(weight_of_shares),
        [1, 1, 2, 17, 59, 100, 174, 10_000, 10_000]
    );
    let root = unified();
    let group = Cgroup::at(root.path(), Path::new("pod1"));
    group.create().unwrap();
    group.set(&Resources { cpu_shares: Some(1024), cpu_weight: Some(39), ..Resources::default() }).unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join("pod1/cpu.weight")).unwrap(), "39");
}

#[test]
fn huge_pages_are_limited_when_they_are_reserved() {
    let root = unified();
    let group = Cgroup::at(root.path(), Path::new("pod1"));
    group.create().unwrap();
    let limit = |bytes| Resources { hugepages: vec![("2MB".to_owned(), bytes)], ..Resources::default() };
    let read = |file: &str| std::fs::read_to_string(root.path().join("pod1").join(file)).ok();
    group.set(&limit(1)).unwrap();
    assert_eq!((read("hugetlb.2MB.max").as_deref(), read("hugetlb.2MB.rsvd.max")), (Some("1"), None));
    std::fs::write(root.path().join("pod1/hugetlb.2MB.rsvd.max"), "max").unwrap();
    group.set(&limit(2)).unwrap();
    assert_eq!(read("hugetlb.2MB.rsvd.max").as_deref(), Some("2"));
}

#[test]
fn memory_is_limited_with_its_swap() {
    let root = unified();
    let group = Cgroup::at(root.path(), Path::new("pod1"));
    group.create().unwrap();
    for file in ["memory.swap.max", "memory.oom.group"] {
        std::fs::write(root.path().join("pod1").join(file), "").unwrap();
    }
    let read = |file: &str| std::fs::read_to_string(root.path().join("pod1").join(file)).unwrap();
    let memory =
        |memory, memory_and_swap| Resources { memory: Some(memory), memory_and_swap, ..Resources::default() };
    group.set(&memory(4096, None)).unwrap();
    assert_eq!((&*read("memory.max"), &*read("memory.swap.max")), ("4096", "0"));
    group.set(&memory(4096, Some(12288))).unwrap();
    assert_eq!(read("memory.swap.max"), "8192");
    group.set(&memory(4096, Some(-1))).unwrap();
    assert_eq!(read("memory.swap.max"), "max");
    group.end_together().unwrap();
    assert_eq!(read("memory.oom.group"), "1");
    let file =
        |name: &str| Resources { unified: vec![(name.to_owned(), "7".to_owned())], ..Resources::default() };
    group.set(&file("memory.high")).unwrap();
    assert_eq!(read("memory.high"), "7");
    assert!(group.set(&file("../memory.high")).is_err());
}

#[test]
fn groups_below_are_found_and_removed_first() {
    let root = unified();
    let group = Cgroup::at(root.path(), Path::new("pod1"));
    let deep = Cgroup::at(root.path(), Path::new("pod1/a/b"));
    deep.create().unwrap();
    deep.add(42).unwrap();
    assert_eq!(group.all_processes().into_iter().collect::<Vec<_>>(), [42]);
    assert!(group.remove().is_err());
    // Files of the kernel's do not hold a group.
    std::fs::remove_file(root.path().join("pod1/a/b/cgroup.procs")).unwrap();
    group.remove().unwrap();
    assert!(!root.path().join("pod1").exists());
}

#[test]
fn what_another_runtime_made_in_other_trees_goes_as_well() {
    let root = tempfile::tempdir().unwrap();
    for tree in ["memory", "blkio", "systemd"] {
        std::fs::create_dir_all(root.path().join(tree).join("pod1/a")).unwrap();
        std::fs::create_dir_all(root.path().join(tree).join("pod2")).unwrap();
    }
    Cgroup::at(root.path(), Path::new("/pod1")).remove().unwrap();
    for tree in ["memory", "blkio", "systemd"] {
        assert!(
            !root.path().join(tree).join("pod1").exists() && root.path().join(tree).join("pod2").exists()
        );
    }
}

#[test]
fn pressure_and_swap_are_read() {
    let root = unified();
    let group = Cgroup::at(root.path(), Path::new("/pod1"));
    group.create().unwrap();
    let write = |file: &str, text: &str| std::fs::write(root.path().join("pod1").join(file), text).unwrap();
    assert_eq!((group.pressure("cpu"), group.swap()), (None, None));
    write("cpu.pressure", "some avg10=1.50 avg60=0.25 avg300=0.00 total=1234\n");
    write(
        "io.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=3.00 avg60=2.00 avg300=1.00 total=4\n",
    );
    let cpu = group.pressure("cpu").unwrap();
    assert_eq!((cpu.some.avg10, cpu.some.avg60, cpu.some.total_micros), (1.5, 0.25, 1234));
    assert_eq!(cpu.full, Stall::default());
    assert_eq!(group.pressure("io").unwrap().full.avg300, 1.0);
    write("memory.swap.current", "4096\n");
    write("memory.swap.max", "max\n");
    assert_eq!(group.swap(), Some((4096, None)));
    write("memory.swap.max", "8192\n");
    assert_eq!(group.swap(), Some((4096, Some(8192))));
    let root = tempfile::tempdir().unwrap();
    let memory = root.path().join("memory/pod1");
    std::fs::create_dir_all(&memory).unwrap();
    let group = Cgroup::at(root.path(), Path::new("pod1"));
    std::fs::write(memory.join("memory.stat"), "total_swap 12\n").unwrap();
    std::fs::write(memory.join("memory.memsw.limit_in_bytes"), "9223372036854771712\n").unwrap();
    assert_eq!((group.swap(), group.pressure("cpu")), (Some((12, None)), None));
    std::fs::write(memory.join("memory.memsw.limit_in_bytes"), "300\n").unwrap();
    std::fs::write(memory.join("memory.limit_in_bytes"), "200\n").unwrap();
    assert_eq!(group.swap(), Some((12, Some(100))));
}
