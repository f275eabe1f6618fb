//! Flags of kube-controller-manager, under its names: what people set when they move a cluster, or its manifests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use plane::{
    CONCURRENCY, Cidr, ControllerSettings as Settings, Endpoints, HorizontalPodAutoscaler, MaskSizes,
    NodeIpam, NodeIpamError, NodeLifecycle,
};

const AUTOSCALING: &str = "Horizontal pod autoscaling";
const NODES: &str = "Nodes";
const CONCURRENT: &str = "Controller concurrency";
const COLLECTION: &str = "Garbage collection";
const QUOTAS: &str = "Resource quotas";
const ENDPOINTS: &str = "Endpoints";
const VOLUMES: &str = "Volumes";

/// What nodes get their pod CIDRs from by default; the machine of the control plane has the first one.
const CLUSTER_CIDR: &str = "10.244.0.0/16";

pub fn flags() -> Vec<Arg> {
    let text = |name: &'static str, value: &'static str, default: &'static str, group, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name(value).help_heading(group).help(help);
        if default.is_empty() { arg } else { arg.default_value(default) }
    };
    let duration = |name, default, group, help| text(name, "DURATION", default, group, help);
    let number = |name, default, group, help| text(name, "NUMBER", default, group, help);
    let bits = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("BITS")
            .value_parser(value_parser!(u8))
            .help_heading(NODES)
            .help(help)
    };
    let most = |name, default, help| {
        text(name, "N", default, ENDPOINTS, help).value_parser(value_parser!(u32).range(1..=1000))
    };
    let mut flags = vec![
        duration(
            "horizontal-pod-autoscaler-sync-period",
            "15s",
            AUTOSCALING,
            "How often every HorizontalPodAutoscaler is evaluated",
        ),
        duration(
            "horizontal-pod-autoscaler-downscale-stabilization",
            "5m0s",
            AUTOSCALING,
            "How long a target is not scaled below the highest recommendation, unless its behavior says otherwise",
        ),
        number(
            "horizontal-pod-autoscaler-tolerance",
            "0.1",
            AUTOSCALING,
            "Deviation from the target below which a target is not scaled, as a fraction",
        ),
        duration(
            "horizontal-pod-autoscaler-cpu-initialization-period",
            "5m0s",
            AUTOSCALING,
            "Time after a pod's start during which its CPU samples count only if it is ready",
        ),
        duration(
            "horizontal-pod-autoscaler-initial-readiness-delay",
            "30s",
            AUTOSCALING,
            "Time after a pod's start within which becoming unready means that it was never ready",
        ),
        duration("node-monitor-period", "5s", NODES, "How often the health of nodes is checked"),
        duration(
            "node-monitor-grace-period",
            "50s",
            NODES,
            "How long a node may be silent before it is marked unhealthy",
        ),
        duration(
            "node-startup-grace-period",
            "1m0s",
            NODES,
            "The same of a node that has just been registered",
        ),
        number(
            "node-eviction-rate",
            "0.1",
            NODES,
            "Nodes a second whose pods are evicted, in a healthy zone",
        ),
        number(
            "secondary-node-eviction-rate",
            "0.01",
            NODES,
            "The same in an unhealthy zone; 0 in a small one (see --large-cluster-size-threshold)",
        ),
        number(
            "unhealthy-zone-threshold",
            "0.55",
            NODES,
            "Fraction of nodes that must be unhealthy (at least 3) for a zone to be unhealthy",
        ),
        text("large-cluster-size-threshold", "N", "50", NODES, "Number of nodes above which a zone is large")
            .value_parser(value_parser!(u32)),
        Arg::new("allocate-node-cidrs")
            .long("allocate-node-cidrs")
            .value_name("BOOL")
            .value_parser(value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .action(ArgAction::Set)
            .help_heading(NODES)
            .help("Allocate pod CIDRs to nodes from --cluster-cidr [default: to those that a kubelet has registered, from 10.244.0.0/16 unless --cluster-cidr says otherwise]"),
        text(
            "cluster-cidr",
            "CIDR[,CIDR]",
            "",
            NODES,
            "CIDR of the pods of all nodes, given out to them with --allocate-node-cidrs; dual-stack with one IPv4 and one IPv6 range",
        ),
        bits(
            "node-cidr-mask-size",
            "Prefix length of a node's pod CIDR, in a single-stack cluster [default: 24 for IPv4, 64 for IPv6]",
        ),
        bits("node-cidr-mask-size-ipv4", "Prefix length of a node's IPv4 pod CIDR [default: 24]"),
        bits("node-cidr-mask-size-ipv6", "Prefix length of a node's IPv6 pod CIDR [default: 64]"),
        text(
            "terminated-pod-gc-threshold",
            "N",
            "12500",
            COLLECTION,
            "Number of terminated pods that are kept; 0 keeps all",
        )
        .value_parser(value_parser!(i32)),
        duration(
            "legacy-service-account-token-clean-up-period",
            "8760h0m0s",
            COLLECTION,
            "Time since its last use after which an auto-generated service account token is invalidated, and then deleted",
        ),
        duration(
            "endpoint-updates-batch-period",
            "0s",
            ENDPOINTS,
            "How long changes of pods are gathered before the Endpoints of their Services are updated",
        ),
        duration("endpointslice-updates-batch-period", "0s", ENDPOINTS, "The same for EndpointSlices"),
        most("max-endpoints-per-slice", "100", "Endpoints in one EndpointSlice"),
        duration(
            "mirroring-endpointslice-updates-batch-period",
            "0s",
            ENDPOINTS,
            "The same for EndpointSlices that mirror Endpoints",
        ),
        most(
            "mirroring-max-endpoints-per-subset",
            "1000",
            "Addresses of one subset of Endpoints that are mirrored",
        ),
        duration(
            "pvclaimbinder-sync-period",
            "15s",
            VOLUMES,
            "How often claims and volumes that cannot be bound are looked at again",
        ),
        duration(
            "resource-quota-sync-period",
            "5m0s",
            QUOTAS,
            "How often the usage of every ResourceQuota is calculated anew; 0 never",
        ),
    ];
    flags.extend(CONCURRENCY.iter().map(|row| {
        Arg::new(row.flag)
            .long(row.flag)
            .value_name("N")
            .value_parser(value_parser!(u32).range(1..=10_000))
            .help_heading(CONCURRENT)
            .help(format!("Number of {} worked on at once [default: {}]", row.of, row.default))
    }));
    flags
}

