use super::*;
use crate::generate::Resolv;
use crate::generate::testing::{config, pod};

fn with_node<T>(test: impl FnOnce(&NodeView<'_>) -> T) -> T {
    let (config, resolv) = (config(), Resolv::default());
    let sizes = ["2MB".to_owned()];
    test(&NodeView {
        cpu_capacity_milli: 4000,
        memory_capacity: 8 << 30,
        pid_capacity: 1000,
        hugepage_sizes: &sizes,
        ..NodeView::new(&config, &resolv)
    })
}

fn resources(containers: &str) -> GroupResources {
    with_node(|node| pod_resources(&pod(&format!(r#"{{"containers":[{containers}]}}"#)), node))
}

fn pages(limit: i64) -> BTreeMap<String, i64> {
    BTreeMap::from([("2MB".to_owned(), limit)])
}

#[test]
fn a_pod_is_below_its_class() {
    let mut config = config();
    let of = |resources: &str, config: &Config| {
        let pod = pod(&format!(r#"{{"containers":[{{"name":"c","resources":{resources}}}]}}"#));
        pod_group(&pod, config).to_string_lossy().into_owned()
    };
    let both = r#"{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}"#;
    assert_eq!(of("{}", &config), "/kubepods/besteffort/pod1234");
    assert_eq!(of(r#"{"requests":{"cpu":"1"}}"#, &config), "/kubepods/burstable/pod1234");
    assert_eq!(of(both, &config), "/kubepods/pod1234");
    config.cgroup_root = "/setpoint/node-1".to_owned();
    assert_eq!(of(both, &config), "/setpoint/node-1/kubepods/pod1234");
    assert_eq!([pod_uid("pod1234"), pod_uid("pod"), pod_uid("burstable")], [Some("1234"), None, None]);
}

#[test]
fn a_pods_group_has_the_sum_of_its_containers() {
    let both = |requests: &str, limits: &str| {
        format!(r#"{{"resources":{{"requests":{requests},"limits":{limits}}}}}"#)
    };
    // Best effort.
    let expected = GroupResources { cpu_shares: Some(2), hugepages: pages(0), ..GroupResources::default() };
    assert_eq!(resources("{}"), expected);
    // Burstable, nothing limited.
    let expected = GroupResources { cpu_shares: Some(102), ..expected };
    assert_eq!(resources(&both(r#"{"cpu":"100m","memory":"100Mi"}"#, "{}")), expected);
    // Burstable, limited.
    let limited = GroupResources {
        cpu_quota: Some(20_000),
        cpu_period: Some(100_000),
        memory: Some(200 << 20),
        ..expected.clone()
    };
    let container = both(r#"{"cpu":"100m","memory":"100Mi"}"#, r#"{"cpu":"200m","memory":"200Mi"}"#);
    assert_eq!(resources(&container), limited);
    // One of two without limits: the pod has none.
    let half = resources(&format!("{container},{}", both(r#"{"cpu":"100m"}"#, "{}")));
    assert_eq!((half.cpu_shares, half.cpu_quota, half.memory), (Some(204), None, None));
    // Guaranteed.
    let same = r#"{"cpu":"100m","memory":"100Mi"}"#;
    let expected = GroupResources { cpu_quota: Some(10_000), memory: Some(100 << 20), ..limited };
    assert_eq!(resources(&both(same, same)), expected);
}

#[test]
fn what_the_pod_says_as_a_whole_and_its_overhead_count() {
    let spec = r#"{"resources":{"requests":{"cpu":"500m"},"limits":{"cpu":"1","memory":"1Gi"}},"containers":[{}],
                   "overhead":{"cpu":"100m","memory":"1Mi"}}"#;
    let made = with_node(|node| pod_resources(&pod(spec), node));
    assert_eq!(made.cpu_shares, Some(614));
    assert_eq!((made.cpu_quota, made.memory), (Some(110_000), Some((1 << 30) + (1 << 20))));
}

#[test]
fn processes_pages_and_quotas_follow_the_configuration() {
    let (mut config, resolv) = (config(), Resolv::default());
    config.pod_pids_limit = 64;
    config.cpu_cfs_quota = false;
    let sizes = ["2MB".to_owned(), "1GB".to_owned()];
    let node = NodeView { hugepage_sizes: &sizes, ..NodeView::new(&config, &resolv) };
    let requests = r#"{"cpu":"1","memory":"1Gi","hugepages-2Mi":"4Mi"}"#;
    let pod =
        pod(&format!(r#"{{"containers":[{{"resources":{{"requests":{requests},"limits":{requests}}}}}]}}"#));
    let made = pod_resources(&pod, &node);
    assert_eq!((made.pids, made.cpu_quota), (Some(64), Some(-1)));
    assert_eq!(made.hugepages, BTreeMap::from([("2MB".to_owned(), 4 << 20), ("1GB".to_owned(), 0)]));
}

#[test]
fn the_root_has_what_is_left_for_pods() {
    let (mut config, resolv) = (config(), Resolv::default());
    config.system_reserved =
        vec![("cpu".to_owned(), "500m".to_owned()), ("memory".to_owned(), "1Gi".to_owned())];
    config.kube_reserved = vec![("cpu".to_owned(), "500m".to_owned()), ("pid".to_owned(), "2000".to_owned())];
    let node = NodeView {
        cpu_capacity_milli: 4000,
        memory_capacity: 8 << 30,
        pid_capacity: 1000,
        ..NodeView::new(&config, &resolv)
    };
    let busy = pod(r#"{"containers":[{"resources":{"requests":{"cpu":"250m"}}}]}"#);
    let all = node_groups(&node, [&busy, &busy, &pod(r#"{"containers":[{}]}"#)]);
    let root = GroupResources {
        cpu_shares: Some(3072),
        memory: Some(7 << 30),
        pids: Some(0),
        ..GroupResources::default()
    };
    let class = |shares: u64| GroupResources { cpu_shares: Some(shares), ..GroupResources::default() };
    assert_eq!(
        all,
        [
            (PathBuf::from("/kubepods"), root),
            (PathBuf::from("/kubepods/burstable"), class(512)),
            (PathBuf::from("/kubepods/besteffort"), class(2)),
        ]
    );
}

#[test]
fn a_pod_needs_the_groups_above_it() {
    let paths = |spec: &str| {
        let all = with_node(|node| groups(&pod(spec), node));
        all.into_iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        paths(r#"{"containers":[{}]}"#),
        ["/kubepods", "/kubepods/besteffort", "/kubepods/besteffort/pod1234"]
    );
    let guaranteed =
        r#"{"resources":{"limits":{"cpu":"1","memory":"1"},"requests":{"cpu":"1","memory":"1"}}}"#;
    assert_eq!(paths(&format!(r#"{{"containers":[{guaranteed}]}}"#)), ["/kubepods", "/kubepods/pod1234"]);
}

#[test]
fn nothing_asked_is_nothing_written() {
    let none =
        GroupResources { cpu_quota: Some(0), memory: Some(0), pids: Some(0), ..GroupResources::default() };
    assert_eq!(none.to_resources(), Resources::default());
    let all = GroupResources { cpu_quota: Some(-1), hugepages: pages(UNBOUNDED), ..none };
    let made = all.to_resources();
    assert_eq!((made.cpu_quota, made.hugepages), (Some(-1), vec![("2MB".to_owned(), 1 << 62)]));
}
