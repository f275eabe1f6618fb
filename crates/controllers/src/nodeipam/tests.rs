use std::collections::BTreeSet;

use object::Value;

use super::cidr::Cidr;
use super::cidr_set::CidrSet;
use super::plan::{Allocator, Plan};
use super::settings::{MaskSizes, NodeIpam};

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn ipam(cluster: &str, services: &[&str]) -> NodeIpam {
    NodeIpam::new(cluster, MaskSizes::default(), services.iter().map(|text| cidr(text)).collect()).unwrap()
}

fn node(cidrs: &[&str]) -> Value {
    let mut node = Value::map();
    node.map_at(&["metadata"]).set("name", "n");
    let list = cidrs.iter().map(|text| Value::from((*text).to_owned())).collect();
    node.map_at(&["spec"]).set("podCIDRs", Value::List(list));
    node
}

fn next(allocator: &mut Allocator) -> Vec<String> {
    match allocator.plan(&node(&[])) {
        Plan::Assign { blocks, .. } => blocks.iter().map(Cidr::to_string).collect(),
        other => panic!("{other:?}"),
    }
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
    allocator.occupy("other", &node(&["10.244.2.0/24"])).unwrap();
    assert_eq!(next(&mut allocator), ["10.244.3.0/24", "fd00:10:244::/64"]);
    assert_eq!(next(&mut allocator), ["10.244.4.0/24", "fd00:10:244:1::/64"]);
    let Plan::Assign { patch, .. } = allocator.plan(&node(&[])) else { panic!("there are more") };
    assert_eq!(patch.str_at(&["spec", "podCIDR"]), Some("10.244.5.0/24"));
    assert_eq!(allocator.plan(&node(&["10.9.0.0/24"])), Plan::Nothing, "it has one");
    let error = allocator.occupy("n", &node(&["10.244.7.0/24", "fd00:10:244:7::/64", "10.0.0.0/8"]));
    assert!(error.unwrap_err().contains("at index:2 that does not exist"));
}

#[test]
fn a_node_that_finds_one_family_full_takes_nothing_of_the_other() {
    let sizes = MaskSizes { v4: Some(24), v6: Some(64), ..MaskSizes::default() };
    let settings = NodeIpam::new("10.244.0.0/16,fd00::/64", sizes, Vec::new()).unwrap();
    let mut allocator = Allocator::new(&settings);
    assert_eq!(next(&mut allocator)[0], "10.244.0.0/24");
    for _ in 0..300 {
        assert!(matches!(allocator.plan(&node(&[])), Plan::Full(_)));
    }
    allocator.release(&node(&["10.244.0.0/24", "fd00::/64"])).unwrap();
    assert!(matches!(allocator.plan(&node(&[])), Plan::Assign { .. }));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let refused = |cluster: &str, any, v4, v6| {
        NodeIpam::new(cluster, MaskSizes { any, v4, v6 }, Vec::new()).map(|_| ()).unwrap_err()
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
    ipam.reserve([cidr("10.244.0.0/24"), cidr("192.168.0.0/24")]);
    let mut allocator = Allocator::new(&ipam);
    let own = node(&["10.244.0.0/24"]);
    allocator.occupy("own", &own).unwrap();
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
