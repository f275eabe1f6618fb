//! Which nodes are open to a pod, and in which words the others are not.

use crate::testing::{NOW, engine, next, node, node_of, pod};
use object::Value;

fn place(nodes: &[Value], placed: &[Value], waits: Value) -> Result<String, String> {
    let mut engine = engine(nodes);
    placed.iter().for_each(|p| drop(engine.set_pod(p, NOW)));
    engine.set_pod(&waits, NOW);
    next(&mut engine)
}

/// The message without the part about preemption.
fn why(nodes: &[Value], placed: &[Value], waits: Value) -> String {
    let message = place(nodes, placed, waits).expect_err("no node fits");
    message.split(" no new claims").next().unwrap_or_default().to_owned()
}

fn on(name: &str, node: &str, labels: &str, requests: &str, spec: &str) -> Value {
    let spec = if spec.is_empty() { String::new() } else { format!(",{spec}") };
    pod(name, labels, requests, &format!(r#""nodeName":"{node}"{spec}"#))
}

#[test]
fn the_message_counts_the_reasons_and_sorts_them() {
    let nodes = [
        node("n1", "", ""),
        node("n2", "", r#""taints":[{"key":"k","effect":"NoSchedule"}]"#),
        node("n3", "", r#""taints":[{"key":"k","effect":"NoExecute"}]"#),
        node("n4", "", r#""unschedulable":true"#),
    ];
    let message = place(&nodes, &[], pod("a", "", r#""cpu":"5","memory":"9Gi""#, "")).unwrap_err();
    assert_eq!(
        message,
        "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) were unschedulable, \
         2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
    );
}

#[test]
fn without_nodes_the_message_is_short() {
    assert_eq!(place(&[], &[], pod("a", "", "", "")), Err("no nodes available to schedule pods".to_owned()));
}

#[test]
fn resources_are_what_is_left_and_pods_are_counted() {
    let full = [on("x", "n1", "", r#""cpu":"3""#, "")];
    let nodes = [node("n1", "", "")];
    assert_eq!(place(&nodes, &full, pod("a", "", r#""cpu":"1""#, "")), Ok("n1".to_owned()));
    assert_eq!(
        why(&nodes, &full, pod("a", "", r#""cpu":"1001m""#, "")),
        "0/1 nodes are available: 1 Insufficient cpu."
    );
    assert_eq!(
        why(&nodes, &[], pod("a", "", r#""example.com/gpu":"1""#, "")),
        "0/1 nodes are available: 1 Insufficient example.com/gpu."
    );
    let tiny = [node_of("n1", "", "", r#""cpu":"4","memory":"8Gi","pods":"1""#)];
    assert_eq!(why(&tiny, &full, pod("a", "", "", "")), "0/1 nodes are available: 1 Too many pods.");
    let finished = {
        let mut tree = on("x", "n1", "", r#""cpu":"4""#, "");
        tree.map_at(&["status"]).set("phase", "Succeeded");
        tree
    };
    assert_eq!(place(&nodes, &[finished], pod("a", "", r#""cpu":"4""#, "")), Ok("n1".to_owned()));
}

#[test]
fn taints_need_a_toleration_and_cordoned_nodes_the_one_for_that() {
    let tainted = [node("n1", "", r#""taints":[{"key":"k","value":"v","effect":"NoSchedule"}]"#)];
    let tolerate =
        |json: &str| place(&tainted, &[], pod("a", "", "", &format!(r#""tolerations":[{json}]"#))).is_ok();
    assert!(tolerate(r#"{"key":"k","value":"v","effect":"NoSchedule"}"#));
    assert!(tolerate(r#"{"key":"k","operator":"Exists"}"#));
    assert!(tolerate(r#"{"operator":"Exists"}"#));
    assert!(!tolerate(r#"{"key":"k","value":"w"}"#));
    assert!(!tolerate(r#"{"key":"k","operator":"Exists","effect":"NoExecute"}"#));
    let cordoned = [node("n1", "", r#""unschedulable":true"#)];
    let daemon = r#""tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]"#;
    assert!(place(&cordoned, &[], pod("a", "", "", daemon)).is_ok());
    assert_eq!(
        why(&cordoned, &[], pod("a", "", "", "")),
        "0/1 nodes are available: 1 node(s) were unschedulable."
    );
}

#[test]
fn node_affinity_is_any_term_and_all_of_a_term() {
    let nodes = [node("n1", r#""disk":"ssd","n":"3""#, ""), node("n2", r#""disk":"hdd","n":"7""#, "")];
    let terms = |terms: &str| {
        let spec = format!(
            r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{terms}]}}}}}}"#
        );
        place(&nodes, &[], pod("a", "", "", &spec))
    };
    let expr = |e: &str| terms(&format!(r#"{{"matchExpressions":[{e}]}}"#));
    assert_eq!(expr(r#"{"key":"disk","operator":"In","values":["hdd"]}"#), Ok("n2".to_owned()));
    assert_eq!(expr(r#"{"key":"n","operator":"Gt","values":["5"]}"#), Ok("n2".to_owned()));
    assert_eq!(expr(r#"{"key":"n","operator":"Lt","values":["5"]}"#), Ok("n1".to_owned()));
    assert_eq!(expr(r#"{"key":"disk","operator":"NotIn","values":["hdd"]}"#), Ok("n1".to_owned()));
    let none = expr(r#"{"key":"nope","operator":"Exists"}"#).unwrap_err();
    assert!(
        none.starts_with("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
    );
    assert!(terms("{}").is_err(), "an empty term selects nothing");
    let named = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}"#;
    assert_eq!(terms(named), Ok("n2".to_owned()));
    let absent = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n9"]}]}"#;
    let message = terms(absent).unwrap_err();
    assert!(
        message.starts_with("0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        "{message}"
    );
}

#[test]
fn host_ports_are_taken_once_for_an_address() {
    let ports = |ip: &str, port: u32| {
        let json = r#"{"metadata":{"name":"NAME","namespace":"ns","uid":"NAME"},"spec":{"nodeName":"NODE","containers":[
            {"name":"c","ports":[{"hostPort":PORT,"hostIP":"ADDR","containerPort":1}]}]}}"#;
        json.replace("PORT", &port.to_string()).replace("ADDR", ip)
    };
    let placed = crate::testing::tree(&ports("", 80).replace("NAME", "x").replace("NODE", "n1"));
    let waits =
        |ip: &str, port: u32| crate::testing::tree(&ports(ip, port).replace("NAME", "a").replace("NODE", ""));
    let nodes = [node("n1", "", "")];
    assert!(place(&nodes, std::slice::from_ref(&placed), waits("", 81)).is_ok());
    let message = why(&nodes, &[placed], waits("127.0.0.1", 80));
    assert_eq!(
        message,
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    );
    let local = crate::testing::tree(&ports("127.0.0.1", 80).replace("NAME", "x").replace("NODE", "n1"));
    assert!(place(&nodes, &[local], waits("127.0.0.2", 80)).is_ok());
}

const SPREAD: &str = r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",
    "labelSelector":{"matchLabels":{"app":"web"}}}]"#;
const WEB: &str = r#""app":"web""#;

#[test]
fn spread_keeps_the_difference_between_domains_small() {
    let nodes =
        [node("a1", r#""zone":"a""#, ""), node("a2", r#""zone":"a""#, ""), node("b1", r#""zone":"b""#, "")];
    let placed = [on("x", "a1", WEB, "", ""), on("y", "a2", WEB, "", "")];
    assert_eq!(place(&nodes, &placed, pod("p", WEB, "", SPREAD)), Ok("b1".to_owned()));
    // A pod that the constraint does not count may be one more.
    assert_eq!(place(&nodes, &placed[..1], pod("p", r#""app":"db""#, "", SPREAD)).map(drop), Ok(()));
    let no_b = [nodes[0].clone(), node("b1", r#""zone":"b""#, r#""unschedulable":true"#), node("c1", "", "")];
    let message = why(&no_b, &placed[..1], pod("p", WEB, "", SPREAD));
    assert_eq!(
        message,
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, \
         1 node(s) didn't match pod topology spread constraints (missing required label), 1 node(s) were unschedulable."
    );
}

#[test]
fn spread_counts_only_nodes_the_pod_could_go_to_and_no_terminating_pods() {
    let nodes = [node("a1", r#""zone":"a","disk":"ssd""#, ""), node("b1", r#""zone":"b""#, "")];
    let placed = [on("x", "a1", WEB, "", "")];
    // Zone b is no place for it: then it is alone with its minimum.
    let selects = format!(r#"{SPREAD},"nodeSelector":{{"disk":"ssd"}}"#);
    assert_eq!(place(&nodes, &placed, pod("p", WEB, "", &selects)), Ok("a1".to_owned()));
    let ignores = selects.replace(r#""maxSkew":1,"#, r#""maxSkew":1,"nodeAffinityPolicy":"Ignore","#);
    assert!(place(&nodes, &placed, pod("p", WEB, "", &ignores)).is_err());
    let mut going = placed[0].clone();
    going.map_at(&["metadata"]).set("deletionTimestamp", "2026-01-01T00:00:00Z");
    assert_eq!(place(&nodes, &[going], pod("p", WEB, "", &ignores)), Ok("a1".to_owned()));
    let tainted =
        [nodes[0].clone(), node("b1", r#""zone":"b""#, r#""taints":[{"key":"k","effect":"NoSchedule"}]"#)];
    assert!(place(&tainted, &placed, pod("p", WEB, "", SPREAD)).is_err());
    let honors = SPREAD.replace(r#""maxSkew":1,"#, r#""maxSkew":1,"nodeTaintsPolicy":"Honor","#);
    assert_eq!(place(&tainted, &placed, pod("p", WEB, "", &honors)), Ok("a1".to_owned()));
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let nodes = [node("a1", r#""zone":"a""#, ""), node("b1", r#""zone":"b""#, "")];
    let placed = [on("x", "a1", WEB, "", ""), on("y", "b1", WEB, "", "")];
    assert!(place(&nodes, &placed, pod("p", WEB, "", SPREAD)).is_ok());
    let three = SPREAD.replace(r#""maxSkew":1,"#, r#""maxSkew":1,"minDomains":3,"#);
    assert!(place(&nodes, &placed, pod("p", WEB, "", &three)).is_err());
}

fn affinity(kind: &str, rest: &str) -> String {
    format!(
        r#""affinity":{{"{kind}":{{"requiredDuringSchedulingIgnoredDuringExecution":[
        {{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"web"}}}}{rest}}}]}}}}"#
    )
}

#[test]
fn pod_affinity_goes_where_its_pods_are_and_the_first_of_its_kind_anywhere() {
    let nodes = [node("a1", r#""zone":"a""#, ""), node("b1", r#""zone":"b""#, ""), node("c1", "", "")];
    let wants = affinity("podAffinity", "");
    assert_eq!(place(&nodes, &[on("x", "b1", WEB, "", "")], pod("p", "", "", &wants)), Ok("b1".to_owned()));
    let message = why(&nodes, &[], pod("p", "", "", &wants));
    assert_eq!(message, "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.");
    let first = place(&nodes, &[], pod("p", WEB, "", &wants)).unwrap();
    assert!(first == "a1" || first == "b1", "never where the label is missing: {first}");
    let mut elsewhere = on("x", "b1", WEB, "", "");
    elsewhere.map_at(&["metadata"]).set("namespace", "other");
    assert!(place(&nodes, std::slice::from_ref(&elsewhere), pod("p", "", "", &wants)).is_err());
    let named = affinity("podAffinity", r#","namespaces":["other"]"#);
    assert_eq!(
        place(&nodes, std::slice::from_ref(&elsewhere), pod("p", "", "", &named)),
        Ok("b1".to_owned())
    );
    let all = affinity("podAffinity", r#","namespaceSelector":{}"#);
    assert_eq!(place(&nodes, &[elsewhere], pod("p", "", "", &all)), Ok("b1".to_owned()));
}

#[test]
fn namespaces_are_chosen_by_label_and_followed_when_labels_change() {
    let mut engine = engine(&[node("a1", r#""zone":"a""#, ""), node("b1", r#""zone":"b""#, "")]);
    let mut other = on("x", "b1", WEB, "", "");
    other.map_at(&["metadata"]).set("namespace", "other");
    engine.set_pod(&other, NOW);
    let wants = affinity("podAffinity", r#","namespaceSelector":{"matchLabels":{"team":"red"}}"#);
    engine.set_pod(&pod("p", "", "", &wants), NOW);
    assert!(next(&mut engine).is_err());
    let namespace = crate::testing::tree(r#"{"metadata":{"name":"other","labels":{"team":"red"}}}"#);
    engine.set_namespace("other", Some(&namespace), NOW);
    engine.set_pod(&pod("q", "", "", &wants), NOW);
    assert_eq!(next(&mut engine), Ok("b1".to_owned()));
}

#[test]
fn anti_affinity_keeps_apart_both_ways() {
    let nodes = [node("a1", r#""zone":"a""#, ""), node("a2", r#""zone":"a""#, "")];
    let avoids = affinity("podAntiAffinity", "");
    assert_eq!(
        why(&nodes, &[on("x", "a1", WEB, "", "")], pod("p", "", "", &avoids)),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    );
    assert_eq!(
        why(&nodes, &[on("x", "a1", "", "", &avoids)], pod("p", WEB, "", "")),
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    assert!(place(&nodes, &[on("x", "a1", "", "", &avoids)], pod("p", "", "", "")).is_ok());
}

#[test]
fn added_affinity_of_the_profile_restricts_nodes() {
    let config = crate::Config::parse(&crate::testing::tree(
        r#"{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","profiles":[{"pluginConfig":[
        {"name":"NodeAffinity","args":{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
        {"matchExpressions":[{"key":"disk","operator":"In","values":["ssd"]}]}]}}}}]}]}"#,
    ))
    .unwrap();
    let mut engine = crate::Engine::new(config);
    engine.set_node(&node("n1", "", ""), NOW);
    engine.set_pod(&pod("a", "", "", ""), NOW);
    let message = next(&mut engine).unwrap_err();
    assert!(
        message
            .starts_with("0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity.")
    );
}

#[test]
fn unused_names_are_released() {
    let here = r#""cpu":"4","memory":"8Gi","pods":"200","example.com/kept":"3""#;
    let mut engine = engine(&[node_of("n1", r#""zone":"a""#, "", here), node("n2", r#""zone":"b""#, "")]);
    let asks = |n: usize| pod(&format!("asks-{n}"), "", &format!(r#""example.com/r{n}":"1""#), "");
    let spreads = |n: usize| {
        let term = format!(
            r#""topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"key-{n}","whenUnsatisfiable":"DoNotSchedule",
                "labelSelector":{{"matchLabels":{{"a":"b"}}}}}}]"#
        );
        pod(&format!("spreads-{n}"), r#""a":"b""#, "", &term)
    };
    for n in 0..1000 {
        for pod in [asks(n), spreads(n)] {
            engine.set_pod(&pod, NOW);
            assert!(next(&mut engine).is_err(), "no node has it");
            engine.remove_pod(pod.str_at(&["metadata", "uid"]).expect("a uid"), NOW);
        }
        // Nodes come and go with names of their own, and pods on them.
        let name = format!("gone-{n}");
        engine.set_node(&node_of(&name, "", "", &format!(r#""example.com/n{n}":"1","pods":"9""#)), NOW);
        engine.set_pod(
            &pod("on", "", &format!(r#""example.com/n{n}":"1""#), &format!(r#""nodeName":"{name}""#)),
            NOW,
        );
        engine.remove_pod("on", NOW);
        engine.remove_node(&name, NOW);
    }
    let (resources, topologies) = engine.cluster().names();
    assert!(resources < 200 && topologies < 200, "{resources} resources, {topologies} topologies");
    // What is in use is found as before: the resource, and the zones, also by a plan made before.
    let keeps = |n: usize| pod(&format!("keeps-{n}"), "", r#""example.com/kept":"1""#, "");
    for n in 0..3 {
        engine.set_pod(&keeps(n), NOW);
        assert_eq!(next(&mut engine), Ok("n1".to_owned()));
    }
    engine.set_pod(&keeps(3), NOW);
    let full = next(&mut engine).expect_err("three are all there is");
    assert!(full.contains("Insufficient example.com/kept"), "{full}");
    let mut zones = Vec::new();
    for n in 0..4 {
        let spread = r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",
            "labelSelector":{"matchLabels":{"c":"d"}}}]"#;
        engine.set_pod(&pod(&format!("zone-{n}"), r#""c":"d""#, "", spread), NOW);
        zones.push(next(&mut engine).expect("a zone"));
        // Others name keys meanwhile, so many that all are forgotten.
        for other in 0..200 {
            engine.set_pod(&spreads(2000 + 200 * n + other), NOW);
            assert!(next(&mut engine).is_err());
        }
    }
    zones.sort();
    assert_eq!(zones, ["n1", "n1", "n2", "n2"]);
}
