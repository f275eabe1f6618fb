use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use object::Value;

use super::cidr::Cidr;
use super::cidr_set::CidrSet;
use super::plan::{Allocator, Overlap, Plan};
use super::settings::{MaskSizes, NodeIpam};

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn ipam(cluster: &str, services: &[&str]) -> NodeIpam {
    NodeIpam::new(cluster, MaskSizes::default(), services.iter().map(|text| cidr(text)).collect()).unwrap()
}

fn node(cidrs: &[&str]) -> Value {
    named("n", cidrs)
}

fn named(name: &str, cidrs: &[&str]) -> Value {
    let mut node = Value::map();
    node.map_at(&["metadata"]).set("name", name);
    let list = cidrs.iter().map(|text| Value::from((*text).to_owned())).collect();
    node.map_at(&["spec"]).set("podCIDRs", Value::List(list));
    node
}

/// A node nobody asked for before.
fn new_node() -> Value {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    named(&format!("new-{}", NEXT.fetch_add(1, Relaxed)), &[])
}

fn next(allocator: &mut Allocator) -> Vec<String> {
    match allocator.plan(&new_node()) {
        Plan::Assign { blocks, .. } => blocks.iter().map(Cidr::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

/// All of it in the cluster CIDRs; whom it overlaps.
fn occupy(allocator: &mut Allocator, node: &Value) -> Vec<Overlap> {
    let (overlaps, done) = allocator.occupy(node.str_at(&["metadata", "name"]).unwrap(), node);
    done.unwrap();
    overlaps
}

#[test]
fn blocks_are_given_in_turn_and_one_given_back_comes_again_last() {
    let mut set = CidrSet::new(cidr("10.244.0.0/16"), 18);
    let mut take = || set.allocate().map(|block| block.to_string());
    assert_eq!(take().as_deref(), Some("10.244.0.0/18"));
    assert_eq!(take().as_deref(), Some("10.244.64.0/18"));
    set.release(&cidr("10.244.0.0/18")).unwrap();
    let rest: Vec<String> = std::iter::from_fn(|| set.allocate()).map(|block| block.to_string()).collect();
    assert_eq!(rest, ["10.244.128.0/18", "10.244.192.0/18", "10.244.0.0/18"]);
    assert!(set.occupy(&cidr("10.0.0.0/24")).is_err());
}

#[test]
fn the_ranges_agree_with_a_plain_set() {
    let mut dice = 7u64;
    let mut roll = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    let (mut set, mut model) = (CidrSet::new(cidr("10.0.0.0/24"), 30), BTreeSet::new());
    let mut turn = 0;
    for _ in 0..5000 {
        let size = 26 + roll(7) as u8;
        let at = Cidr::new(false, (10 << 24) | u128::from(roll(256)), size);
        let numbers = ((at.first & 255) >> 2) as u64..=((at.last() & 255) >> 2) as u64;
        match roll(3) {
            0 => {
                set.occupy(&at).unwrap();
                model.extend(numbers);
            }
            1 => {
                set.release(&at).unwrap();
                model.retain(|number| !numbers.contains(number));
            }
            _ => {
                let free = (turn..64).chain(0..turn).find(|number| !model.contains(number));
                let given = set.allocate().map(|block| ((block.first & 255) >> 2) as u64);
                assert_eq!(given, free);
                if let Some(number) = free {
                    model.insert(number);
                    turn = (number + 1) % 64;
                }
            }
        }
    }
}

#[test]
fn a_huge_range_costs_nothing() {
    let mut set = CidrSet::new(cidr("0.0.0.0/0"), 32);
    set.occupy(&cidr("0.0.0.0/1")).unwrap();
    assert_eq!(set.allocate().map(|block| block.to_string()).as_deref(), Some("128.0.0.0/32"));
    let mut whole = CidrSet::new(cidr("::/0"), 0);
    assert_eq!(whole.allocate().map(|block| block.to_string()).as_deref(), Some("::/0"));
    assert!(whole.allocate().is_none());
}

#[test]
fn a_node_gets_a_block_of_each_family_and_none_of_the_services() {
    let mut allocator = Allocator::new(&ipam("10.244.0.0/16,fd00:10:244::/48", &["10.244.0.0/23"]));
    occupy(&mut allocator, &named("other", &["10.244.2.0/24"]));
    assert_eq!(next(&mut allocator), ["10.244.3.0/24", "fd00:10:244::/64"]);
    assert_eq!(next(&mut allocator), ["10.244.4.0/24", "fd00:10:244:1::/64"]);
    let Plan::Assign { patch, .. } = allocator.plan(&node(&[])) else { panic!("there are more") };
    assert_eq!(patch.str_at(&["spec", "podCIDR"]), Some("10.244.5.0/24"));
    assert_eq!(allocator.plan(&node(&["10.9.0.0/24"])), Plan::Nothing, "it has one");
    let (_, error) = allocator.occupy("third", &node(&["10.244.7.0/24", "fd00:10:244:7::/64", "10.0.0.0/8"]));
    assert!(error.unwrap_err().contains("at index:2 that does not exist"));
}

#[test]
fn a_node_that_finds_one_family_full_takes_nothing_of_the_other() {
    let sizes = MaskSizes { v4: Some(24), v6: Some(64), ..MaskSizes::default() };
    let settings = NodeIpam::new("10.244.0.0/16,fd00::/64", sizes, Vec::new()).unwrap();
    let mut allocator = Allocator::new(&settings);
    occupy(&mut allocator, &named("first", &["10.244.0.0/24", "fd00::/64"]));
    for _ in 0..300 {
        assert!(matches!(allocator.plan(&node(&[])), Plan::Full(_)));
    }
    allocator.release(&named("first", &["10.244.0.0/24", "fd00::/64"])).unwrap();
    assert!(matches!(allocator.plan(&node(&[])), Plan::Assign { .. }));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let refused = |cluster: &str, any, v4, v6| {
        NodeIpam::new(cluster, MaskSizes { any, v4, v6 }, Vec::new()).map(|_| ()).unwrap_err().to_string()
    };
    let fits = |cluster: &str, any, v4, v6| {
        NodeIpam::new(cluster, MaskSizes { any, v4, v6 }, Vec::new()).map(|_| ()).unwrap();
    };
    fits("10.0.0.0/16", Some(16), None, None);
    fits("fd00::/56", None, None, Some(72));
    fits("10.0.0.0/16, fd00::/60".replace(' ', "").as_str(), None, Some(20), None);
    assert!(refused("", None, None, None).contains("Must specify --cluster-cidr"));
    assert!(refused("10.0.0.0", None, None, None).contains("invalid CIDR"));
    assert!(refused("10.0.0.0/16,10.1.0.0/16", None, None, None).contains("not configured as dual stack"));
    assert!(refused("10.0.0.0/16,fd00::/48,fd01::/48", None, None, None).contains("max allowed of 2"));
    assert!(refused("10.0.0.0/16,fd00::/48", Some(24), None, None).contains("not allowed with dual-stack"));
    assert!(refused("10.0.0.0/16", Some(24), Some(24), None).contains("is not allowed if --node-cidr-mask"));
    assert!(refused("fd00::/48", None, Some(24), None).contains("single-stack IPv6"));
    assert!(refused("10.0.0.0/16", None, None, Some(64)).contains("single-stack IPv4"));
    assert!(refused("10.0.0.0/25", None, None, None).contains("Invalid --cluster-cidr"));
    assert!(refused("10.0.0.0/16", Some(33), None, None).contains("Invalid --cluster-cidr"));
    assert!(refused("fd00::/47", None, None, None).contains("too big"));
}

#[test]
fn what_is_reserved_is_never_given_also_after_a_node_had_it() {
    let mut ipam = ipam("10.244.0.0/16", &["10.96.0.0/16"]);
    ipam.reserve("own", [cidr("10.244.0.0/24"), cidr("192.168.0.0/24")]);
    let mut allocator = Allocator::new(&ipam);
    assert_eq!(allocator.plan(&named("own", &[])), Plan::Nothing, "it writes its own range");
    let own = named("own", &["10.244.0.0/24"]);
    occupy(&mut allocator, &own);
    assert_eq!(next(&mut allocator), ["10.244.1.0/24"]);
    allocator.release(&own).unwrap();
    for block in 2..256 {
        assert_eq!(next(&mut allocator), [format!("10.244.{block}.0/24")]);
    }
    assert!(matches!(allocator.plan(&node(&[])), Plan::Full(_)));
}

#[test]
fn unless_it_is_asked_for_only_nodes_with_a_kubelet_get_blocks() {
    let mut allocator = Allocator::new(&ipam("10.244.0.0/16", &[]).kubelets_only());
    let mut of = |runtime: &str| {
        let mut node = node(&[]);
        node.map_at(&["status", "nodeInfo"]).set("containerRuntimeVersion", runtime);
        matches!(allocator.plan(&node), Plan::Assign { .. })
    };
    assert!(of("setpoint://0.1.0") && of("containerd://2.0.0"));
    assert!(!of("simulated://0.1.0") && !of(""));
}

#[test]
fn what_two_nodes_have_in_common_stays_taken_until_both_are_gone() {
    let sizes = MaskSizes { any: Some(24), ..MaskSizes::default() };
    let mut allocator = Allocator::new(&NodeIpam::new("10.244.0.0/22", sizes, Vec::new()).unwrap());
    let overlap = |text: &str, other: &str| Overlap { cidr: cidr(text), other: other.to_owned() };
    let (a, b) = (named("a", &["10.244.1.0/24"]), named("b", &["10.244.1.0/25"]));
    assert_eq!(occupy(&mut allocator, &a), []);
    assert_eq!(occupy(&mut allocator, &b), [overlap("10.244.1.0/25", "a")]);
    assert_eq!(occupy(&mut allocator, &b), [], "told once");
    // These have two parts of one block.
    let c = named("c", &["10.244.2.0/25"]);
    assert_eq!(occupy(&mut allocator, &c), []);
    assert_eq!(occupy(&mut allocator, &named("d", &["10.244.2.128/25"])), []);
    allocator.release(&a).unwrap();
    allocator.release(&c).unwrap();
    assert_eq!([next(&mut allocator), next(&mut allocator)], [["10.244.0.0/24"], ["10.244.3.0/24"]]);
    assert!(matches!(allocator.plan(&new_node()), Plan::Full(_)));
    allocator.release(&b).unwrap();
    assert_eq!(next(&mut allocator), ["10.244.1.0/24"]);
    // Nobody allocates from there, and still only one can have it.
    assert!(allocator.occupy("e", &named("e", &["10.9.0.0/16"])).1.is_err());
    let (overlaps, _) = allocator.occupy("f", &named("f", &["10.9.7.0/24"]));
    assert_eq!(overlaps, [overlap("10.9.7.0/24", "e")]);
}

#[test]
fn what_a_node_was_given_is_proposed_again_until_it_has_it_and_freed_if_it_has_another() {
    let mut allocator = Allocator::new(&ipam("10.244.0.0/23", &[]));
    let mut given = |name: &str| match allocator.plan(&named(name, &[])) {
        Plan::Assign { blocks, .. } => blocks,
        _ => Vec::new(),
    };
    let first = given("a");
    assert_eq!(first, [cidr("10.244.0.0/24")]);
    assert_eq!(given("a"), first);
    assert_eq!((given("b"), given("c")), (vec![cidr("10.244.1.0/24")], Vec::new()));
    // The heartbeat before: its object shows none yet.
    allocator.occupy("a", &named("a", &[])).1.unwrap();
    assert!(matches!(allocator.plan(&named("c", &[])), Plan::Full(_)));
    let _ = allocator.occupy("a", &named("a", &["10.9.0.0/24"]));
    assert!(matches!(allocator.plan(&named("c", &[])), Plan::Assign { blocks, .. } if blocks == first));
    allocator.give_back("a", &first);
    assert!(matches!(allocator.plan(&named("d", &[])), Plan::Full(_)), "it is c's now");
}

#[test]
fn blocks_that_a_node_has_or_may_have_are_not_given_back() {
    let mut allocator = Allocator::new(&ipam("10.244.0.0/22", &[]));
    let plan = |allocator: &mut Allocator, name: &str| match allocator.plan(&named(name, &[])) {
        Plan::Assign { blocks, .. } => blocks,
        other => panic!("{other:?}"),
    };
    // Refused: nobody has written it.
    let blocks = plan(&mut allocator, "refused");
    allocator.note_answer("refused", 403);
    allocator.give_back("refused", &blocks);
    // The answer was lost, and what came later says nothing of that; neither do the tries of the next time.
    let lost = plan(&mut allocator, "lost");
    for code in [504, 429, 403] {
        allocator.note_answer("lost", code);
    }
    allocator.give_back("lost", &lost);
    assert_eq!(plan(&mut allocator, "lost"), lost);
    allocator.note_answer("lost", 403);
    allocator.give_back("lost", &lost);
    // It has been seen to have it.
    let seen = plan(&mut allocator, "seen");
    occupy(&mut allocator, &named("seen", &[&seen[0].to_string()]));
    allocator.give_back("seen", &seen);
    // It was written, and its object does not show it yet.
    let written = plan(&mut allocator, "written");
    for code in [200, 403] {
        allocator.note_answer("written", code);
    }
    allocator.give_back("written", &written);
    assert_eq!(next(&mut allocator), ["10.244.0.0/24"]);
    assert!(matches!(allocator.plan(&new_node()), Plan::Full(_)));
    // With the node they are free again.
    allocator.release(&named("lost", &[])).unwrap();
    assert_eq!(next(&mut allocator), [lost[0].to_string()]);
}
