//! Tables of kubelet's own tests, as facts.

mod node;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use object::Value;
use object::quantity::Quantity;

use super::rank::{Candidate, Reclaim, rank, reclaim};
use super::signal::{Condition, Observation, Observations, Resource, Signal};
use super::threshold::{Amount, Disks, Pressures, Threshold, met, thresholds};
use super::{limits, message};
use crate::config::Config;
use crate::server::stats::{ContainerStats, FsStats, PodStats, VolumeStats};

const ONE_DISK: Disks = Disks { own_image_fs: false, split_container_fs: false };
const OWN_IMAGE_FS: Disks = Disks { own_image_fs: true, split_container_fs: false };
const SPLIT: Disks = Disks { own_image_fs: true, split_container_fs: true };

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

fn bytes(text: &str) -> u64 {
    u64::try_from(quantity(text).as_i64()).unwrap()
}

fn observed(all: &[(Signal, &str, &str)]) -> Observations {
    let one = |(signal, available, capacity): &(Signal, &str, &str)| {
        (*signal, Observation { available: quantity(available), capacity: quantity(capacity) })
    };
    all.iter().map(one).collect()
}

fn hard(signal: Signal, value: &str, min_reclaim: Option<&str>) -> Threshold {
    Threshold {
        signal,
        value: Amount::Quantity(quantity(value)),
        grace: Duration::ZERO,
        min_reclaim: min_reclaim.map(|text| Amount::Quantity(quantity(text))),
    }
}

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::new("n", "/nowhere".into());
    change(&mut config);
    config
}

#[test]
fn thresholds_come_from_the_configuration() {
    let pair = |signal: &str, value: &str| (signal.to_owned(), value.to_owned());
    let config = config(|config| {
        config.eviction_hard = vec![pair("memory.available", "150Mi"), pair("nodefs.available", "10%")];
        config.eviction_soft = vec![pair("memory.available", "300Mi"), pair("imagefs.available", "100%")];
        config.eviction_soft_grace_period = vec![("memory.available".to_owned(), Duration::from_secs(30))];
        config.eviction_minimum_reclaim = vec![pair("memory.available", "0")];
    });
    let all = thresholds(&config, ONE_DISK);
    let shown: Vec<(Signal, Amount, u64)> =
        all.iter().map(|of| (of.signal, of.value, of.grace.as_secs())).collect();
    let mebibytes = |text: &str| Amount::Quantity(quantity(text));
    assert_eq!(
        shown,
        [
            (Signal::MemoryAvailable, mebibytes("150Mi"), 0),
            (Signal::NodeFsAvailable, Amount::Share(0.1), 0),
            (Signal::MemoryAvailable, mebibytes("300Mi"), 30),
            (Signal::AllocatableMemoryAvailable, mebibytes("150Mi"), 0),
            (Signal::ContainerFsAvailable, Amount::Share(0.1), 0),
        ]
    );
    assert_eq!(all[0].min_reclaim, Some(mebibytes("0")));
}

#[test]
fn what_containers_write_has_the_thresholds_of_its_disk() {
    let of = |disks: Disks| {
        let all = thresholds(&config(|_| {}), disks);
        all.iter().find(|of| of.signal == Signal::ContainerFsAvailable).map(|of| of.value)
    };
    assert_eq!(of(ONE_DISK), Some(Amount::Share(0.1)), "the node's");
    assert_eq!(of(OWN_IMAGE_FS), Some(Amount::Share(0.15)), "that of the images");
    assert_eq!(of(SPLIT), Some(Amount::Share(0.1)));
}

#[test]
fn a_threshold_is_crossed_below_it_and_left_above_what_is_to_be_reclaimed() {
    let all = [hard(Signal::MemoryAvailable, "1Gi", Some("500Mi"))];
    let is_met = |available: &str, with_reclaim: bool| {
        !met(&all, &observed(&[(Signal::MemoryAvailable, available, "8Gi")]), with_reclaim).is_empty()
    };
    assert!(is_met("500Mi", false));
    assert!(!is_met("1Gi", false), "not at it");
    assert!(!is_met("2Gi", false));
    assert!(is_met("1.05Gi", true));
    assert!(!is_met("1.05Gi", false));
    assert!(!is_met("2Gi", true));
    assert!(met(&all, &Observations::new(), false).is_empty(), "what is not known is not short");
    let share = Threshold { value: Amount::Share(0.1), min_reclaim: None, ..all[0].clone() };
    let of = |available: &str| {
        met(std::slice::from_ref(&share), &observed(&[(Signal::MemoryAvailable, available, "1000")]), false)
    };
    assert_eq!((of("99").len(), of("100").len()), (1, 0));
}

