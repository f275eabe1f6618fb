use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use devices::{Allocation, Classes, DeviceClass};

use super::extended::ExtendedRequests;
use super::{DynamicResources, ResourceClaim};
use crate::pod::ContainerRequests;
use crate::testing::tree;

fn claim(uid: &str, revision: u64, status: &str) -> Arc<ResourceClaim> {
    Arc::new(ResourceClaim::parse(&tree(&format!(
        r#"{{"metadata":{{"name":"c","namespace":"ns","uid":"{uid}","resourceVersion":"{revision}"}},"status":{{{status}}}}}"#
    ))))
}

const DEVICES: &str =
    r#""allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"x"}]}}"#;

fn allocation() -> Arc<Allocation> {
    claim("any", 1, DEVICES).allocation.as_ref().expect("it has one").devices.clone()
}

#[test]
fn what_was_seen_late_does_not_undo_what_the_server_answered() {
    let mut known = DynamicResources::default();
    known.set_claim("ns", "c", Some(claim("u", 1, "")));
    known.reserve(&"u".into(), &allocation());
    assert!(known.is_in_flight("u"));
    assert!(known.assume(claim("u", 5, DEVICES)).is_some());
    assert!(!known.is_in_flight("u") && known.allocated.holds("u"));
    assert!(known.set_claim("ns", "c", Some(claim("u", 3, ""))).is_none());
    assert!(known.allocated.holds("u"));
    assert!(known.set_claim("ns", "c", Some(claim("u", 6, ""))).is_some());
    assert!(!known.allocated.holds("u"));
    // One that is gone is not brought back by an answer that came late.
    known.set_claim("ns", "c", None);
    assert!(known.assume(claim("u", 9, DEVICES)).is_none() && !known.allocated.holds("u"));
}

#[test]
fn devices_in_flight_are_held_whatever_else_is_written_to_the_claim() {
    let mut known = DynamicResources::default();
    known.set_claim("ns", "c", Some(claim("u", 1, "")));
    known.reserve(&"u".into(), &allocation());
    known.set_claim("ns", "c", Some(claim("u", 2, "")));
    assert!(known.allocated.holds("u"));
    assert!(known.release("u") && !known.allocated.holds("u"));
    known.reserve(&"u".into(), &allocation());
    known.set_claim("ns", "c", None);
    assert!(!known.allocated.holds("u") && !known.is_in_flight("u"));
}

#[test]
fn a_write_without_an_answer_holds_its_devices_until_it_cannot_come_any_more() {
    let seconds = Duration::from_secs;
    let mut known = DynamicResources::default();
    known.set_claim("ns", "c", Some(claim("u", 4, "")));
    known.reserve(&"u".into(), &allocation());
    known.doubt("u", 4, seconds(10));
    assert!(known.allocated.holds("u") && !known.expire(seconds(129)));
    assert_eq!(known.next_deadline(), Some(seconds(130)));
    assert!(known.expire(seconds(130)) && !known.allocated.holds("u"));
    known.reserve(&"u".into(), &allocation());
    known.doubt("u", 4, seconds(200));
    known.set_claim("ns", "c", Some(claim("u", 5, "")));
    assert!(!known.allocated.holds("u") && known.next_deadline().is_none());
    // A claim that was made meanwhile is seen in its first version before the one with its devices.
    known.reserve(&"later".into(), &allocation());
    known.hold_until_seen("later", &claim("made", 8, DEVICES), seconds(300));
    known.set_claim("ns", "c", Some(claim("made", 7, "")));
    assert!(known.allocated.holds("made") && !known.allocated.holds("later"));
    known.set_claim("ns", "c", Some(claim("made", 8, DEVICES)));
    assert!(known.allocated.holds("made") && !known.is_in_flight("made") && known.next_deadline().is_none());
}

#[test]
fn share_ids_differ_and_are_uuids() {
    let mut known = DynamicResources::default();
    known.seed_share_ids([1, 2]);
    let ids: BTreeSet<String> = (0..1000).map(|_| known.share_id()).collect();
    assert_eq!(ids.len(), 1000);
    for id in ids {
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
    }
}

fn container(name: &str, short_lived: bool, requests: &[(&str, i64)]) -> ContainerRequests {
    let requests = requests.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
    ContainerRequests { name: name.into(), short_lived, requests }
}

#[test]
fn containers_that_end_early_use_what_later_ones_need_and_share_the_rest() {
    let mut classes = Classes::default();
    let class = r#"{"metadata":{"name":"gpu"},"spec":{"extendedResourceName":"e.com/gpu"}}"#;
    classes.set("gpu", Some(DeviceClass::parse(&tree(class))));
    let containers = [
        container("i0", true, &[("cpu", 1), ("e.com/gpu", 5)]),
        container("side", false, &[("e.com/gpu", 1)]),
        container("i1", true, &[("e.com/gpu", 2)]),
        container("i2", true, &[("e.com/gpu", 4)]),
        container("main", false, &[("cpu", 1), ("e.com/gpu", 2), ("memory", 1)]),
    ];
    let resource: Arc<str> = "e.com/gpu".into();
    let found = ExtendedRequests::new(&containers, &[&resource], &classes);
    let requests: Vec<_> = found.requests.iter().map(|r| (r.name.as_str(), r.count)).collect();
    // The first asks for two beyond the three of those that stay, the last for two beyond the two of the one behind it.
    assert_eq!(
        requests,
        [("container-0-request-1", 2), ("container-1-request-0", 1), ("container-4-request-1", 2)]
    );
    let mappings: Vec<_> = found.mappings.iter().map(|m| (&*m.container, m.request.as_str())).collect();
    assert_eq!(
        mappings,
        [
            ("side", "container-1-request-0"),
            ("main", "container-4-request-1"),
            ("i0", "container-1-request-0"),
            ("i0", "container-4-request-1"),
            ("i0", "container-0-request-1"),
            ("i1", "container-4-request-1"),
            ("i2", "container-4-request-1"),
            ("i2", "container-0-request-1"),
        ]
    );
}
