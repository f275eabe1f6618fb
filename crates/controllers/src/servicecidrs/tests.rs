use std::net::IpAddr;

use object::Value;

use super::plan::{Plan, plan};

fn tree(text: &str) -> Value {
    runtime::parse(text).expect("a tree")
}

const READY: &str =
    "conditions: [{type: Ready, status: 'True', reason: '', message: Kubernetes Service CIDR is ready}]";
const FINALIZER: &str = "finalizers: [networking.k8s.io/service-cidr-finalizer]";

fn cidr(range: &str, metadata: &str, status: &str) -> Value {
    tree(&format!("{{metadata: {{name: a, {metadata}}}, spec: {{cidrs: [{range}]}}, status: {{{status}}}}}"))
}

fn going(range: &str) -> Value {
    cidr(range, &format!("{FINALIZER}, deletionTimestamp: '1970-01-01T00:01:40Z'"), READY)
}

fn with(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|ip| ip.parse().expect("an address")).collect()
}

#[test]
fn a_new_range_gets_its_finalizer_and_is_ready() {
    let planned = plan(&cidr("10.0.0.0/24", "", ""), &[], Vec::new, 100);
    let Plan::Ready { protect: true, condition: Some(condition) } = planned else { panic!("{planned:?}") };
    let wanted = "{status: {conditions: [{type: Ready, status: 'True', reason: '', message: Kubernetes Service CIDR is ready, lastTransitionTime: '1970-01-01T00:01:40Z'}]}}";
    assert_eq!(condition.configuration(100), tree(wanted));
    let there = cidr("10.0.0.0/24", FINALIZER, READY);
    assert_eq!(plan(&there, &[], Vec::new, 100), Plan::Ready { protect: false, condition: None });
}

#[test]
fn a_range_stays_while_an_address_would_be_orphaned() {
    let planned = plan(&going("10.0.0.0/24"), &[], || with(&["10.1.0.1", "10.0.0.9"]), 1000);
    let Plan::Blocked(Some(condition)) = planned else { panic!("{planned:?}") };
    assert_eq!((condition.status, condition.reason), ("False", "Terminating"));
    // The network's own address and the broadcast one are nobody's.
    assert_eq!(plan(&going("10.0.0.0/24"), &[], || with(&["10.0.0.0", "10.0.0.255"]), 1000), Plan::Release);
}

#[test]
fn another_range_takes_its_addresses_over_unless_it_goes_too() {
    let asks_for_none = || panic!("the other covers it");
    let wide = cidr("10.0.0.0/16", FINALIZER, READY);
    assert_eq!(plan(&going("10.0.0.0/24"), &[wide], asks_for_none, 1000), Plan::Release);
    let part = cidr("10.0.0.0/28", FINALIZER, READY);
    let address = || with(&["10.0.0.9"]);
    assert_eq!(plan(&going("10.0.0.0/24"), std::slice::from_ref(&part), address, 1000), Plan::Release);
    assert!(matches!(plan(&going("10.0.0.0/24"), &[going("10.0.0.0/16")], address, 1000), Plan::Blocked(_)));
}

#[test]
fn a_range_is_released_when_every_server_knows_that_it_goes() {
    assert_eq!(plan(&going("10.0.0.0/24"), &[], Vec::new, 103), Plan::Wait(7));
    assert_eq!(plan(&going("10.0.0.0/24"), &[], Vec::new, 110), Plan::Release);
    let others = cidr("10.0.0.0/24", "deletionTimestamp: '1970-01-01T00:01:40Z'", READY);
    assert_eq!(plan(&others, &[], Vec::new, 200), Plan::Nothing);
}