#[test]
fn pressure_lasts_for_the_transition_and_soft_thresholds_wait() {
    let soft = Threshold { grace: Duration::from_secs(120), ..hard(Signal::MemoryAvailable, "2Gi", None) };
    let all = [
        hard(Signal::NodeFsAvailable, "1Gi", Some("500Mi")),
        hard(Signal::MemoryAvailable, "1Gi", None),
        soft,
    ];
    let mut pressures = Pressures::default();
    let mut at = |seconds: i64, memory: &str, disk: &str| {
        let seen =
            observed(&[(Signal::MemoryAvailable, memory, "8Gi"), (Signal::NodeFsAvailable, disk, "9Gi")]);
        let due = pressures.observe(&all, &seen, Duration::from_secs(300), seconds * 1000);
        (due, pressures.conditions.iter().map(|condition| condition.as_str()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(at(0, "4Gi", "4Gi"), (vec![], String::new()));
    assert_eq!(at(60, "1500Mi", "4Gi"), (vec![], "MemoryPressure".to_owned()), "the soft one has just begun");
    assert_eq!(at(179, "1500Mi", "4Gi").0, [] as [usize; 0]);
    assert_eq!(at(180, "1500Mi", "4Gi").0, [2]);
    assert_eq!(at(190, "500Mi", "500Mi"), (vec![1, 2, 0], "MemoryPressure DiskPressure".to_owned()));
    // More than the threshold, less than what is to be reclaimed with it.
    assert_eq!(at(200, "4Gi", "1.2Gi").0, [0]);
    assert_eq!(at(210, "4Gi", "4Gi"), (vec![], "MemoryPressure DiskPressure".to_owned()));
    assert_eq!(at(489, "4Gi", "4Gi").1, "MemoryPressure DiskPressure");
    assert_eq!(at(490, "4Gi", "4Gi").1, "DiskPressure");
    assert_eq!(at(500, "4Gi", "4Gi").1, "");
    assert_eq!(at(510, "1500Mi", "4Gi").0, [] as [usize; 0], "it waits anew");
}

fn pod(name: &str, priority: i64, spec: &str) -> Arc<Value> {
    let text = format!(
        "{{metadata: {{name: {name}, namespace: d, uid: {name}}}, spec: {{priority: {priority}, {spec}}}}}"
    );
    Arc::new(runtime::parse(&text).unwrap())
}

fn requesting(name: &str, priority: i64, resource: &str, request: &str) -> Arc<Value> {
    pod(
        name,
        priority,
        &format!("containers: [{{name: c, resources: {{requests: {{{resource}: {request}}}}}}}]"),
    )
}

fn memory_usage(text: &str) -> Option<cri::MemoryUsage> {
    let working_set_bytes = Some(cri::UInt64Value { value: bytes(text) });
    Some(cri::MemoryUsage { working_set_bytes, ..Default::default() })
}

fn fs(text: &str) -> FsStats {
    FsStats { used_bytes: Some(bytes(text)), inodes_used: Some(bytes(text)), ..FsStats::default() }
}

fn disk_stats(root: &str, logs: &str, volume: &str) -> PodStats {
    let container = ContainerStats {
        name: "c".to_owned(),
        rootfs: Some(fs(root)),
        logs: Some(fs(logs)),
        ..Default::default()
    };
    let volume =
        VolumeStats { name: "v".to_owned(), fs: fs(volume), is_ephemeral: true, ..Default::default() };
    PodStats { containers: vec![container], volumes: vec![volume], ..PodStats::default() }
}

fn order(mut candidates: Vec<Candidate>, signal: Signal, disks: Disks) -> String {
    rank(&mut candidates, signal, disks);
    let names: Vec<&str> =
        candidates.iter().map(|of| of.pod.str_at(&["metadata", "name"]).unwrap()).collect();
    names.join(" ")
}

#[test]
fn pods_above_their_request_go_first_then_the_least_important_then_the_largest() {
    let candidate = |name: &str, priority: i64, request: &str, used: &str| Candidate {
        pod: requesting(name, priority, "memory", request),
        stats: Some(PodStats { memory: memory_usage(used), ..PodStats::default() }),
    };
    let all = vec![
        candidate("p8", 1, "1Gi", "200Mi"),
        candidate("p7", 1, "1Gi", "800Mi"),
        candidate("p6", -1, "1Gi", "200Mi"),
        candidate("p5", -1, "1Gi", "800Mi"),
        candidate("p4", 1, "100Mi", "150Mi"),
        candidate("p3", 1, "100Mi", "600Mi"),
        candidate("p2", -1, "0", "50Mi"),
        candidate("p1", -1, "0", "500Mi"),
        Candidate { pod: requesting("unknown", 9, "memory", "1Gi"), stats: None },
    ];
    assert_eq!(order(all, Signal::MemoryAvailable, ONE_DISK), "unknown p1 p2 p3 p4 p5 p6 p7 p8");
}

#[test]
fn what_running_it_costs_is_no_request_of_a_pod_that_asks_for_nothing() {
    let candidate = |name: &str, priority: i64, requests: &str, used: &str| Candidate {
        pod: pod(
            name,
            priority,
            &format!("overhead: {{memory: 1Gi}}, containers: [{{name: c, resources: {{{requests}}}}}]"),
        ),
        stats: Some(PodStats { memory: memory_usage(used), ..PodStats::default() }),
    };
    let all = vec![
        candidate("within", 0, "requests: {memory: 1Mi}", "100Mi"),
        candidate("above", 1, "requests: {memory: 1Mi}", "2Gi"),
        candidate("takes", 0, "", "100Mi"),
    ];
    assert_eq!(order(all, Signal::MemoryAvailable, ONE_DISK), "takes above within");
}

#[test]
fn of_processes_only_their_number_counts() {
    let candidate = |name: &str, priority: i64, processes: u64| Candidate {
        pod: pod(name, priority, "containers: []"),
        stats: Some(PodStats { process_count: Some(processes), ..PodStats::default() }),
    };
    let all = vec![candidate("a", 1, 90), candidate("b", 0, 5), candidate("c", 0, 50)];
    assert_eq!(order(all, Signal::PidAvailable, ONE_DISK), "c b a");
}

#[test]
fn what_counts_is_what_a_pod_has_on_the_disk_that_is_short() {
    let candidate = |name: &str, root: &str, logs: &str, volume: &str| Candidate {
        pod: requesting(name, 0, "ephemeral-storage", "0"),
        stats: Some(disk_stats(root, logs, volume)),
    };
    let all = || vec![candidate("root", "100Mi", "1Mi", "1Mi"), candidate("volume", "2Mi", "60Mi", "50Mi")];
    assert_eq!(order(all(), Signal::NodeFsAvailable, ONE_DISK), "volume root");
    assert_eq!(order(all(), Signal::ImageFsAvailable, ONE_DISK), "volume root");
    assert_eq!(order(all(), Signal::ImageFsInodesFree, OWN_IMAGE_FS), "root volume");
    assert_eq!(order(all(), Signal::ContainerFsAvailable, OWN_IMAGE_FS), "root volume");
    assert_eq!(order(all(), Signal::NodeFsInodesFree, OWN_IMAGE_FS), "volume root");
    assert_eq!(order(all(), Signal::ContainerFsAvailable, SPLIT), "volume root");
    let mut hosts = candidate("hosts", "1Mi", "1Mi", "1Mi");
    hosts.stats.as_mut().unwrap().own_files = Some(fs("200Mi"));
    let all = || [all(), vec![hosts.clone()]].concat();
    assert_eq!(order(all(), Signal::NodeFsAvailable, ONE_DISK), "hosts volume root");
    assert_eq!(order(all(), Signal::ImageFsAvailable, OWN_IMAGE_FS), "root volume hosts");
}

#[test]
fn images_and_dead_containers_go_before_pods_where_they_are_on_that_disk() {
    let of = |signal, disks| {
        let Reclaim { containers, images } = reclaim(signal, disks);
        (containers, images)
    };
    assert_eq!(of(Signal::MemoryAvailable, ONE_DISK), (false, false));
    assert_eq!(of(Signal::PidAvailable, ONE_DISK), (false, false));
    assert_eq!(of(Signal::NodeFsAvailable, ONE_DISK), (true, true));
    assert_eq!(of(Signal::NodeFsAvailable, OWN_IMAGE_FS), (false, false));
    assert_eq!(of(Signal::ImageFsInodesFree, OWN_IMAGE_FS), (true, true));
    assert_eq!(of(Signal::NodeFsInodesFree, SPLIT), (true, false));
    assert_eq!(of(Signal::ContainerFsAvailable, SPLIT), (true, false));
    assert_eq!(of(Signal::ImageFsAvailable, SPLIT), (false, true));
}

#[test]
fn the_message_names_what_is_short_and_who_took_it() {
    let threshold = hard(Signal::NodeFsAvailable, "2Gi", None);
    let seen = observed(&[(Signal::NodeFsAvailable, "1536Mi", "9Gi"), (Signal::PidAvailable, "500", "9000")]);
    let pod = requesting("p", 0, "ephemeral-storage", "100Mi");
    let stats = disk_stats("650Mi", "50Mi", "0");
    let told = message::pressure(Resource::EphemeralStorage, &pod, Some(&stats), &[&threshold], &seen);
    assert_eq!(
        told.message,
        "The node was low on resource: ephemeral-storage. Threshold quantity: 2Gi, available: 1536Mi. Container c was \
         using 700Mi, request is 100Mi, has larger consumption of ephemeral-storage. "
    );
    let annotations: Vec<(&str, &str)> =
        told.annotations.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        annotations,
        [
            ("offending_containers", "c"),
            ("offending_containers_usage", "700Mi"),
            ("starved_resource", "ephemeral-storage")
        ]
    );
    let pids = hard(Signal::PidAvailable, "1200", None);
    let told = message::pressure(Resource::Pids, &pod, None, &[&threshold, &pids], &seen);
    assert_eq!(
        told.message,
        "The node was low on resource: pids. Threshold quantity: 1200, available: 500. "
    );
    assert!(told.annotations.is_empty());
    let container =
        ContainerStats { name: "c".to_owned(), memory: memory_usage("150Mi"), ..Default::default() };
    let stats = PodStats { containers: vec![container], memory: memory_usage("151Mi"), ..Default::default() };
    let told = message::pressure(Resource::Memory, &pod, Some(&stats), &[&pids], &seen);
    assert_eq!(
        told.message,
        "The node was low on resource: memory. Container c was using 150Mi, request is 0, has larger consumption of memory. "
    );
    let whole = self::pod("p", 0, "resources: {requests: {memory: 10Mi}}, containers: [{name: c}]");
    let told = message::pressure(Resource::Memory, &whole, Some(&stats), &[], &seen);
    assert!(told.message.contains(
        " memory. Pod p was using 151Mi, request is 10Mi, has larger consumption of memory. Container c"
    ));
    let conditions = BTreeSet::from([Condition::PidPressure]);
    assert_eq!(message::refused(&conditions), "The node had condition: [PIDPressure]. ");
}

#[test]
fn pods_over_a_limit_of_their_own_are_told_which() {
    let of = |spec: &str, stats: &PodStats, own_image_fs: bool| {
        limits::exceeded(&pod("p", 0, spec), stats, own_image_fs).map(|exceeded| exceeded.message)
    };
    let volume = "containers: [{name: c}], volumes: [{name: v, emptyDir: {sizeLimit: 10Mi}}]";
    let used = |text: &str| disk_stats("0", "0", text);
    assert_eq!(of(volume, &used("10Mi"), false), None, "up to it");
    let told = "Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\". ".to_owned();
    assert_eq!(of(volume, &used("11Mi"), false), Some(told));
    let other = "containers: [{name: c}], volumes: [{name: v, emptyDir: {sizeLimit: '0'}}]";
    assert_eq!(of(other, &used("11Mi"), false), None, "no limit");

    let limited = "containers: [{name: c, resources: {limits: {ephemeral-storage: 10Mi}}}, {name: d}]";
    let total = PodStats { ephemeral_storage: Some(fs("11Mi")), ..disk_stats("0", "0", "0") };
    let told = "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ".to_owned();
    assert_eq!(of(limited, &total, false), Some(told));
    let told = "Container c exceeded its local ephemeral storage limit \"10Mi\". ".to_owned();
    assert_eq!(of(limited, &disk_stats("8Mi", "3Mi", "0"), false), Some(told));
    assert_eq!(of(limited, &disk_stats("8Mi", "3Mi", "0"), true), None, "its files are elsewhere");

    let what = |spec: &str| limits::limited(&pod("p", 0, spec));
    assert_eq!(what(volume), limits::Limited { volumes: true, containers: false });
    assert_eq!(what(limited), limits::Limited { volumes: true, containers: true });
    assert_eq!(what(other), limits::Limited::default(), "nothing to measure");
}
