//! Claims: devices are reserved as soon as a pod has a node, and changes are told to those they concern only.

use std::sync::Arc;

use object::Value;

use super::scores::{configured, with};
use crate::engine::WrittenClaims;
use crate::testing::{NOW, engine, next, node, node_of, pod, rng, tree};
use crate::{Engine, ScheduleResult};

fn slice(node: &str, devices: usize) -> Value {
    let devices: Vec<String> = (0..devices).map(|n| format!(r#"{{"name":"g{n}"}}"#)).collect();
    tree(&format!(
        r#"{{"metadata":{{"name":"{node}"}},"spec":{{"driver":"d.io","nodeName":"{node}",
            "pool":{{"name":"{node}","generation":1,"resourceSliceCount":1}},"devices":[{}]}}}}"#,
        devices.join(",")
    ))
}

fn claim(name: &str, revision: u64, status: &str) -> Value {
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}-uid","resourceVersion":"{revision}"}},
            "spec":{{"devices":{{"requests":[{{"name":"r","exactly":{{"deviceClassName":"gpu",
            "allocationMode":"ExactCount","count":1}}}}]}}}},"status":{{{status}}}}}"#
    ))
}

fn user(name: &str, claim: &str) -> Value {
    pod(name, "", "", &format!(r#""resourceClaims":[{{"name":"r","resourceClaimName":"{claim}"}}]"#))
}

/// One node with so many devices, and a claim for each of these.
fn begin(devices: usize, claims: &[&str]) -> Engine {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_device_class("gpu", Some(&tree(r#"{"metadata":{"name":"gpu"},"spec":{}}"#)), NOW);
    engine.set_resource_slice("n1", Some(&slice("n1", devices)), NOW);
    for name in claims {
        engine.set_resource_claim("ns", name, Some(&claim(name, 1, "")), NOW);
    }
    engine
}

#[test]
fn a_device_in_flight_is_given_to_nobody_else_until_that_failed() {
    let mut engine = begin(1, &["c1", "c2"]);
    engine.set_pod(&user("a", "c1"), NOW);
    engine.set_pod(&user("b", "c2"), NOW);
    let Some(ScheduleResult::BindClaims { claims, .. }) = engine.next(NOW, &mut rng(1)) else {
        panic!("the claim is written first")
    };
    assert!(claims.claims[0].1.is_some());
    let refused = next(&mut engine).expect_err("it is taken");
    assert!(refused.contains("1 cannot allocate all claims"), "{refused}");
    assert_eq!(engine.lengths().unschedulable, 1);
    let error = Some("refused".to_owned());
    engine.claims_written("a", WrittenClaims { error, ..WrittenClaims::default() }, NOW);
    let failed = next(&mut engine).expect_err("it was refused");
    assert_eq!(failed, "running PreBind plugin \"DynamicResources\": refused");
    assert_eq!((engine.lengths().unschedulable, engine.lengths().backoff), (0, 1));
}

#[test]
fn a_device_in_doubt_stays_with_its_claim() {
    let mut engine = begin(1, &["c1", "c2"]);
    engine.set_pod(&user("a", "c1"), NOW);
    assert_eq!(next(&mut engine).as_deref(), Ok("n1"));
    let written = WrittenClaims {
        doubt: Some((Arc::from("c1-uid"), 1)),
        error: Some("no answer".to_owned()),
        ..WrittenClaims::default()
    };
    engine.claims_written("a", written, NOW);
    engine.set_pod(&user("b", "c2"), NOW);
    next(&mut engine).expect_err("what came of it");
    assert!(next(&mut engine).expect_err("it may be taken").contains("cannot allocate all claims"));
    // The claim changed otherwise: the write cannot come any more, and others are told.
    engine.set_resource_claim("ns", "c1", Some(&claim("c1", 2, "")), NOW);
    assert!(!engine.cluster().devices().allocated.holds("c1-uid"));
}

#[test]
fn a_pod_that_shares_a_claim_waits_while_it_is_being_allocated() {
    let mut engine = begin(1, &["c1"]);
    engine.set_pod(&user("a", "c1"), NOW);
    engine.set_pod(&user("b", "c1"), NOW);
    assert_eq!(next(&mut engine).as_deref(), Ok("n1"));
    let waits = next(&mut engine).expect_err("it waits");
    assert_eq!(
        waits,
        "0/1 nodes are available: resource claim ns/c1 is in the process of being allocated. no new claims to deallocate, \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_change_of_a_claim_is_told_to_those_who_use_it_only() {
    let mut engine = begin(0, &["c1", "c2"]);
    for (name, claim) in [("a", "c1"), ("b", "c2")] {
        engine.set_pod(&user(name, claim), NOW);
        next(&mut engine).expect_err("there are no devices");
    }
    engine.set_pod(&pod("large", "", r#""cpu":"100""#, ""), NOW);
    next(&mut engine).expect_err("it is too large");
    assert_eq!(engine.lengths().unschedulable, 3);
    // What is not about its status helps nobody.
    engine.set_resource_claim("ns", "c1", Some(&claim("c1", 2, "")), NOW);
    assert_eq!(engine.lengths().unschedulable, 3);
    let status = r#""reservedFor":[{"resource":"pods","name":"x","uid":"x"}]"#;
    engine.set_resource_claim("ns", "c1", Some(&claim("c1", 3, status)), NOW);
    assert_eq!(engine.lengths().unschedulable, 2);
    engine.set_resource_slice("n1", Some(&slice("n1", 1)), NOW);
    assert_eq!(engine.lengths().unschedulable, 1);
}

#[test]
fn a_pod_without_its_claim_is_not_tried() {
    let mut engine = begin(1, &[]);
    engine.set_pod(&user("a", "c1"), NOW);
    assert_eq!((engine.lengths().gated, next(&mut engine)), (1, Err("nothing waits".to_owned())));
    engine.set_resource_claim("ns", "c1", Some(&claim("c1", 1, "")), NOW);
    assert_eq!(engine.lengths().gated, 0);
    assert_eq!(next(&mut engine).as_deref(), Ok("n1"));
}

#[test]
fn a_change_asks_only_pods_it_can_concern() {
    let names: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    let mut engine = begin(0, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for n in 0..100 {
        engine.set_pod(&user(&format!("p{n}"), &format!("c{n}")), NOW);
        engine.set_pod(&pod(&format!("large{n}"), "", r#""cpu":"100""#, ""), NOW);
    }
    while engine.next(NOW, &mut rng(1)).is_some() {}
    assert_eq!(engine.lengths().unschedulable, 200);
    let asked = |engine: &mut Engine, change: &dyn Fn(&mut Engine)| {
        engine.queue().asked.set(0);
        change(engine);
        engine.queue().asked.get()
    };
    assert_eq!(asked(&mut engine, &|e| e.set_resource_claim("ns", "c1", Some(&claim("c1", 2, "")), NOW)), 1);
    assert_eq!(
        asked(&mut engine, &|e| e.set_resource_claim("ns", "other", Some(&claim("other", 3, "")), NOW)),
        0
    );
    let class = r#"{"metadata":{"name":"gpu"},"spec":{"selectors":[]}}"#;
    assert_eq!(asked(&mut engine, &|e| e.set_device_class("gpu", Some(&tree(class)), NOW)), 100);
}

#[test]
fn devices_count_as_the_resource_they_stand_for() {
    let class = |more: &str| {
        format!(
            r#"{{"metadata":{{"name":"gpu"}},"spec":{{"extendedResourceName":"example.com/gpu"{more}}}}}"#
        )
    };
    let held = |device: &str| {
        let result = format!(r#"{{"request":"r","driver":"d.io","pool":"n1","device":"{device}"}}"#);
        format!(r#""allocation":{{"devices":{{"results":[{result}]}}}}"#)
    };
    let strategy = |kind: &str| {
        let shape = r#""requestedToCapacityRatio":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}]}"#;
        let shape = if kind == "RequestedToCapacityRatio" { format!(",{shape}") } else { String::new() };
        format!(
            r#""pluginConfig":[{{"name":"NodeResourcesFit","args":{{"scoringStrategy":{{"type":"{kind}",
            "resources":[{{"name":"example.com/gpu"}}]{shape}}}}}}}]"#
        )
    };
    let only_balance = r#""plugins":{"score":{"disabled":[{"name":"*"}],"enabled":[{"name":"NodeResourcesBalancedAllocation"}]}},
        "pluginConfig":[{"name":"NodeResourcesBalancedAllocation","args":{"resources":[{"name":"cpu"},{"name":"example.com/gpu"}]}}]"#;
    // Of four devices n1 has two in use, and n2 none; n3 has what a device plugin counts, nearly all of it in use.
    let cases = [
        (strategy("LeastAllocated"), 3, "n2"),
        (strategy("MostAllocated"), 3, "n3"),
        (strategy("MostAllocated"), 2, "n1"),
        (strategy("RequestedToCapacityRatio"), 2, "n1"),
        (only_balance.to_owned(), 2, "n1"),
    ];
    for (config, count, wanted) in cases {
        let counted = r#""cpu":"4","memory":"8Gi","pods":"10","example.com/gpu":"8""#;
        let nodes = [node("n1", "", ""), node("n2", "", ""), node_of("n3", "", "", counted)];
        let mut engine = with(configured(&config), &nodes[..count]);
        let selector = r#","selectors":[{"cel":{"expression":"device.driver == 'd.io'"}}]"#;
        engine.set_device_class("gpu", Some(&tree(&class(selector))), NOW);
        for name in ["n1", "n2"] {
            engine.set_resource_slice(name, Some(&slice(name, 4)), NOW);
        }
        for (name, device) in [("c1", "g0"), ("c2", "g1")] {
            engine.set_resource_claim("ns", name, Some(&claim(name, 1, &held(device))), NOW);
        }
        let placed = r#""cpu":"1","example.com/gpu":"7""#;
        engine.set_pod(&pod("placed", "", placed, r#""nodeName":"n3""#), NOW);
        // Asked twice: nothing is kept of a score that changes with claims.
        for name in ["a", "b"] {
            engine.set_pod(&pod(name, "", r#""cpu":"2","example.com/gpu":"1""#, ""), NOW);
            assert_eq!(next(&mut engine).as_deref(), Ok(wanted), "{config}");
            engine.remove_pod(name, NOW);
        }
    }
}
