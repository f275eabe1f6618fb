//! The rules, each in its smallest cluster.

use super::cluster::Cluster;
use crate::allocate::AllocateError;

const TWO: &str = r#""devices":[{"name":"a"},{"name":"b"}]"#;

fn pool(name: &str, generation: i64, slices: i64) -> String {
    format!(r#""pool":{{"name":"{name}","generation":{generation},"resourceSliceCount":{slices}}}"#)
}

#[test]
fn devices_are_taken_by_driver_pool_slice_and_place() {
    let device = |name: &str| format!(r#""devices":[{{"name":"{name}"}}]"#);
    let cluster = Cluster::new()
        .slice("z", &format!(r#""driver":"e",{}"#, device("a")))
        .slice("y", &format!(r#"{},{}"#, pool("q", 1, 1), device("b")))
        .slice("x", &format!(r#"{},"devices":[{{"name":"d"}},{{"name":"c"}}]"#, pool("p", 1, 2)))
        .slice("w", &format!(r#"{},{}"#, pool("p", 1, 2), device("e")));
    let cluster = cluster.claim(r#"{"name":"r","exactly":{"count":5}}"#);
    assert_eq!(cluster.devices(), "r=p/e r=p/d r=p/c r=q/b r=p/a");
}

#[test]
fn a_device_is_given_once() {
    let both = r#"{"name":"r"},{"name":"s"}"#;
    assert_eq!(Cluster::new().slice("s", TWO).claim(both).devices(), "r=p/a s=p/b");
    assert_eq!(Cluster::new().slice("s", TWO).claim(both).claim(both).devices(), "none");
    assert_eq!(Cluster::new().slice("s", TWO).held("p", "a", "").claim(r#"{"name":"r"}"#).devices(), "r=p/b");
}

#[test]
fn all_devices_are_given_or_none() {
    let all = r#"{"name":"r","exactly":{"allocationMode":"All"}}"#;
    assert_eq!(Cluster::new().slice("s", TWO).claim(all).devices(), "r=p/a r=p/b");
    assert_eq!(Cluster::new().slice("s", TWO).held("p", "b", "").claim(all).devices(), "none");
    assert_eq!(Cluster::new().claim(all).devices(), "none");
    let many: Vec<String> = (0..33).map(|i| format!(r#"{{"name":"d{i}"}}"#)).collect();
    let many = Cluster::new().slice("s", &format!(r#""devices":[{}]"#, many.join(","))).claim(all);
    assert_eq!(
        many.devices(),
        "claim ns/claim-0: number of requested devices 33 exceeds the claim limit of 32"
    );
}

#[test]
fn administrators_get_devices_in_use_but_each_once_a_claim() {
    let admin = r#"{"name":"r","exactly":{"adminAccess":true}},{"name":"s","exactly":{"adminAccess":true}}"#;
    let cluster = Cluster::new().slice("s", TWO).held("p", "a", "").claim(admin).claim(admin);
    assert_eq!(cluster.devices(), "r=p/a s=p/b; r=p/a s=p/b");
    assert_eq!(cluster.allocate().unwrap().unwrap()[0].results[0].admin_access, Some(true));
    let held = Cluster::new().slice("s", TWO).held("p", "a", r#""adminAccess":true"#);
    assert_eq!(held.claim(r#"{"name":"r"}"#).devices(), "r=p/a");
}

#[test]
fn the_first_available_choice_is_taken() {
    let list = |count: &str| {
        format!(
            r#"{{"name":"r","firstAvailable":[{{"name":"x","count":{count}}},{{"name":"y","deviceClassName":"e"}}]}}"#
        )
    };
    let cluster = || {
        Cluster::new().slice("s", TWO).class("e", r#""config":[{"opaque":{"driver":"d","parameters":{}}}]"#)
    };
    assert_eq!(cluster().claim(&list("2")).devices(), "r/x=p/a r/x=p/b");
    assert_eq!(cluster().claim(&list("3")).devices(), "r/y=p/a");
    // Its class configures it.
    let config = cluster().claim(&list("3")).allocate().unwrap().unwrap().remove(0).config;
    assert_eq!(config.len(), 1);
    // What comes after decides, too.
    let both = format!(r#"{},{{"name":"s"}}"#, list("2"));
    assert_eq!(cluster().claim(&both).devices(), "r/y=p/a s=p/b");
}

#[test]
fn a_choice_of_too_many_devices_makes_way_for_the_next() {
    let devices: Vec<String> = (0..40).map(|i| format!(r#"{{"name":"d{i}"}}"#)).collect();
    let list = r#"{"name":"r","firstAvailable":[{"name":"x","count":20},{"name":"y","count":12}]}"#;
    let other = list.replace(r#""name":"r""#, r#""name":"s""#);
    let cluster = Cluster::new().slice("s", &format!(r#""devices":[{}]"#, devices.join(",")));
    let cluster = cluster.claim(&format!("{list},{other}"));
    let results = cluster.allocate().unwrap().unwrap().remove(0).results;
    assert_eq!(results.iter().filter(|r| r.request == "r/x").count(), 20);
    assert_eq!(results.iter().filter(|r| r.request == "s/y").count(), 12);
}

#[test]
fn attributes_match_or_differ() {
    let devices = r#""devices":[{"name":"a","attributes":{"numa":{"int":0},"model":{"string":"x"}}},
        {"name":"b","attributes":{"d/numa":{"int":1},"model":{"version":"1.0.0"}}},
        {"name":"c","attributes":{"numa":{"int":1}}},{"name":"e"}]"#;
    let two = r#"{"name":"r","exactly":{"count":2}}"#;
    let with = |constraint: &str| {
        let constraint = format!(r#""constraints":[{constraint}]"#);
        Cluster::new().slice("s", devices).claim_with(two, &constraint).devices()
    };
    assert_eq!(with(r#"{"matchAttribute":"d/numa"}"#), "r=p/b r=p/c");
    assert_eq!(with(r#"{"distinctAttribute":"d/numa"}"#), "r=p/a r=p/b");
    assert_eq!(with(r#"{"matchAttribute":"d/model"}"#), "none");
    assert_eq!(with(r#"{"matchAttribute":"other/numa"}"#), "none");
    assert_eq!(with(r#"{"requests":["s"],"matchAttribute":"other/numa"}"#), "r=p/a r=p/b");
    let empty = "claim ns/claim-0, constraint #0: empty constraint (unsupported constraint type?)";
    assert_eq!(with("{}"), empty);
}

/// kube-scheduler gives `a` and `c` here.
#[test]
fn devices_stay_distinct_after_turning_back() {
    let devices = r#""devices":[{"name":"a","attributes":{"x":{"int":1}}},{"name":"b","attributes":{"x":{"int":2}}},
        {"name":"c","attributes":{"x":{"int":1}}}]"#;
    let requests = r#"{"name":"r","exactly":{"count":2}},
        {"name":"s","exactly":{"selectors":[{"cel":{"expression":"device.attributes['d'].x == 2"}}]}}"#;
    let cluster = Cluster::new().slice("s", devices);
    let cluster =
        cluster.claim_with(requests, r#""constraints":[{"requests":["r"],"distinctAttribute":"d/x"}]"#);
    assert_eq!(cluster.devices(), "none");
}

#[test]
fn a_constraint_that_keeps_a_claim_from_all_devices_is_an_error() {
    let devices = r#""devices":[{"name":"a","attributes":{"x":{"int":1}}},{"name":"b"}]"#;
    let all = r#"{"name":"r","exactly":{"allocationMode":"All"}}"#;
    let cluster = Cluster::new().slice("s", devices);
    let cluster = cluster.claim_with(all, r#""constraints":[{"matchAttribute":"d/x"}]"#);
    assert_eq!(
        cluster.devices(),
        "claim ns/claim-0, request r: cannot add device d/p/b because a claim constraint would not be satisfied"
    );
}

#[test]
fn incomplete_and_outdated_pools_give_nothing() {
    let one = r#"{"name":"r"}"#;
    let all = r#"{"name":"r","exactly":{"allocationMode":"All"}}"#;
    let incomplete = || Cluster::new().slice("s", &format!("{},{TWO}", pool("p", 1, 2)));
    assert_eq!(incomplete().claim(one).devices(), "none");
    let updated =
        "claim ns/claim-0, request r: asks for all devices, but resource pool d/p is currently being updated";
    assert_eq!(incomplete().claim(all).devices(), updated);
    // The newer generation has nothing for the node and replaces the older one, unless that is all the node saw.
    let newer = format!(r#""nodeName":"m",{},{TWO}"#, pool("p", 2, 1));
    assert_eq!(incomplete().slice("t", &newer).claim(all).devices(), "none");
    assert_eq!(Cluster::new().slice("s", TWO).slice("t", &newer).claim(one).devices(), "r=p/a");
    let same_node = format!("{},{}", pool("p", 2, 1), r#""devices":[{"name":"z"}]"#);
    assert_eq!(Cluster::new().slice("s", TWO).slice("t", &same_node).claim(one).devices(), "r=p/z");
    // Slices of other nodes count for what is complete.
    let other = format!(r#""nodeName":"m",{},"devices":[{{"name":"z"}}]"#, pool("p", 1, 2));
    assert_eq!(incomplete().slice("t", &other).claim(all).devices(), "r=p/a r=p/b");
}

#[test]
fn invalid_pools_are_told_of_if_nothing_else_is_found() {
    let twice = r#""devices":[{"name":"a"},{"name":"a"}]"#;
    let invalid = || Cluster::new().slice("s", twice);
    let error = invalid().claim(r#"{"name":"r"}"#).allocate().unwrap_err();
    assert_eq!(error, AllocateError::OnNode("invalid resource pools were encountered".to_owned()));
    let other = format!("{},{TWO}", pool("q", 1, 1));
    assert_eq!(invalid().slice("t", &other).claim(r#"{"name":"r"}"#).devices(), "r=q/a");
    let all = r#"{"name":"r","exactly":{"allocationMode":"All"}}"#;
    let words =
        "claim ns/claim-0, request r: asks for all devices, but resource pool d/p is currently invalid";
    assert_eq!(invalid().slice("t", &other).claim(all).devices(), words);
}

#[test]
fn counters_are_not_overdrawn() {
    let counters = r#""sharedCounters":[{"name":"s","counters":{"x":{"value":"4"}}}]"#;
    let draws = |name: &str, amount: &str| {
        format!(
            r#"{{"name":"{name}","consumesCounters":[{{"counterSet":"s","counters":{{"x":{{"value":"{amount}"}}}}}}]}}"#
        )
    };
    let devices =
        format!(r#""devices":[{},{},{}]"#, draws("whole", "4"), draws("half", "2"), draws("other", "2"));
    let cluster = || {
        Cluster::new()
            .slice("s", &format!("{},{counters}", pool("p", 1, 2)))
            .slice("t", &format!("{},{devices}", pool("p", 1, 2)))
    };
    let two = r#"{"name":"r","exactly":{"count":2}}"#;
    assert_eq!(cluster().claim(r#"{"name":"r"}"#).devices(), "r=p/whole");
    assert_eq!(cluster().claim(two).devices(), "r=p/half r=p/other");
    assert_eq!(cluster().held("p", "half", "").claim(r#"{"name":"r"}"#).devices(), "r=p/other");
    assert_eq!(cluster().held("p", "whole", "").claim(r#"{"name":"r"}"#).devices(), "none");
    // Counters that are not there make a pool invalid, for the node of its counters and for all others.
    let missing =
        format!("{},{}", pool("p", 1, 2), devices.replace(r#""counterSet":"s""#, r#""counterSet":"t""#));
    let invalid = cluster().slice("t", &missing).slice("u", &format!("{},{TWO}", pool("q", 1, 1)));
    assert_eq!(invalid.claim(r#"{"name":"r"}"#).devices(), "r=q/a");
    let mut elsewhere = cluster().slice("t", &missing).claim(r#"{"name":"r"}"#);
    elsewhere.node = "m".to_owned();
    assert_eq!(elsewhere.devices(), "invalid resource pools were encountered");
}

#[test]
fn devices_are_shared_by_capacity() {
    let device = r#""devices":[{"name":"a","allowMultipleAllocations":true,
        "capacity":{"mem":{"value":"4Gi","requestPolicy":{"default":"1Gi","validRange":{"min":"1Gi","max":"3Gi","step":"1Gi"}}}}}]"#;
    let of = |amount: &str| format!(r#""exactly":{{"capacity":{{"requests":{{"mem":"{amount}"}}}}}}"#);
    let cluster = |requests: &str| Cluster::new().slice("s", device).claim(requests);
    // Rounded up to a step; the default without a request.
    let both = cluster(&format!(r#"{{"name":"r",{}}},{{"name":"s"}}"#, of("1500Mi")));
    let results = &both.allocate().unwrap().unwrap()[0].results;
    let consumed: Vec<String> =
        results.iter().map(|r| r.consumed_capacity.as_ref().unwrap()[0].1.to_string()).collect();
    assert_eq!(consumed, ["2Gi", "1Gi"]);
    assert!(results.iter().all(|r| r.share_id.as_deref() == Some("share")));
    // Together, more than there is, or more than may be asked for, or of what it does not have.
    let three = format!(r#"{{"name":"r",{}}},{{"name":"s",{}}}"#, of("3Gi"), of("2Gi"));
    assert_eq!(cluster(&three).devices(), "none");
    assert_eq!(cluster(&format!(r#"{{"name":"r",{}}}"#, of("4Gi"))).devices(), "none");
    let other = r#"{"name":"r","exactly":{"capacity":{"requests":{"cores":"1"}}}}"#;
    assert_eq!(cluster(other).devices(), "none");
    // Besides what others have of it.
    let share = r#""shareID":"x","consumedCapacity":{"mem":"3Gi"}"#;
    assert_eq!(cluster(r#"{"name":"r"}"#).held("p", "a", share).devices(), "r=p/a");
    assert_eq!(cluster(&format!(r#"{{"name":"r",{}}}"#, of("2Gi"))).held("p", "a", share).devices(), "none");
    assert_eq!(cluster(r#"{"name":"r"}"#).held("p", "a", "").devices(), "none");
}

#[test]
fn shares_of_a_device_draw_on_counters_once() {
    let slice = |spec: &str| format!("{},{spec}", pool("p", 1, 2));
    let device = r#""devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"mem":{"value":"4Gi",
        "requestPolicy":{"default":"1Gi"}}},"consumesCounters":[{"counterSet":"s","counters":{"x":{"value":"1"}}}]}]"#;
    let cluster = Cluster::new()
        .slice("s", &slice(r#""sharedCounters":[{"name":"s","counters":{"x":{"value":"1"}}}]"#))
        .slice("t", &slice(device));
    assert_eq!(cluster.claim(r#"{"name":"r"},{"name":"s"}"#).devices(), "r=p/a s=p/a");
}

#[test]
fn tainted_devices_are_for_those_who_tolerate_it() {
    let device = |effect: &str| {
        format!(r#""devices":[{{"name":"a","taints":[{{"key":"k","value":"v","effect":"{effect}"}}]}}]"#)
    };
    let tolerating =
        |toleration: &str| format!(r#"{{"name":"r","exactly":{{"tolerations":[{toleration}]}}}}"#);
    let with =
        |effect: &str, request: &str| Cluster::new().slice("s", &device(effect)).claim(request).devices();
    for effect in ["NoSchedule", "NoExecute"] {
        assert_eq!(with(effect, r#"{"name":"r"}"#), "none");
        assert_eq!(with(effect, &tolerating(r#"{"operator":"Exists"}"#)), "r=p/a");
        assert_eq!(with(effect, &tolerating(r#"{"key":"k","operator":"Equal","value":"v"}"#)), "r=p/a");
        assert_eq!(with(effect, &tolerating(r#"{"key":"k","value":"w"}"#)), "none");
        assert_eq!(with(effect, &tolerating(r#"{"key":"k","operator":"Exists","effect":"None"}"#)), "none");
    }
    assert_eq!(with("None", r#"{"name":"r"}"#), "r=p/a");
    let all = r#"{"name":"r","exactly":{"allocationMode":"All"}}"#;
    assert_eq!(with("NoSchedule", all), "none");
}

#[test]
fn pools_to_wait_for_come_last() {
    let waits =
        r#""devices":[{"name":"a","bindingConditions":["ready"],"bindingFailureConditions":["bad"]}]"#;
    let cluster = Cluster::new().slice("s", waits).slice("t", &format!("{},{TWO}", pool("q", 1, 1)));
    let cluster = cluster.claim(r#"{"name":"r","exactly":{"count":3}}"#);
    assert_eq!(cluster.devices(), "r=q/a r=q/b r=p/a");
    let last = cluster.allocate().unwrap().unwrap()[0].results[2].clone();
    assert_eq!((&*last.binding_conditions[0], &*last.binding_failure_conditions[0]), ("ready", "bad"));
}

#[test]
fn allocations_are_for_the_nodes_of_their_devices() {
    let selector = |key: &str| {
        format!(
            r#""nodeSelector":{{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"{key}","operator":"Exists"}}]}}]}}"#
        )
    };
    let on = |scope: &str, device: &str| {
        let spec = format!(r#"{scope},"devices":[{{"name":"a"{device}}}]"#);
        Cluster::new().label("x", "1").label("y", "1").slice("s", &spec).claim(r#"{"name":"r"}"#)
    };
    let results = r#"{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"a"}]}"#;
    assert_eq!(on(r#""allNodes":true"#, "").only(), format!("{results}}}"));
    assert_eq!(on(&selector("x"), "").only(), format!("{results},{}}}", selector("x")));
    let own = r#""nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}"#;
    assert_eq!(on(r#""nodeName":"n""#, "").only(), format!("{results},{own}}}"));
    assert_eq!(on(r#""allNodes":true"#, r#","bindsToNode":true"#).only(), format!("{results},{own}}}"));
    assert_eq!(on(&selector("z"), "").devices(), "none");
    // Each device for itself.
    let each = r#""perDeviceNodeSelection":true"#;
    assert_eq!(on(each, r#","nodeName":"n""#).only(), format!("{results},{own}}}"));
    assert_eq!(on(each, r#","nodeName":"m""#).devices(), "none");
    assert_eq!(on(each, &format!(",{}", selector("y"))).only(), format!("{results},{}}}", selector("y")));
    let nodes = r#""devices":[{"name":"a","nodeName":"m"},{"name":"b","nodeName":"n"}]"#;
    let both = Cluster::new().slice("s", &format!("{each},{nodes}")).claim(r#"{"name":"r"}"#);
    assert_eq!(both.devices(), "r=p/b");
}

#[test]
fn selectors_of_nodes_add_up() {
    let slice = |pool_name: &str, terms: &str| {
        let nodes = format!(r#""nodeSelector":{{"nodeSelectorTerms":[{{"matchExpressions":[{terms}]}}]}}"#);
        format!(r#"{},{nodes},"devices":[{{"name":"a"}}]"#, pool(pool_name, 1, 1))
    };
    let (x, y) = (r#"{"key":"x","operator":"In","values":["1","2"]}"#, r#"{"key":"y","operator":"Exists"}"#);
    let turned = r#"{"key":"x","operator":"In","values":["2","1"]}"#;
    let cluster = Cluster::new().label("x", "1").label("y", "1");
    let cluster = cluster.slice("s", &slice("p", x)).slice("t", &slice("q", &format!("{turned},{y}")));
    let text = cluster.claim(r#"{"name":"r","exactly":{"count":2}}"#).only();
    assert!(
        text.ends_with(&format!(r#""nodeSelectorTerms":[{{"matchExpressions":[{x},{y}]}}]}}}}"#)),
        "{text}"
    );
}

#[test]
fn configuration_comes_from_classes_then_from_the_claim() {
    let config = |k: &str| format!(r#""opaque":{{"driver":"d","parameters":{{"k":"{k}"}}}}"#);
    let cluster = Cluster::new()
        .class("c", &format!(r#""config":[{{{}}}]"#, config("class")))
        .slice("s", r#""devices":[{"name":"a"},{"name":"b"},{"name":"c"}]"#);
    let requests =
        r#"{"name":"r"},{"name":"s"},{"name":"t","firstAvailable":[{"name":"x","count":9},{"name":"y"}]}"#;
    let own = format!(
        r#""config":[{{{}}},{{"requests":["r"],{}}},{{"requests":["t/x"],{}}},{{"requests":["t/y"],{}}}]"#,
        config("all"),
        config("r"),
        config("x"),
        config("y")
    );
    let text = cluster.claim_with(requests, &own).only();
    let wanted = format!(
        concat!(
            r#""config":[{{"source":"FromClass","requests":["r","s","t/y"],{}}},{{"source":"FromClaim",{}}},"#,
            r#"{{"source":"FromClaim","requests":["r"],{}}},{{"source":"FromClaim","requests":["t/y"],{}}}]"#
        ),
        config("class"),
        config("all"),
        config("r"),
        config("y")
    );
    assert!(text.contains(&wanted), "{text}");
}

#[test]
fn selectors_that_fail_are_told_of() {
    let with = |class: &str, claim: &str| {
        let selectors = |expression: &str| match expression {
            "" => String::new(),
            expression => format!(r#""selectors":[{{"cel":{{"expression":"{expression}"}}}}]"#),
        };
        let claim = format!(r#"{{"name":"r","exactly":{{{}}}}}"#, selectors(claim));
        Cluster::new().class("c", &selectors(class)).slice("s", TWO).claim(&claim).devices()
    };
    assert_eq!(with("device.driver == 'd'", "device.driver != 'e'"), "r=p/a");
    assert_eq!(with("device.driver == 'e'", ""), "none");
    let missing = "device.attributes['x'].y == 1";
    assert_eq!(with(missing, ""), "class c: selector #0: CEL runtime error: no such key: y");
    assert_eq!(with("", missing), "claim ns/claim-0: selector #0: CEL runtime error: no such key: y");
    let no_bool = "claim ns/claim-0: selector #0: CEL compile error: must evaluate to bool or the unknown type, not string";
    assert_eq!(with("", "device.driver"), no_bool);
    // Nobody asks without devices.
    let unused =
        Cluster::new().class("c", r#""selectors":[{"cel":{"expression":"("}}]"#).claim(r#"{"name":"r"}"#);
    assert_eq!(unused.devices(), "none");
}

#[test]
fn unknown_requests_are_refused() {
    let refused = |request: &str| Cluster::new().slice("s", TWO).claim(request).devices();
    assert_eq!(
        refused(r#"{"name":"r","exactly":{"deviceClassName":"x"}}"#),
        "claim ns/claim-0, request r: could not retrieve device class x: deviceclass.resource.k8s.io \"x\" not found"
    );
    assert_eq!(
        refused(r#"{"name":"r","exactly":{"allocationMode":"Some"}}"#),
        "claim ns/claim-0, request r: unsupported count mode Some"
    );
    assert_eq!(
        refused(r#"{"name":"r","exactly":{"selectors":[{}]}}"#),
        "claim ns/claim-0, request r, selector #0: CEL expression empty (unsupported selector type?)"
    );
    let exact = r#"{"name":"r","exactly":{"count":9223372036854775807}},{"name":"s"}"#;
    let words =
        "claim ns/claim-0: number of requested devices 9223372036854775808 exceeds the claim limit of 32";
    assert_eq!(refused(exact), words);
}

#[test]
fn a_search_can_be_interrupted() {
    let devices: Vec<String> = (0..30).map(|i| format!(r#"{{"name":"d{i}"}}"#)).collect();
    let cluster = Cluster::new().slice("s", &format!(r#""devices":[{}]"#, devices.join(",")));
    let cluster = cluster.claim(r#"{"name":"r","exactly":{"count":16}},{"name":"s","exactly":{"count":15}}"#);
    let steps = std::cell::Cell::new(0);
    let interrupted = || {
        steps.set(steps.get() + 1);
        steps.get() > 1000
    };
    assert_eq!(cluster.allocate_until(&interrupted), Err(AllocateError::Interrupted));
    assert_eq!(steps.get(), 1001);
}

#[test]
fn very_many_claims_do_not_overflow_the_stack() {
    let mut cluster =
        Cluster::new().slice("s", r#""devices":[{"name":"a","allowMultipleAllocations":true}]"#);
    for _ in 0..5_000 {
        cluster = cluster.claim(r#"{"name":"r"}"#);
    }
    assert_eq!(cluster.allocate().unwrap().unwrap().len(), 5_000);
}
