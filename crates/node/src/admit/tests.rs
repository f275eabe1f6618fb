//! What a node refuses, and in which words.

use super::*;

fn tree(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).expect("the tests write JSON")
}

const CAPACITY: Capacity =
    Capacity { amounts: Requests { cpu_milli: 2000, memory: 1000, ephemeral_storage: 0 }, pods: 2 };

fn refused(pod: &str, taken: &Taken, node: Option<&Value>) -> Option<String> {
    let tree = tree(pod);
    let pod = Pod::read(&tree);
    admit(&pod, Requests::of(&pod), &CAPACITY, taken, node)
        .err()
        .map(|r| format!("{}: {}", r.reason, r.message))
}

#[test]
fn resources_are_refused_in_order_with_upstreams_numbers() {
    let pod = r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1500m","memory":"900"}}}]}}"#;
    let mut taken = Taken::default();
    assert_eq!(refused(pod, &taken, None), None);
    taken.amounts.memory = 200;
    let memory =
        "OutOfmemory: Node didn't have enough resource: memory, requested: 900, used: 200, capacity: 1000";
    assert_eq!(refused(pod, &taken, None).as_deref(), Some(memory));
    taken.amounts.cpu_milli = 501;
    let cpu = "OutOfcpu: Node didn't have enough resource: cpu, requested: 1500, used: 501, capacity: 2000";
    assert_eq!(refused(pod, &taken, None).as_deref(), Some(cpu));
    taken.pods = 2;
    let pods = "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2";
    assert_eq!(refused(pod, &taken, None).as_deref(), Some(pods));
    // What asks for nothing fits on what is full.
    let taken = Taken { amounts: Requests { cpu_milli: 9999, ..Requests::default() }, ..Taken::default() };
    assert_eq!(refused(r#"{"spec":{"containers":[{}]}}"#, &taken, None), None);
}

#[test]
fn more_than_any_node_has_is_missing_on_one_that_has_given_too_much() {
    let tree = tree(r#"{"spec":{"containers":[{"resources":{"requests":{"memory":"9E"}}}]}}"#);
    let pod = Pod::read(&tree);
    let requests = Requests { memory: i64::MAX, ..Requests::of(&pod) };
    let taken = Taken { amounts: Requests { memory: 1001, ..Requests::default() }, ..Taken::default() };
    let missing = missing(&pod, requests, &CAPACITY, &taken, None).unwrap();
    let all = preemption::Missing { resource: "memory".to_owned(), amount: i64::MAX };
    assert_eq!(missing, [all]);
}

#[test]
fn requests_are_the_larger_of_init_and_main_containers() {
    let tree = tree(
        r#"{"spec":{"overhead":{"cpu":"10m"},"initContainers":[
            {"resources":{"requests":{"cpu":"300m"}}},
            {"restartPolicy":"Always","resources":{"requests":{"cpu":"100m"}}},
            {"resources":{"requests":{"cpu":"500m"}}}],
            "containers":[{"resources":{"requests":{"cpu":"200m","memory":"5"}}},{"resources":{"requests":{"cpu":"250m"}}}]}}"#,
    );
    let requests = Requests::of(&Pod::read(&tree));
    assert_eq!(requests, Requests { cpu_milli: 610, memory: 5, ephemeral_storage: 0 });
}

