use std::path::Path;

use node::machine::{Machine, Pressure};

use super::*;
use crate::config::Config;

/// A machine of 4 cores and 8 GiB in files.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("sys/devices/system/cpu/online", "0-2,7\n");
    write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\nSwapTotal:       1048576 kB\n");
    write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
    write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
    write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    write("proc/sys/kernel/random/boot_id", "b0075\n");
    write("proc/sys/kernel/osrelease", "6.12.0\n");
    write("usr/lib/os-release", "ID=x\nPRETTY_NAME=\"Some Linux 1\"\n");
    root
}

fn facts() -> Facts {
    Facts { disk_bytes: 100 << 30, ..Facts::read(tree().path(), Path::new("/")) }
}

fn config() -> Config {
    Config::new("n", "/nowhere".into())
}

#[test]
fn facts_are_read_from_the_kernels_files() {
    let facts = facts();
    assert_eq!((facts.cores, facts.memory_bytes, facts.swap_bytes), (4, 8 << 30, 1 << 30));
    assert_eq!(facts.huge_pages, [(2 << 20, 1 << 30), (1 << 30, 0)]);
    assert_eq!(facts.machine_id, "0123456789abcdef0123456789abcdef");
    assert_eq!(facts.system_uuid, facts.machine_id, "without firmware that tells another");
    assert_eq!(
        (&*facts.boot_id, &*facts.kernel_version, &*facts.os_image),
        ("b0075", "6.12.0", "Some Linux 1")
    );
}

#[test]
fn a_machine_that_says_nothing_is_no_failure() {
    let empty = tempfile::tempdir().expect("a folder");
    let facts = Facts::read(empty.path(), empty.path());
    assert_eq!((facts.cores, facts.memory_bytes, &*facts.os_image), (0, 0, "Linux"));
    assert!(facts.disk_bytes > 0, "the file system is asked itself");
}

#[test]
fn this_machine_has_something() {
    let facts = Facts::read(Path::new("/"), Path::new("/var/lib/not/made/yet"));
    assert!(facts.cores > 0 && facts.memory_bytes > 0 && facts.disk_bytes > 0);
    assert!(!facts.boot_id.is_empty() && !facts.kernel_version.is_empty());
}

#[test]
fn what_is_reserved_is_not_for_pods() {
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
    };
    let config = Config {
        system_reserved: pairs(&[("cpu", "250m"), ("memory", "1Gi")]),
        kube_reserved: pairs(&[("cpu", "1"), ("ephemeral-storage", "1Gi")]),
        ..config()
    };
    let whole = capacity(&facts(), &config);
    let left = allocatable(&whole, &config);
    assert_eq!(left.get("cpu"), 4000 - 1250);
    // The threshold of eviction, and huge pages.
    assert_eq!(left.get("memory"), (8 << 30) - (1 << 30) - (100 << 20) - (1 << 30));
    // Ten percent, as kubelet counts it.
    assert_eq!(left.get("ephemeral-storage"), (100 << 30) - (1 << 30) - 10_737_418_400);
    assert_eq!(left.get("pods"), 110);
    assert_eq!(left.get("hugepages-2Mi"), 1 << 30);
    let texts = whole.to_map();
    let text = |name: &str| texts.get(name).and_then(Value::as_str).expect("there").to_owned();
    assert_eq!(
        (text("cpu"), text("memory"), text("pods")),
        ("4".to_owned(), "8Gi".to_owned(), "110".to_owned())
    );
    assert_eq!((text("hugepages-2Mi"), text("hugepages-1Gi")), ("1Gi".to_owned(), "0".to_owned()));
    let greedy = Config { system_reserved: pairs(&[("memory", "99Gi")]), ..config };
    assert_eq!(allocatable(&whole, &greedy).get("memory"), 0, "never less than nothing");
}

#[test]
fn pods_may_be_limited_by_core() {
    assert_eq!(capacity(&facts(), &Config { pods_per_core: 10, ..config() }).get("pods"), 40);
    assert_eq!(capacity(&facts(), &Config { pods_per_core: 100, ..config() }).get("pods"), 110);
}

