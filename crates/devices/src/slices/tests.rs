use super::*;
use crate::node::NodeView;
use crate::testing::json;

fn set(slices: &mut Slices, name: &str, pool: &str, generation: i64, count: i64, spec: &str) {
    let tree = json(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"driver":"d","pool":{{"name":"{pool}","generation":{generation},
        "resourceSliceCount":{count}}},{spec}}}}}"#
    ));
    slices.set(name, Some(Slice::parse(&tree)));
}

/// Pools with their states and slices.
fn seen(slices: &Slices, node: &str) -> Vec<String> {
    let views = slices.views(&NodeView { name: node, labels: &[] }).unwrap();
    let text = |view: &PoolView<'_>| {
        let names: Vec<&str> = view.slices.iter().map(|at| &*view.facts.slices[*at].name).collect();
        format!("{} {:?} {}", view.id.pool, view.state, names.join(","))
    };
    views.iter().map(text).collect()
}

const DEVICE: &str = r#""devices":[{"name":"a","taints":[{"key":"k","effect":"NoExecute"}]}]"#;

#[test]
fn nodes_see_their_own_pools_and_shared_ones() {
    let mut slices = Slices::default();
    set(&mut slices, "one", "p1", 1, 1, &format!(r#""nodeName":"n1",{DEVICE}"#));
    set(&mut slices, "two", "p2", 1, 1, &format!(r#""nodeName":"n2",{DEVICE}"#));
    set(&mut slices, "all", "p0", 1, 1, &format!(r#""allNodes":true,{DEVICE}"#));
    assert_eq!(seen(&slices, "n1"), ["p0 Usable all", "p1 Usable one"]);
    assert_eq!(seen(&slices, "n2"), ["p0 Usable all", "p2 Usable two"]);
    // A slice that moves is no longer where it was.
    set(&mut slices, "one", "p1", 1, 1, &format!(r#""nodeName":"n2",{DEVICE}"#));
    assert_eq!(seen(&slices, "n1"), ["p0 Usable all"]);
    assert_eq!(seen(&slices, "n2"), ["p0 Usable all", "p1 Usable one", "p2 Usable two"]);
    for name in ["one", "two", "all"] {
        assert!(slices.set(name, None).is_some());
    }
    assert!(seen(&slices, "n2").is_empty());
    assert!(slices.pools.is_empty() && slices.by_node.is_empty() && slices.shared.is_empty());
}

#[test]
fn pools_with_counters_bother_other_nodes_only_if_something_is_wrong() {
    let mut slices = Slices::default();
    let counters = r#""nodeName":"n1","sharedCounters":[{"name":"s","counters":{"x":{"value":"1"}}}]"#;
    set(&mut slices, "counters", "p", 1, 2, counters);
    assert_eq!(seen(&slices, "n2"), ["p Incomplete "]);
    set(&mut slices, "devices", "p", 1, 2, &format!(r#""nodeName":"n1",{DEVICE}"#));
    assert!(seen(&slices, "n2").is_empty());
    assert_eq!(seen(&slices, "n1"), ["p Usable devices"]);
    let draws =
        r#""nodeName":"n1","devices":[{"name":"a","consumesCounters":[{"counterSet":"t","counters":{}}]}]"#;
    set(&mut slices, "devices", "p", 1, 2, draws);
    assert_eq!(seen(&slices, "n2"), ["p Invalid "]);
    slices.set("counters", None);
    assert!(seen(&slices, "n2").is_empty() && slices.troubled.is_empty());
}

#[test]
fn devices_are_found_in_the_newest_generation() {
    let mut slices = Slices::default();
    set(&mut slices, "old", "p", 1, 1, &format!(r#""nodeName":"n",{DEVICE}"#));
    let (slice, device) = slices.device("d", "p", "a").unwrap();
    assert_eq!((&*slice.name, device.taints.len()), ("old", 1));
    set(&mut slices, "new", "p", 2, 1, r#""nodeName":"n","devices":[{"name":"b"}]"#);
    assert!(slices.device("d", "p", "a").is_none());
    assert_eq!(slices.pool("d", "p").map(|slice| &*slice.name).collect::<Vec<_>>(), ["new"]);
    slices.set("new", None);
    assert!(slices.device("d", "p", "a").is_some());
    assert!(slices.device("d", "q", "a").is_none());
}

#[test]
fn nodes_of_single_devices_are_indexed() {
    let mut slices = Slices::default();
    let devices = r#""perDeviceNodeSelection":true,"devices":[{"name":"a","nodeName":"n1"},{"name":"b","nodeName":"n2"}]"#;
    set(&mut slices, "s", "p", 1, 1, devices);
    assert!(slices.shared.is_empty());
    assert_eq!(seen(&slices, "n1"), ["p Usable s"]);
    assert!(seen(&slices, "n3").is_empty());
}

#[test]
fn a_node_looks_at_its_own_pools_only() {
    let mut slices = Slices::default();
    let counters = r#""sharedCounters":[{"name":"s","counters":{"x":{"value":"1"}}}]"#;
    for i in 0..500 {
        let (node, pool) = (format!(r#""nodeName":"n{i}""#), format!("p{i}"));
        set(&mut slices, &format!("counters-{i}"), &pool, 1, 2, &format!("{node},{counters}"));
        set(&mut slices, &format!("devices-{i}"), &pool, 1, 2, &format!("{node},{DEVICE}"));
    }
    assert_eq!(seen(&slices, "n7"), ["p7 Usable devices-7"]);
    assert!(slices.shared.is_empty() && slices.troubled.is_empty());
}
