use super::*;
use crate::generate::testing::{config, pod, resolv, value};

#[test]
fn processors_become_shares_and_quotas() {
    for (milli, shares) in
        [(0, 2), (1, 2), (2, 2), (3, 3), (100, 102), (1000, 1024), (i64::MAX, 262_144), (-5, 2)]
    {
        assert_eq!(shares_of_milli(milli), shares, "{milli}");
    }
    for (milli, period, quota) in [
        (0, 100_000, 0),
        (5, 100_000, 1000),
        (9, 100_000, 1000),
        (10, 100_000, 1000),
        (200, 100_000, 20_000),
        (500, 100_000, 50_000),
        (1500, 100_000, 150_000),
        (500, 5_000, 2_500),
        (5, 5_000, 1_000),
    ] {
        assert_eq!(quota_of_milli(milli, period), quota, "{milli} of {period}");
    }
    for (shares, milli) in [(0, 0), (1, 0), (2, 2), (102, 100), (1024, 1000)] {
        assert_eq!(milli_of_shares(shares), milli, "{shares}");
    }
    assert_eq!([(-1, 100_000), (50_000, 100_000), (1, 0)].map(|(q, p)| milli_of_quota(q, p)), [0, 500, 0]);
}

#[test]
fn a_container_gets_what_it_asks_for() {
    let (config, resolv) = (config(), resolv());
    let node = NodeView { memory_capacity: 1000, ..NodeView::new(&config, &resolv) };
    let of = |resources: &str| {
        let container = value(&format!(r#"{{"name":"c","resources":{resources}}}"#));
        let pod = pod(&format!(r#"{{"containers":[{{"name":"c","resources":{resources}}}]}}"#));
        let made = container_resources(&pod, &container, &node);
        (made.cpu_shares, made.cpu_quota, made.cpu_period, made.memory_limit_in_bytes, made.oom_score_adj)
    };
    assert_eq!(of("{}"), (2, 0, 100_000, 0, 1000));
    assert_eq!(of(r#"{"requests":{"cpu":"1"}}"#), (1024, 0, 100_000, 0, 999));
    assert_eq!(of(r#"{"limits":{"cpu":"500m","memory":"128Mi"}}"#), (512, 50_000, 100_000, 134_217_728, 999));
    // A request that is zero is one.
    assert_eq!(
        of(r#"{"requests":{"cpu":"0","memory":"500"},"limits":{"cpu":"2"}}"#),
        (2, 200_000, 100_000, 0, 500)
    );
}

#[test]
fn quotas_can_be_off_or_of_another_period() {
    let (mut config, resolv) = (config(), resolv());
    config.cpu_cfs_quota_period = std::time::Duration::from_millis(5);
    let limited = value(r#"{"resources":{"limits":{"cpu":"1"}}}"#);
    let made = container_resources(&pod("{}"), &limited, &NodeView::new(&config, &resolv));
    assert_eq!((made.cpu_quota, made.cpu_period), (5000, 5000));
    config.cpu_cfs_quota = false;
    let made = container_resources(&pod("{}"), &limited, &NodeView::new(&config, &resolv));
    assert_eq!((made.cpu_quota, made.cpu_period, made.cpu_shares), (0, 0, 1024));
}

#[test]
fn a_container_without_limits_has_the_pods() {
    let (config, resolv) = (config(), resolv());
    let node = NodeView::new(&config, &resolv);
    let pod =
        pod(r#"{"containers":[],"resources":{"limits":{"cpu":"2","memory":"1Gi","hugepages-2Mi":"4Mi"}}}"#);
    let sizes = ["2MB".to_owned(), "1GB".to_owned()];
    let node = NodeView { hugepage_sizes: &sizes, ..node };
    let made = container_resources(&pod, &value("{}"), &node);
    assert_eq!((made.cpu_shares, made.cpu_quota, made.memory_limit_in_bytes), (2048, 200_000, 1 << 30));
    let pages: Vec<_> = made.hugepage_limits.iter().map(|l| (l.page_size.as_str(), l.limit)).collect();
    assert_eq!(pages, [("2MB", 4 << 20), ("1GB", 0)]);
    let own = value(r#"{"resources":{"limits":{"memory":"1Mi","hugepages-2Mi":"2Mi"}}}"#);
    let made = container_resources(&pod, &own, &node);
    assert_eq!((made.memory_limit_in_bytes, made.hugepage_limits[0].limit), (1 << 20, 2 << 20));
}

#[test]
fn swap_is_kept_from_containers_where_it_can_be() {
    let (config, resolv) = (config(), resolv());
    let v1 = NodeView { swap_controller: true, ..NodeView::new(&config, &resolv) };
    let limited = value(r#"{"resources":{"limits":{"memory":"1Mi"}}}"#);
    let made = container_resources(&pod("{}"), &limited, &v1);
    assert_eq!((made.memory_swap_limit_in_bytes, made.unified.len()), (1 << 20, 0));
    let made = container_resources(&pod("{}"), &limited, &NodeView { cgroup_v2: true, ..v1 });
    let unified: Vec<_> = made.unified.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        (made.memory_swap_limit_in_bytes, unified.join(" ").as_str()),
        (0, "memory.oom.group=1 memory.swap.max=0")
    );
    let single = crate::config::Config { single_process_oom_kill: true, ..config.clone() };
    let made =
        container_resources(&pod("{}"), &limited, &NodeView { cgroup_v2: true, config: &single, ..v1 });
    assert_eq!(made.unified.into_keys().collect::<Vec<_>>(), ["memory.swap.max"]);
}

#[test]
fn burstable_containers_may_swap_as_much_as_they_ask_for_of_the_memory() {
    let resolv = resolv();
    let limited = crate::config::Config { swap_behavior: "LimitedSwap".to_owned(), ..config() };
    let none = crate::config::Config { swap_behavior: "NoSwap".to_owned(), ..config() };
    let node = NodeView {
        swap_controller: true,
        cgroup_v2: true,
        memory_capacity: 8 << 30,
        swap_capacity: 2 << 30,
        ..NodeView::new(&limited, &resolv)
    };
    let swap = |tree: &Value, container: &Value, node: &NodeView<'_>| {
        let made = container_resources(tree, container, node);
        (made.unified.get("memory.swap.max").cloned().unwrap_or_default(), made.memory_swap_limit_in_bytes)
    };
    let of = |resources: &str, more: &str, node: &NodeView<'_>| {
        let spec = format!(r#"{{{more}"containers":[{{"name":"c","resources":{resources}}}]}}"#);
        let tree = pod(&spec);
        let container = tree.at(&["spec", "containers"]).and_then(Value::as_list).unwrap()[0].clone();
        swap(&tree, &container, node)
    };
    let told = |bytes: i64| (bytes.to_string(), 0);
    let burstable = r#"{"requests":{"memory":"1Gi"},"limits":{"memory":"2Gi"}}"#;
    for (resources, bytes) in [
        (burstable, 256 << 20),
        (r#"{"requests":{"memory":"1Gi"}}"#, 256 << 20),
        (r#"{"requests":{"memory":"8Gi"}}"#, 2 << 30),
        // Rounded down.
        (r#"{"requests":{"memory":"1000003"}}"#, 250_000),
        // More than the machine has.
        (r#"{"requests":{"memory":"9Gi"}}"#, 0),
        (r#"{"requests":{"memory":"1Gi"},"limits":{"memory":"1Gi"}}"#, 0),
        (r#"{"requests":{"cpu":"1"}}"#, 0),
        ("{}", 0),
        (r#"{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}"#, 0),
    ] {
        assert_eq!(of(resources, "", &node), told(bytes), "{resources}");
    }
    assert_eq!(of(burstable, r#""priority":2000000000,"#, &node), told(0), "a critical pod");
    assert_eq!(of(burstable, r#""priority":1000000000,"#, &node), told(256 << 20));
    assert_eq!(of(burstable, "", &NodeView { swap_capacity: 0, ..node }), told(0), "no swap");
    assert_eq!(of(burstable, "", &NodeView { config: &none, ..node }), told(0));
    let v1 = NodeView { cgroup_v2: false, ..node };
    assert_eq!(of(burstable, "", &v1), (String::new(), 2 << 30), "version 1 has none");
    let uncounted = NodeView { swap_controller: false, ..node };
    assert_eq!(of(burstable, "", &uncounted), (String::new(), 0));
}

#[test]
fn a_sandbox_has_the_sum_and_its_overhead_apart() {
    let (config, resolv) = (config(), resolv());
    let node = NodeView::new(&config, &resolv);
    let pod = pod(r#"{"containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"memory":"2Mi"}}},
                          {"resources":{"requests":{"cpu":"1"},"limits":{"memory":"1Mi"}}}],
            "overhead":{"cpu":"250m","memory":"1Ki"}}"#);
    let made = sandbox_resources(&pod, &node);
    assert_eq!((made.cpu_shares, made.cpu_quota, made.memory_limit_in_bytes), (2048, 0, 3 << 20));
    let made = sandbox_overhead(&pod, &node);
    assert_eq!((made.cpu_shares, made.cpu_quota, made.memory_limit_in_bytes), (256, 25_000, 1024));
    let none = crate::generate::testing::pod("{}");
    assert_eq!(sandbox_overhead(&none, &node), cri::LinuxContainerResources::default());
}

#[test]
fn what_is_set_can_be_read_back() {
    let set = cri::LinuxContainerResources {
        cpu_shares: 102,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        memory_limit_in_bytes: 4096,
        ..Default::default()
    };
    let read =
        Reported { cpu_request_milli: Some(100), cpu_limit_milli: Some(500), memory_limit: Some(4096) };
    assert_eq!(reported(&set), read);
    assert_eq!(reported(&cri::LinuxContainerResources::default()), Reported::default());
}
