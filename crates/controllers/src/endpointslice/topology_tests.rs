use std::collections::BTreeMap;
use std::sync::Arc;

use kinds::pod::view::PodView;

use super::plan::{Member, NodeOfPod, plan};
use super::slice::SliceView;
use super::tests::after;
use super::topology::*;
use super::zones::{NodeShare, State, ratios};
use crate::services::tests::{pod, service, tree};
use crate::services::{Family, ServiceView};

fn shares(zones: &[(&str, f64)]) -> Ratios {
    zones.iter().map(|(zone, share)| ((*zone).to_owned(), *share)).collect()
}

fn counts(zones: &[(&str, usize)]) -> Counts {
    zones.iter().map(|(zone, count)| ((*zone).to_owned(), *count)).collect()
}

fn node(zone: &str, milli_cpu: i64, counts: bool) -> NodeShare {
    NodeShare { zone: zone.to_owned(), milli_cpu, counts }
}

#[test]
fn a_zone_has_the_share_of_the_cpu_of_its_ready_workers() {
    let of = |nodes: &[NodeShare]| ratios(nodes.iter());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[node("a", 1000, true), node("a", 1000, true)]), None, "one zone");
    assert_eq!(
        of(&[node("a", 1000, true), node("b", 3000, true)]),
        Some(shares(&[("a", 0.25), ("b", 0.75)]))
    );
    assert_eq!(of(&[node("a", 1000, true), node("b", 3000, false)]), None, "one zone that counts");
    assert_eq!(of(&[node("a", 1000, true), node("b", 0, true), node("c", 1, true)]), None, "no CPU said");
    assert_eq!(of(&[node("a", 1000, true), node("", 1, true), node("c", 1, true)]), None, "no zone said");
    let ready = r#""status":{"allocatable":{"cpu":"1500m"},"conditions":[{"type":"Ready","status":"True"}]}"#;
    let read =
        |labels: &str| NodeShare::read(&tree(&format!(r#"{{"metadata":{{"labels":{labels}}},{ready}}}"#)));
    assert_eq!(read(r#"{"topology.kubernetes.io/zone":"a"}"#), node("a", 1500, true));
    assert!(!read(r#"{"node-role.kubernetes.io/control-plane":""}"#).counts);
    assert!(!read(r#"{"node-role.kubernetes.io/master":""}"#).counts);
    assert!(!NodeShare::read(&tree(r#"{"status":{"allocatable":{"cpu":2}}}"#)).counts);
}

#[test]
fn a_zone_s_share_may_vary_by_a_fifth_of_the_load() {
    let made = allocations(Some(&shares(&[("a", 0.25), ("b", 0.75)])), 20).unwrap();
    assert_eq!(made["a"], Allocation { minimum: 5, maximum: 7, desired: 5.0 });
    assert_eq!(made["b"], Allocation { minimum: 13, maximum: 15, desired: 15.0 });
    // A zone gets one at least.
    let made = allocations(Some(&shares(&[("a", 0.01), ("b", 0.99)])), 10).unwrap();
    assert_eq!(made["a"], Allocation { minimum: 1, maximum: 1, desired: 1.0 });
}

#[test]
fn impossible_allocations_say_why() {
    let why = |ratios: Option<&Ratios>, endpoints| allocations(ratios, endpoints).unwrap_err();
    assert_eq!(
        why(None, 9),
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
    );
    let three = shares(&[("a", 0.3), ("b", 0.4), ("c", 0.3)]);
    assert_eq!(why(Some(&three), 2), "Insufficient number of endpoints (2 endpoints, 3 zones)");
    assert_eq!(
        why(Some(&shares(&[("a", 0.6), ("b", 0.4)])), 3),
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 2 zones)"
    );
}

#[test]
fn surplus_goes_where_it_is_needed_most() {
    type Case<'a> = (&'a [f64; 3], &'a [(&'a str, usize)], &'a [(&'a str, usize)], &'a [(&'a str, usize)]);
    let cases: &[Case<'_>] = &[
        (&[1.2, 1.1, 1.0], &[("a", 1), ("b", 1), ("c", 1)], &[], &[]),
        (&[5.1, 5.1, 5.8], &[("a", 16)], &[("a", 10)], &[("b", 5), ("c", 5)]),
        (&[5.0, 5.6, 5.4], &[("a", 16)], &[("a", 11)], &[("b", 6), ("c", 5)]),
        (&[5.0, 5.6, 5.4], &[("b", 8), ("c", 8)], &[("b", 2), ("c", 3)], &[("a", 5)]),
        (&[5.0, 5.0, 5.0], &[("a", 6), ("b", 6), ("c", 6)], &[], &[]),
    ];
    for (desired, there, giving, receiving) in cases {
        let allocation = |desired: &f64| Allocation { minimum: 0, maximum: 0, desired: *desired };
        let zones = ["a", "b", "c"].into_iter().zip(desired.iter());
        let allocations: BTreeMap<_, _> = zones.map(|(zone, d)| (zone.to_owned(), allocation(d))).collect();
        assert_eq!(
            exchange(&allocations, &counts(there)),
            (counts(giving), counts(receiving)),
            "{desired:?}"
        );
    }
}

#[test]
fn a_zone_with_too_few_endpoints_for_its_cpu_is_overloaded() {
    let half = shares(&[("a", 0.5), ("b", 0.5)]);
    assert!(!is_overloaded(&counts(&[]), Some(&half)));
    assert!(is_overloaded(&counts(&[("a", 1)]), None));
    assert!(is_overloaded(&counts(&[("a", 1)]), Some(&half)), "nobody serves b");
    assert!(!is_overloaded(&counts(&[("a", 6), ("b", 5)]), Some(&half)));
    assert!(is_overloaded(&counts(&[("a", 7), ("b", 4)]), Some(&half)));
    // Also looked at again: what was not possible before.
    let denied = Hinted { denied: BTreeMap::from([(Family::V4, 4)]), ..Hinted::default() };
    assert!(denied.needs_reconcile(Some(&half)) && !denied.needs_reconcile(None));
}

#[test]
fn node_changes_requeue_overloaded_services_and_overtaken_reconciles() {
    let (mut state, key) = (State::default(), runtime::Key::new("default", "web"));
    let half = shares(&[("a", 0.5), ("b", 0.5)]);
    let zones = BTreeMap::from([(Family::V4, counts(&[("a", 1), ("b", 1)]))]);
    let hinted = Hinted { zones, ..Hinted::default() };
    assert!(state.saw("n", Some(node("a", 1000, true))).is_empty());
    assert!(state.saw("m", Some(node("b", 1000, true))).is_empty());
    assert!(!state.note(&key, hinted.clone(), Some(&half)));
    assert!(state.saw("m", Some(node("b", 1000, true))).is_empty(), "nothing new");
    assert!(state.saw("o", Some(node("b", 100, true))).is_empty(), "nobody is overloaded by so little");
    assert_eq!(state.saw("m", None), std::slice::from_ref(&key));
    assert_eq!(state.saw("o", None), std::slice::from_ref(&key));
    assert!(state.note(&key, hinted, Some(&half)), "planned with zones that are no more");
    assert!(!state.note(&key, Hinted::default(), Some(&half)), "it no longer asks");
    assert!(state.saw("n", None).is_empty());
}

const WEB: &str =
    r#"{"selector":{"app":"web"},"clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"ports":[{"port":80}]}"#;

fn auto(spec: &str) -> ServiceView {
    ServiceView { topology_auto: true, ..service(spec) }
}

/// Pods p0, p1, … in these zones.
fn members<'a>(names: &'a [String], zones: &[&str]) -> Vec<Member<'a>> {
    let member = |(i, zone): (usize, &&str)| Member {
        namespace: "default",
        name: &names[i],
        uid: &names[i],
        pod: Arc::new(PodView { ports: Box::new([]), ..pod(&format!("10.0.0.{}", 100 + i)) }),
        node: NodeOfPod::There((!zone.is_empty()).then(|| (*zone).to_owned())),
    };
    zones.iter().enumerate().map(member).collect()
}

/// For which zones the endpoints are, in the order of their pods.
fn hints(slices: &[Arc<SliceView>]) -> Vec<String> {
    let mut all: Vec<_> = slices.iter().flat_map(|slice| slice.endpoints.iter()).collect();
    all.sort_by_key(|endpoint| endpoint.addresses.clone());
    all.iter().map(|endpoint| endpoint.hints.zones.join("+")).collect()
}

#[test]
fn endpoints_serve_their_zone_and_surplus_ones_another() {
    let names: Vec<String> = (0..9).map(|i| format!("p{i}")).collect();
    let half = shares(&[("a", 0.5), ("b", 0.5)]);
    let (web, mut hinted) = (auto(WEB), Hinted::default());
    let pods = members(&names, &["a", "a", "a", "b"]);
    let first = plan(&web, &pods, &[], 100, false, Some(&half), &mut hinted);
    assert_eq!(first.notes.news, [News::Enabled(Family::V4)]);
    assert_eq!(first.notes.news[0].message(), "Topology Aware Hints has been enabled, addressType: IPv4");
    let slices = after(&web, &[], &first);
    assert_eq!(hints(&slices), ["b", "a", "a", "b"]);
    assert_eq!(hinted.zones[&Family::V4], counts(&[("a", 2), ("b", 2)]));

    // It stays so; nobody is told again.
    let next = plan(&web, &pods, &slices, 100, false, Some(&half), &mut hinted);
    assert_eq!((next.update.len(), next.notes.news.len()), (0, 0));

    // Too few: the hints go, and come again with a third.
    let fewer = plan(&web, &pods[3..], &slices, 100, false, Some(&half), &mut hinted);
    let why = "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    assert_eq!(
        (fewer.notes.news[0].reason(), fewer.notes.news[0].message().as_str()),
        ("TopologyAwareHintsDisabled", why)
    );
    assert_eq!(hints(&after(&web, &slices, &fewer)), [""]);
    assert_eq!(hinted, Hinted { denied: BTreeMap::from([(Family::V4, 1)]), ..Hinted::default() });
    let back = plan(&web, &pods, &slices, 100, false, Some(&half), &mut hinted);
    assert_eq!(back.notes.news, [News::Enabled(Family::V4)]);

    // The annotation goes, and the hints with it.
    let plain = service(WEB);
    let off = plan(&plain, &pods, &slices, 100, false, Some(&half), &mut hinted);
    assert_eq!(off.notes.news[0].message(), "Topology Aware Hints has been disabled, addressType: IPv4");
    assert_eq!(hints(&after(&plain, &slices, &off)), ["", "", "", ""]);
    assert_eq!(hinted, Hinted::default());
    let off = plan(&plain, &pods, &slices, 100, false, Some(&half), &mut hinted);
    assert!(off.notes.news.is_empty());
}