fn local(config: Config) -> std::sync::Arc<LocalMachine> {
    let addresses = vec!["10.0.0.1".parse().expect("an address"), "fd00::1".parse().expect("an address")];
    std::sync::Arc::new(LocalMachine::new(config, "host", facts(), addresses))
}

fn node(machine: &Machine) -> Value {
    let identity = NodeIdentity { name: "n", ip: "", zone: "" };
    machine.node(&identity, &node::container_runtime::Health::Ready, 0)
}

#[test]
fn the_node_object_says_what_the_machine_is() {
    let config = Config {
        node_labels: vec![("role".to_owned(), "worker".to_owned())],
        register_with_taints: vec!["dedicated=x:NoSchedule".to_owned()],
        provider_id: "metal://7".to_owned(),
        port: 10350,
        pod_cidr: "10.1.0.0/24,fd01::/64".to_owned(),
        ..config()
    };
    let local = local(config);
    let runtime = RuntimeFacts {
        name: "setpoint".to_owned(),
        version: "0.1.0".to_owned(),
        images: vec![(vec!["b:1".to_owned()], 9), (vec!["a:1".to_owned()], 3)],
        supplemental_groups_policy: Some(true),
        ..RuntimeFacts::default()
    };
    assert!(local.set_runtime(runtime.clone()) && !local.set_runtime(runtime), "told once");
    let machine = Machine::new(SharedMachine(local.clone()));
    let node_object = node(&machine);
    let text = |path: &[&str]| node_object.str_at(path).unwrap_or("").to_owned();
    assert_eq!(text(&["metadata", "labels", "kubernetes.io/hostname"]), "host");
    assert_eq!(text(&["metadata", "labels", "role"]), "worker");
    assert_eq!(text(&["spec", "providerID"]), "metal://7");
    assert_eq!(text(&["status", "nodeInfo", "containerRuntimeVersion"]), "setpoint://0.1.0");
    assert_eq!(text(&["spec", "podCIDR"]), "10.1.0.0/24");
    let list = |path: &[&str]| node_object.at(path).and_then(Value::as_list).unwrap_or_default();
    assert_eq!(list(&["spec", "taints"])[0].str_at(&["effect"]), Some("NoSchedule"));
    let addresses: Vec<_> =
        list(&["status", "addresses"]).iter().filter_map(|a| a.str_at(&["address"])).collect();
    assert_eq!(addresses, ["10.0.0.1", "fd00::1", "host"]);
    assert_eq!(list(&["status", "images"]).len(), 2);
    assert_eq!(list(&["spec", "podCIDRs"])[1].as_str(), Some("fd01::/64"));
    let port = node_object.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
    assert_eq!(port.and_then(Value::as_int), Some(10350));
    let swap = node_object.at(&["status", "nodeInfo", "swap", "capacity"]);
    assert_eq!(swap.and_then(Value::as_int), Some(1 << 30));
    assert_eq!(local.serving_names(), ["host", "10.0.0.1", "fd00::1"]);
    let amounts = machine.capacity().expect("quantities");
    assert_eq!((amounts.amounts.cpu_milli, amounts.pods), (4000, 110));
}

#[test]
fn pressure_is_a_condition() {
    let local = local(config());
    let machine = Machine::new(SharedMachine(local.clone()));
    let said = |kind: &str| {
        let node = node(&machine);
        let all = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
        let condition = all.into_iter().find(|c| c.str_at(&["type"]) == Some(kind)).expect("there");
        (
            condition.str_at(&["status"]) == Some("True"),
            condition.str_at(&["reason"]).unwrap_or("").to_owned(),
        )
    };
    assert_eq!(said("DiskPressure"), (false, "KubeletHasNoDiskPressure".to_owned()));
    local.set_pressure(Pressure { disk: true, ..Pressure::default() });
    assert_eq!(said("DiskPressure"), (true, "KubeletHasDiskPressure".to_owned()));
    assert_eq!(said("MemoryPressure"), (false, "KubeletHasSufficientMemory".to_owned()));
}