#[test]
fn labels_ports_and_taints_are_checked() {
    let node = tree(
        r#"{"metadata":{"name":"n","labels":{"zone":"a","size":"5"}},"spec":{"taints":[{"key":"k","value":"v","effect":"NoExecute"},
            {"key":"other","effect":"NoSchedule"}]}}"#,
    );
    let stands = r#""tolerations":[{"key":"k","operator":"Exists"}]"#;
    let with =
        |spec: &str| refused(&format!(r#"{{"spec":{{{stands},{spec}}}}}"#), &Taken::default(), Some(&node));
    let affinity = |term: &str| {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        with(&format!(r#""affinity":{{"nodeAffinity":{{"{required}":{{"nodeSelectorTerms":[{term}]}}}}}}"#))
            .is_none()
    };
    assert_eq!(with(r#""nodeSelector":{"zone":"a"}"#), None);
    assert!(
        with(r#""nodeSelector":{"zone":"b"}"#)
            .unwrap()
            .starts_with("NodeAffinity: Predicate NodeAffinity failed: ")
    );
    assert!(affinity(r#"{"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]}"#));
    assert!(!affinity(r#"{"matchExpressions":[{"key":"size","operator":"Lt","values":["4"]}]}"#));
    assert!(affinity(r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}"#));
    assert!(!affinity("{}"));
    assert!(affinity(r#"{},{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["b"]}]}"#));
    let told = refused(r#"{"spec":{}}"#, &Taken::default(), Some(&node)).unwrap();
    assert_eq!(
        told,
        "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    );

    let web = tree(r#"{"metadata":{"uid":"a"},"spec":{"containers":[{"ports":[{"hostPort":80}]}]}}"#);
    let mut taken = Taken::default();
    taken.add(&Pod::read(&web), Requests::default());
    let other =
        r#"{"metadata":{"uid":"b"},"spec":{"containers":[{"ports":[{"hostPort":80,"hostIP":"10.0.0.1"}]}]}}"#;
    assert!(refused(other, &taken, None).unwrap().starts_with("NodePorts: "));
    taken.remove(short_uid("a"), Requests::default());
    assert_eq!(refused(other, &taken, None), None);
}

#[test]
fn what_only_some_nodes_have_is_counted_where_the_node_has_it() {
    let node = tree(r#"{"status":{"allocatable":{"example.com/gpu":"3","hugepages-2Mi":"4Mi"}}}"#);
    let pod = |uid: &str, init: &str, main: &str| {
        format!(
            r#"{{"metadata":{{"uid":"{uid}"}},"spec":{{"initContainers":[{{"resources":{{"requests":{{{init}}}}}}}],
                "containers":[{{"resources":{{"requests":{{{main}}}}}}}]}}}}"#
        )
    };
    let first = pod("a", r#""example.com/gpu":"2""#, r#""example.com/gpu":"1""#);
    let mut taken = Taken::default();
    assert_eq!(refused(&first, &taken, Some(&node)), None);
    taken.add(&Pod::read(&tree(&first)), Requests::default());
    let second = pod("b", "", r#""example.com/gpu":"2""#);
    let told = "OutOfexample.com/gpu: Node didn't have enough resource: example.com/gpu, requested: 2, used: 2, capacity: 3";
    assert_eq!(refused(&second, &taken, Some(&node)).as_deref(), Some(told));
    let pages = pod("b", "", r#""hugepages-2Mi":"6Mi""#);
    let told = refused(&pages, &taken, Some(&node)).unwrap();
    assert!(told.starts_with("OutOfhugepages-2Mi: "), "{told}");
    // Huge pages are the node's or nobody's.
    let told = refused(&pod("b", "", r#""hugepages-1Gi":"1Gi""#), &taken, Some(&node)).unwrap();
    let short =
        "Node didn't have enough resource: hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0";
    assert_eq!(told, format!("OutOfhugepages-1Gi: {short}"));
    for (pages, fits) in [("2Mi", true), ("4Mi", false)] {
        let whole = format!(
            r#"{{"spec":{{"overhead":{{"hugepages-2Mi":"2Mi"}},"resources":{{"requests":{{"hugepages-2Mi":"{pages}"}}}},
                "containers":[{{"resources":{{"requests":{{"hugepages-2Mi":"2Mi"}}}}}}]}}}}"#
        );
        assert!(is_choosy(&Pod::read(&tree(&whole))));
        assert_eq!(refused(&whole, &taken, Some(&node)).is_none(), fits, "{pages}");
    }
    // Whoever bound it knows where it comes from.
    assert_eq!(refused(&pod("b", "", r#""example.com/other":"1""#), &taken, Some(&node)), None);
    assert!(is_choosy(&Pod::read(&tree(&second))));
    taken.remove(short_uid("a"), Requests::default());
    assert_eq!(refused(&second, &taken, Some(&node)), None);
}

#[test]
fn pods_of_other_systems_and_static_ones() {
    let none = Taken::default();
    let told = refused(r#"{"metadata":{"labels":{"kubernetes.io/os":"windows"}},"spec":{}}"#, &none, None);
    assert_eq!(
        told.as_deref(),
        Some(
            "PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        )
    );
    let told = refused(r#"{"spec":{"os":{"name":"windows"}}}"#, &none, None);
    assert!(told.unwrap().starts_with("PodOSNotSupported: "));
    let node = tree(r#"{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}"#);
    let of = |source: &str| {
        let pod = format!(
            r#"{{"metadata":{{"annotations":{{"kubernetes.io/config.source":"{source}"}}}},"spec":{{}}}}"#
        );
        refused(&pod, &none, Some(&node)).is_none()
    };
    assert!(of("file") && !of("api"));
}