/// Parameters of the controllers from the flags.
pub fn settings(matches: &ArgMatches) -> Result<Settings> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let duration = |name: &str| {
        let said = text(name);
        parse_duration(&said)
            .ok_or_else(|| anyhow!("--{name} {said} is not a duration: use 30s, 5m or 1h30m"))
    };
    let fraction = |name: &str| {
        let said = text(name);
        let number = said.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| anyhow!("--{name} {said} is not a number: use 0.1 or 2"))
    };
    let mut concurrency = BTreeMap::new();
    for row in CONCURRENCY {
        let wanted = matches.get_one::<u32>(row.flag).map_or(row.default, |workers| *workers as usize);
        if wanted != row.default {
            concurrency.insert(row.flag, wanted);
        }
    }
    let period = duration("legacy-service-account-token-clean-up-period")?;
    if period.is_zero() {
        return Err(anyhow!("--legacy-service-account-token-clean-up-period must be greater than 0"));
    }
    let threshold = matches.get_one::<i32>("terminated-pod-gc-threshold").copied().unwrap_or(0);
    let most =
        |name: &str, default: usize| matches.get_one::<u32>(name).map_or(default, |most| *most as usize);
    let endpoints = Endpoints {
        updates_batch_period: duration("endpoint-updates-batch-period")?,
        slice_updates_batch_period: duration("endpointslice-updates-batch-period")?,
        max_per_slice: most("max-endpoints-per-slice", 100),
        mirroring_updates_batch_period: duration("mirroring-endpointslice-updates-batch-period")?,
        mirroring_max_per_subset: most("mirroring-max-endpoints-per-subset", 1000),
    };
    let binding = duration("pvclaimbinder-sync-period")?;
    if binding.is_zero() {
        return Err(anyhow!("--pvclaimbinder-sync-period must be greater than 0"));
    }
    Ok(Settings {
        concurrency,
        endpoints,
        horizontal_pod_autoscaler: HorizontalPodAutoscaler {
            sync_period: duration("horizontal-pod-autoscaler-sync-period")?,
            downscale_stabilization: duration("horizontal-pod-autoscaler-downscale-stabilization")?,
            tolerance: fraction("horizontal-pod-autoscaler-tolerance")?,
            cpu_initialization_period: duration("horizontal-pod-autoscaler-cpu-initialization-period")?,
            initial_readiness_delay: duration("horizontal-pod-autoscaler-initial-readiness-delay")?,
        },
        node_ipam: node_ipam(matches)?,
        node_lifecycle: NodeLifecycle {
            monitor_period: duration("node-monitor-period")?.max(Duration::from_millis(100)),
            monitor_grace_period: duration("node-monitor-grace-period")?,
            startup_grace_period: duration("node-startup-grace-period")?,
            eviction_rate: fraction("node-eviction-rate")?,
            secondary_eviction_rate: fraction("secondary-node-eviction-rate")?,
            unhealthy_zone_threshold: fraction("unhealthy-zone-threshold")?,
            large_cluster_size_threshold: matches
                .get_one::<u32>("large-cluster-size-threshold")
                .map_or(50, |nodes| *nodes as usize),
        },
        legacy_service_account_token_clean_up_period: period,
        pvclaimbinder_sync_period: binding,
        resource_quota_sync_period: duration("resource-quota-sync-period")?,
        // 0 or less: never.
        terminated_pod_gc_threshold: usize::try_from(threshold).ok().filter(|n| *n > 0).unwrap_or(usize::MAX),
    })
}