#[test]
fn hints_need_ready_endpoints_that_all_have_a_zone() {
    let names: Vec<String> = (0..9).map(|i| format!("p{i}")).collect();
    let half = shares(&[("a", 0.5), ("b", 0.5)]);
    let (web, mut hinted) = (auto(WEB), Hinted::default());
    let mut pods = members(&names, &["a", "b", "a"]);
    pods[2].pod = Arc::new(PodView { ready: false, ..(*pods[2].pod).clone() });
    let slices = after(&web, &[], &plan(&web, &pods, &[], 100, false, Some(&half), &mut hinted));
    assert_eq!(hints(&slices), ["a", "b", ""]);
    let pods = members(&names, &["a", "b", "a", ""]);
    let next = plan(&web, &pods, &slices, 100, false, Some(&half), &mut hinted);
    assert_eq!(
        next.notes.news[0].message(),
        "One or more endpoints do not have a zone specified, addressType: IPv4"
    );
    assert_eq!(hints(&after(&web, &slices, &next)), ["", "", "", ""]);
    assert_eq!(hinted, Hinted::default());
}

#[test]
fn the_annotation_overrides_traffic_distribution_and_vanished_zones_are_replaced() {
    let names: Vec<String> = (0..9).map(|i| format!("p{i}")).collect();
    let spec = WEB.replace("\"selector\"", "\"trafficDistribution\":\"PreferSameNode\",\"selector\"");
    let (web, mut hinted) = (auto(&spec), Hinted::default());
    let pods = members(&names, &["a", "a", "b", "b"]);
    let half = shares(&[("a", 0.5), ("b", 0.5)]);
    let slices = after(&web, &[], &plan(&web, &pods, &[], 100, false, Some(&half), &mut hinted));
    assert_eq!(hints(&slices), ["a", "a", "b", "b"]);
    assert!(slices[0].endpoints.iter().all(|endpoint| endpoint.hints.nodes.is_empty()));
    let other = shares(&[("a", 0.5), ("c", 0.5)]);
    assert!(hinted.needs_reconcile(Some(&other)));
    let next = plan(&web, &pods, &slices, 100, false, Some(&other), &mut hinted);
    // b has no nodes that count: its endpoints keep serving it until they are needed.
    assert_eq!(next.update.len(), 1);
    // Families that are no longer served leave nothing behind.
    let v6 = auto(&WEB.replace("IPv4", "IPv6"));
    plan(&v6, &[], &slices, 100, false, None, &mut hinted);
    assert!(hinted.zones.is_empty());
}