#[test]
fn an_object_that_was_there_gets_its_default_labels_and_loses_old_huge_pages() {
    let machine = Machine::new(SharedMachine(local(Config {
        node_labels: vec![("role".to_owned(), "worker".to_owned())],
        pod_cidr: "10.1.0.0/24,fd01::/64".to_owned(),
        ..config()
    })));
    let identity = NodeIdentity { name: "n", ip: "", zone: "" };
    let text = "{metadata: {labels: {'kubernetes.io/hostname': other, mine: x}}, \
                status: {capacity: {'hugepages-4Mi': 4Mi, 'example.com/gpu': '2'}, allocatable: {'hugepages-4Mi': 4Mi}}}";
    let old = ::runtime::parse(text).expect("a node");
    let patch = machine.missing(&identity, &old).expect("something is missing");
    assert_eq!(patch.str_at(&["metadata", "labels", "kubernetes.io/hostname"]), Some("host"));
    assert!(patch.at(&["metadata", "labels", "role"]).is_none(), "people may have taken it away");
    assert_eq!(patch.str_at(&["spec", "podCIDR"]), Some("10.1.0.0/24"));
    assert_eq!(patch.at(&["spec", "podCIDRs"]), node(&machine).at(&["spec", "podCIDRs"]));
    assert_eq!(machine.other_pod_cidrs(&identity, &old), None);
    let given =
        ::runtime::parse("{spec: {podCIDR: 10.244.5.0/24, podCIDRs: [10.244.5.0/24]}}").expect("a node");
    assert!(machine.missing(&identity, &given).is_some_and(|patch| patch.get("spec").is_none()));
    let (said, used) = machine.other_pod_cidrs(&identity, &given).expect("they differ");
    assert_eq!((&*said, &*used), ("10.244.5.0/24", "10.1.0.0/24,fd01::/64"));
    let same = ::runtime::parse("{spec: {podCIDRs: [10.1.0.0/24, 'fd01:0::/64']}}").expect("a node");
    assert_eq!(machine.other_pod_cidrs(&identity, &same), None);
    let managed = "volumes.kubernetes.io/controller-managed-attach-detach";
    assert_eq!(patch.str_at(&["metadata", "annotations", managed]), Some("true"));
    let status = machine.status(&identity, &old, &node::container_runtime::Health::Ready, 0);
    assert!(status.at(&["capacity", "hugepages-4Mi"]).is_none());
    assert_eq!(status.str_at(&["allocatable", "example.com/gpu"]), Some("2"), "others' resources stay");
    assert!(status.at(&["allocatable", "hugepages-4Mi"]).is_none());
    assert!(machine.missing(&identity, &node(&machine)).is_none(), "nothing is missing of a new one");
}

#[test]
fn taints_are_read_as_flags_have_them() {
    assert!(taint::parse("a=b:NoExecute").is_some() && taint::parse("example.com/a:NoSchedule").is_some());
    for odd in ["", "a", "a=b", "a:Never", "=b:NoSchedule", "a b:NoSchedule", "a=b c:NoSchedule"] {
        assert!(taint::parse(odd).is_none(), "{odd}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_changed_is_told_of() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let env = env::Env::simulated(1);
    // Not this machine's facts: the first look finds others.
    let local = local(Config { root_directory: "/".into(), ..config() });
    let (stopper, stop) = ::runtime::Stopper::new();
    let told = std::sync::Arc::new(AtomicUsize::new(0));
    let (watched, counts, time) = (local.clone(), told.clone(), env.clone());
    let task = env.spawn("watch", async move {
        let tell = || {
            counts.fetch_add(1, Ordering::Relaxed);
        };
        watched.watch(&time, "127.0.0.1", &tell, stop).await;
    });
    env.sleep(std::time::Duration::from_secs(35)).await;
    assert_eq!(told.load(Ordering::Relaxed), 1, "once, and not while nothing changes");
    assert_eq!(local.serving_names(), ["host", "127.0.0.1"]);
    stopper.stop();
    task.await.expect("it ends");
}

#[test]
fn swap_is_what_the_kernel_lists_below_the_head() {
    let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
    assert_eq!(super::swap_devices(head), [] as [&str; 0]);
    assert_eq!(super::swap_devices(""), [] as [&str; 0], "a kernel without swap");
    let one = format!("{head}/dev/sda2                               partition\t8388604\t\t0\t\t-2\n");
    assert_eq!(super::swap_devices(&one), ["/dev/sda2"]);
}