/// The addresses of the pods of all nodes, as far as anybody has said; empty: nobody has.
pub fn cluster_cidr(matches: &ArgMatches) -> String {
    let given = matches.get_one::<String>("cluster-cidr").cloned().unwrap_or_default();
    let allocates = matches.get_one::<bool>("allocate-node-cidrs") != Some(&false);
    if given.is_empty() && allocates { CLUSTER_CIDR.to_owned() } else { given }
}

fn node_ipam(matches: &ArgMatches) -> Result<Option<NodeIpam>> {
    let wanted = matches.get_one::<bool>("allocate-node-cidrs").copied();
    if wanted == Some(false) {
        return Ok(None);
    }
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let bits = |name: &str| matches.get_one::<u8>(name).copied().filter(|bits| *bits != 0);
    let sizes = MaskSizes {
        any: bits("node-cidr-mask-size"),
        v4: bits("node-cidr-mask-size-ipv4"),
        v6: bits("node-cidr-mask-size-ipv6"),
    };
    let services = text("service-cluster-ip-range").split(',').filter_map(Cidr::parse).collect();
    let cluster = text("cluster-cidr");
    if wanted.is_some() {
        let ipam = NodeIpam::new(&cluster, sizes, services);
        return ipam.map(Some).map_err(|error| anyhow!("--allocate-node-cidrs: {error}"));
    }
    // Differs from kube-controller-manager, which allocates nothing unless told to: a machine that joins needs addresses for its pods.
    let cluster = if cluster.is_empty() { CLUSTER_CIDR } else { &cluster };
    match NodeIpam::new(cluster, sizes, services) {
        Ok(ipam) => Ok(Some(ipam.kubelets_only())),
        // Too small to be divided: it only says whom pods see under their own addresses.
        Err(NodeIpamError::Smaller) if sizes == MaskSizes::default() => Ok(None),
        Err(error @ NodeIpamError::Cluster(_)) => Err(anyhow!("--cluster-cidr: {error}")),
        Err(error) => Err(anyhow!("--node-cidr-mask-size: {error}")),
    }
}

/// As Go writes durations: `1h30m`, `500ms`, `0`.
fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut sum) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let end = rest[number..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| number + at);
        let seconds = match &rest[number..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return None,
        };
        let part = rest[..number].parse::<f64>().ok()? * seconds;
        sum = sum.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn parsed(flags: &[&str]) -> Result<Settings> {
        let command = Command::new("server").args(super::flags()).arg(
            Arg::new("service-cluster-ip-range")
                .long("service-cluster-ip-range")
                .default_value("10.96.0.0/16"),
        );
        settings(&command.try_get_matches_from([&["server"], flags].concat())?)
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        let services = Cidr::parse("10.96.0.0/16").into_iter().collect();
        let ipam = NodeIpam::new("10.244.0.0/16", MaskSizes::default(), services).unwrap().kubelets_only();
        assert_eq!(parsed(&[]).unwrap(), Settings { node_ipam: Some(ipam), ..Settings::default() });
        assert_eq!(parsed(&["--allocate-node-cidrs=false"]).unwrap(), Settings::default());
        assert_eq!(parsed(&["--cluster-cidr=10.9.0.0/25"]).unwrap(), Settings::default());
    }

    #[test]
    fn flags_have_upstreams_names_and_values() {
        let settings = parsed(&[
            "--concurrent-deployment-syncs=9",
            "--horizontal-pod-autoscaler-sync-period=1m30s",
            "--horizontal-pod-autoscaler-tolerance=0.2",
            "--node-monitor-grace-period=40s",
            "--max-endpoints-per-slice=7",
            "--endpointslice-updates-batch-period=500ms",
            "--resource-quota-sync-period=1m",
            "--terminated-pod-gc-threshold=0",
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            "--node-cidr-mask-size=25",
        ])
        .unwrap();
        assert_eq!(settings.workers("concurrent-deployment-syncs"), 9);
        assert_eq!(settings.workers("concurrent-gc-syncs"), 20);
        assert_eq!(settings.horizontal_pod_autoscaler.sync_period, Duration::from_secs(90));
        assert_eq!(settings.node_lifecycle.monitor_grace_period, Duration::from_secs(40));
        assert_eq!(settings.endpoints.max_per_slice, 7);
        assert_eq!(settings.endpoints.slice_updates_batch_period, Duration::from_millis(500));
        assert_eq!(settings.resource_quota_sync_period, Duration::from_secs(60));
        assert_eq!(settings.terminated_pod_gc_threshold, usize::MAX);
        assert!(settings.node_ipam.is_some());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_flag() {
        for (flag, part) in [
            ("--node-monitor-period=soon", "--node-monitor-period soon is not a duration"),
            ("--node-eviction-rate=-1", "--node-eviction-rate -1 is not a number"),
            ("--concurrent-job-syncs=0", "--concurrent-job-syncs"),
            ("--max-endpoints-per-slice=1001", "--max-endpoints-per-slice"),
            ("--pvclaimbinder-sync-period=0s", "must be greater than 0"),
            ("--allocate-node-cidrs", "Must specify --cluster-cidr"),
            ("--cluster-cidr=10.9.0.0", "--cluster-cidr: invalid CIDR[0]: 10.9.0.0"),
            ("--cluster-cidr=10.8.0.0/16,10.9.0.0/16", "--cluster-cidr: len of ClusterCIDRs==2"),
            ("--cluster-cidr=fd00::/40", "--cluster-cidr: New CIDR set failed"),
            ("--node-cidr-mask-size-ipv6=80", "--node-cidr-mask-size: usage of"),
            ("--node-cidr-mask-size=15", "mask size of cluster CIDR must be less than or equal"),
            ("--legacy-service-account-token-clean-up-period=0", "must be greater than 0"),
        ] {
            let error = parsed(&[flag]).unwrap_err().to_string();
            assert!(error.contains(part), "{flag}: {error}");
        }
    }

    #[test]
    fn durations_are_gos() {
        for (text, millis) in
            [("0", 0), ("15s", 15_000), ("1m0s", 60_000), ("8760h0m0s", 31_536_000_000), ("1.5s", 1500)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "15", "s", "1d", "-1s"] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
    }
}
