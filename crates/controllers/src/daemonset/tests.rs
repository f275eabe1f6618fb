//! What a set decides, from its nodes, its pods and the time alone.

use crate::testing::random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codec::json;
use object::Value;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::placement::{Fit, Placement, target};
use super::plan::{Changes, Nodes, Snapshot};
use super::pods::{ByNode, Pod};
use super::status::Counted;
use super::template::{pod_for, tolerant};
use super::view::DaemonSet;
use crate::claim::tests::stored;

const NOW: i64 = 1_767_225_600;
const NEW: &str = "new";
const OLD: &str = "old";

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).expect("JSON")
}

fn set(strategy: &str) -> DaemonSet {
    DaemonSet::read(&tree(&format!(
        r#"{{"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"updateStrategy":{strategy},"template":{{}}}}}}"#
    )))
}

fn rolling(unavailable: &str, surge: &str) -> DaemonSet {
    set(&format!(
        r#"{{"type":"RollingUpdate","rollingUpdate":{{"maxUnavailable":{unavailable},"maxSurge":{surge}}}}}"#
    ))
}

/// A pod on a node; `state`: a phase, `Ready` or `Going`.
fn pod(name: &str, node: &str, hash: &str, state: &str, age: i64) -> Pod {
    let created = object::time::format_seconds(NOW - age);
    let going = if state == "Going" { r#","deletionTimestamp":"2026-01-01T00:00:00Z""# } else { "" };
    let metadata = format!(
        r#"{{"name":"{name}","namespace":"d","uid":"u-{name}","creationTimestamp":"{created}","labels":{{"controller-revision-hash":"{hash}"}}{going}}}"#
    );
    let phase = match state {
        "Ready" | "Going" => "Running",
        other => other,
    };
    let ready = if state == "Ready" { "True" } else { "False" };
    let rest = format!(
        r#","spec":{{"nodeName":"{node}"}},"status":{{"phase":"{phase}","conditions":[{{"type":"Ready","status":"{ready}","lastTransitionTime":"{created}"}}]}}"#
    );
    Pod::new(Arc::new(stored("", "pods", &metadata, &rest)))
}

const HERE: Fit = Fit { run: true, stay: true };
const TAINTED: Fit = Fit { run: false, stay: true };
const GONE: Fit = Fit { run: false, stay: false };

struct World {
    set: DaemonSet,
    nodes: Nodes,
    pods: ByNode,
}

impl World {
    fn new(set: DaemonSet, nodes: &[(&str, Fit)], pods: Vec<Pod>) -> World {
        let nodes = nodes.iter().map(|(name, fit)| ((*name).to_owned(), *fit)).collect();
        World { set, nodes, pods: group(pods) }
    }

    fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { set: &self.set, nodes: &self.nodes, pods: &self.pods, hash: NEW, now: NOW }
    }

    fn manage(&self) -> (Vec<String>, Vec<String>) {
        names(manage(&self.snapshot(), &mut Backoff::default(), now()))
    }

    fn roll(&self) -> (Vec<String>, Vec<String>) {
        names(self.snapshot().roll())
    }
}

fn group(pods: Vec<Pod>) -> ByNode {
    let mut by_node = ByNode::new();
    for pod in pods {
        if let Some(node) = pod.place() {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node.values_mut().for_each(|pods| pods.sort_by(Pod::order));
    by_node
}

/// All nodes at once, and then pods for nodes there are none of.
fn manage(snapshot: &Snapshot<'_>, backoff: &mut Backoff, now: Instant) -> Changes {
    let mut changes = Changes::default();
    let gone = snapshot.pods.keys().filter(|name| !snapshot.nodes.contains_key(*name));
    for name in snapshot.nodes.keys().chain(gone) {
        snapshot.manage_node(name, backoff, now, &mut changes);
    }
    changes
}

fn count(snapshot: &Snapshot<'_>) -> Counted {
    let mut counted = Counted::default();
    snapshot.nodes.keys().for_each(|name| counted.change(&snapshot.share(name).counted, 1));
    counted
}

#[allow(clippy::disallowed_methods, reason = "any instant does")]
fn now() -> Instant {
    Instant::now()
}

fn names(changes: Changes) -> (Vec<String>, Vec<String>) {
    (changes.create, changes.delete.iter().map(|pod| pod.name().to_owned()).collect())
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn every_node_that_fits_gets_one_pod_and_no_other_keeps_any() {
    let nodes = [("a", HERE), ("b", HERE), ("c", GONE), ("d", TAINTED), ("e", TAINTED)];
    let pods = vec![
        pod("b-young", "b", NEW, "Ready", 1),
        pod("b-old", "b", NEW, "Ready", 9),
        pod("c", "c", NEW, "Ready", 1),
        pod("d", "d", NEW, "Ready", 1),
    ];
    let world = World::new(rolling("1", "0"), &nodes, pods);
    assert_eq!(world.manage(), (strings(&["a"]), strings(&["b-young", "c"])));
    let counted = count(&world.snapshot());
    let expected = Counted {
        desired: 2,
        current: 1,
        misscheduled: 2,
        ready: 1,
        updated: 1,
        available: 1,
        unavailable: 1,
    };
    assert_eq!(counted, expected);
}

#[test]
fn pods_that_ended_are_deleted_and_failed_ones_less_and_less_often() {
    let pods = vec![pod("f", "a", NEW, "Failed", 1), pod("s", "b", NEW, "Succeeded", 1)];
    let world = World::new(rolling("1", "0"), &[("a", HERE), ("b", HERE)], pods);
    let (mut backoff, begun) = (Backoff::default(), now());
    let mut at = |seconds: u64| {
        let changes = manage(&world.snapshot(), &mut backoff, begun + Duration::from_secs(seconds));
        let told: Vec<String> =
            changes.events.iter().map(|e| format!("{} {}", e.reason, e.message)).collect();
        (changes.delete.len(), changes.wait.map(|wait| wait.as_secs()), told)
    };
    let succeeded = "SucceededDaemonPod Found succeeded daemon pod d/s on node b, will try to delete it";
    let failed = "FailedDaemonPod Found failed daemon pod d/f on node a, will try to kill it";
    assert_eq!(at(0), (2, None, strings(&[failed, succeeded])));
    assert_eq!(at(0), (1, Some(1), strings(&[succeeded])));
    assert_eq!(at(1).0, 2);
    assert_eq!(at(2), (1, Some(2), strings(&[succeeded])));
    assert_eq!(at(3).0, 2);
    // After half an hour of calm it begins anew.
    assert_eq!(at(3 + 1801).0, 2);
    assert_eq!(at(3 + 1801).1, Some(1));
}

#[test]
fn unbound_pods_of_a_node_that_is_gone_are_deleted() {
    let made_for = |name: &str, node: &str| {
        let metadata = format!(r#"{{"name":"{name}","namespace":"d","uid":"u-{name}"}}"#);
        let body = pod_for(&tree(r#"{"spec":{}}"#), node);
        let spec = String::from_utf8(json::to_vec(body.get("spec").unwrap())).unwrap();
        Pod::new(Arc::new(stored("", "pods", &metadata, &format!(r#","spec":{spec}"#))))
    };
    let pods = vec![made_for("there", "a"), made_for("lost", "z"), pod("bound", "y", NEW, "Ready", 1)];
    let world = World::new(rolling("1", "0"), &[("a", HERE)], pods);
    assert_eq!(world.manage(), (vec![], strings(&["lost"])));
}

#[test]
fn a_rollout_replaces_as_many_as_may_be_missing() {
    let nodes: Vec<(&str, Fit)> = ["a", "b", "c", "d"].map(|name| (name, HERE)).to_vec();
    let all_old = || ["a", "b", "c", "d"].map(|node| pod(node, node, OLD, "Ready", 100)).to_vec();
    let deleted = |set: DaemonSet, pods: Vec<Pod>| {
        let (create, delete) = World::new(set, &nodes, pods).roll();
        assert!(create.is_empty());
        delete
    };
    assert_eq!(deleted(rolling("1", "0"), all_old()), ["a"]);
    assert_eq!(deleted(rolling("\"50%\"", "0"), all_old()), ["a", "b"]);
    assert_eq!(deleted(rolling("0", "0"), all_old()), ["a"], "something must move");
    assert!(deleted(set(r#"{"type":"OnDelete"}"#), all_old()).is_empty());
    // A new one that is not available yet counts, and so does a node without any.
    let mut pods = all_old();
    pods[1] = pod("b", "b", NEW, "Running", 1);
    assert!(deleted(rolling("1", "0"), pods.clone()).is_empty());
    pods.remove(1);
    assert!(deleted(rolling("1", "0"), pods).is_empty());
    // An old one that does nothing is replaced at once.
    let mut pods = all_old();
    pods[2] = pod("c", "c", OLD, "Running", 100);
    assert_eq!(deleted(rolling("1", "0"), pods), ["c"]);
}

#[test]
fn a_surge_makes_new_pods_first() {
    let nodes = [("a", HERE), ("b", HERE), ("c", HERE)];
    let olds = || {
        vec![
            pod("a", "a", OLD, "Ready", 100),
            pod("b", "b", OLD, "Ready", 100),
            pod("c", "c", OLD, "Ready", 100),
        ]
    };
    let world = |pods| World::new(rolling("0", "1"), &nodes, pods);
    assert_eq!(world(olds()).roll(), (strings(&["a"]), vec![]));
    let mut begun = olds();
    begun.push(pod("a2", "a", NEW, "Running", 1));
    assert_eq!(world(begun.clone()).roll(), (vec![], vec![]), "it waits for the first");
    assert_eq!(world(begun.clone()).manage(), (vec![], vec![]), "two of a node are well");
    begun[3] = pod("a2", "a", NEW, "Ready", 1);
    assert_eq!(world(begun.clone()).roll(), (strings(&["b"]), strings(&["a"])));
    assert_eq!(world(begun).manage(), (vec![], strings(&["a"])));
    // An old one that does nothing makes room at once; one on a node it no longer fits waits until it can be spared.
    let mut broken = olds();
    broken[2] = pod("c", "c", OLD, "Running", 100);
    assert_eq!(world(broken).roll(), (strings(&["c", "a"]), vec![]));
    let moved = World::new(rolling("0", "1"), &[("a", HERE), ("b", TAINTED), ("c", TAINTED)], olds());
    assert_eq!(moved.roll(), (strings(&["a"]), strings(&["b", "c"])));
    // The last of a node is going: its successor need not wait.
    let going = World::new(rolling("0", "1"), &[("a", HERE)], vec![pod("a", "a", NEW, "Going", 9)]);
    assert_eq!(going.manage(), (strings(&["a"]), vec![]));
    let going = World::new(rolling("1", "0"), &[("a", HERE)], vec![pod("a", "a", NEW, "Going", 9)]);
    assert_eq!(going.manage(), (vec![], vec![]), "without surge it does");
}

#[test]
fn nodes_fit_by_name_labels_affinity_and_taints() {
    let fit = |spec: &str, node: &str| {
        let template = tree(&format!(r#"{{"spec":{spec}}}"#));
        Placement::read(&tolerant(Some(&template))).fit_of(&tree(node))
    };
    let plain = r#"{"metadata":{"name":"n","labels":{"disk":"ssd","size":"5"}}}"#;
    let affinity = |expression: &str| {
        format!(
            r#"{{"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{expression}]}}}}}}}}"#
        )
    };
    for (spec, expected) in [
        ("{}".to_owned(), HERE),
        (r#"{"nodeName":"n"}"#.to_owned(), HERE),
        (r#"{"nodeName":"m"}"#.to_owned(), GONE),
        (r#"{"nodeSelector":{"disk":"ssd"}}"#.to_owned(), HERE),
        (r#"{"nodeSelector":{"disk":"hdd"}}"#.to_owned(), GONE),
        (affinity(r#"{"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]}"#), HERE),
        (affinity(r#"{"matchExpressions":[{"key":"size","operator":"Lt","values":["4"]}]}"#), GONE),
        (affinity(r#"{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}]}"#), GONE),
        (affinity("{}"), GONE),
        (affinity(""), GONE),
    ] {
        assert_eq!(fit(&spec, plain), expected, "{spec}");
    }
    let tainted = |key: &str, effect: &str| {
        format!(
            r#"{{"metadata":{{"name":"n"}},"spec":{{"taints":[{{"key":"{key}","effect":"{effect}"}}]}}}}"#
        )
    };
    assert_eq!(fit("{}", &tainted("x", "NoSchedule")), TAINTED);
    assert_eq!(fit("{}", &tainted("x", "NoExecute")), GONE);
    assert_eq!(fit("{}", &tainted("x", "PreferNoSchedule")), HERE);
    assert_eq!(fit("{}", &tainted("node.kubernetes.io/unschedulable", "NoSchedule")), HERE);
    assert_eq!(fit("{}", &tainted("node.kubernetes.io/not-ready", "NoExecute")), HERE);
    assert_eq!(fit("{}", &tainted("node.kubernetes.io/network-unavailable", "NoSchedule")), TAINTED);
    let on_host = r#"{"hostNetwork":true}"#;
    assert_eq!(fit(on_host, &tainted("node.kubernetes.io/network-unavailable", "NoSchedule")), HERE);
}

#[test]
fn pods_are_made_for_their_node_and_tolerate_its_troubles_for_ever() {
    let template = tree(
        r#"{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}],
            "affinity":{"podAffinity":{},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[]}]}}}}}"#,
    );
    let pod = pod_for(&tolerant(Some(&template)), "n1");
    let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap();
    assert_eq!(tolerations.len(), 6);
    assert!(tolerations.iter().all(|toleration| toleration.get("tolerationSeconds").is_none()));
    assert_eq!(target(&pod).as_deref(), Some("n1"));
    assert!(pod.at(&["spec", "affinity", "podAffinity"]).is_some());
    assert_eq!(target(&tree(r#"{"spec":{}}"#)), None);
}

/// Pods that were made before: making one takes longer than looking at many.
type Made = BTreeMap<(String, &'static str, &'static str, i64), Pod>;

fn kept_between_looks_is_the_same_as_all_at_once(seed: u64, set: &DaemonSet, made: &mut Made) {
    let (mut random, begun) = (random(seed), now());
    let (mut nodes, mut pods) = (Nodes::new(), BTreeMap::<String, Pod>::new());
    let (mut world, mut backoff, mut backoff_of_all) =
        (super::world::World::default(), Backoff::default(), Backoff::default());
    for step in 0..120 {
        for _ in 0..=random(3) {
            let node = format!("n{}", random(8));
            if random(3) == 0 {
                let fit = [Some(HERE), Some(HERE), Some(TAINTED), Some(GONE), None][random(5)];
                match fit {
                    Some(fit) => drop(nodes.insert(node.clone(), fit)),
                    None => drop(nodes.remove(&node)),
                }
                world.set_node(&node, fit);
            } else {
                let name = format!("{node}-{}", random(2));
                let state = ["Ready", "Ready", "Running", "Going", "Failed", "Succeeded", "none"][random(7)];
                let hash = if random(4) == 0 { OLD } else { NEW };
                let age = [2, 8, 15][random(3)];
                let put = (state != "none").then(|| {
                    let key = (name.clone(), hash, state, age);
                    made.entry(key).or_insert_with(|| pod(&name, &node, hash, state, age)).clone()
                });
                match put.clone() {
                    Some(pod) => drop(pods.insert(name.clone(), pod)),
                    None => drop(pods.remove(&name)),
                }
                world.set_pod(&name, put);
            }
        }
        let (seconds, instant) = (NOW + step, begun + Duration::from_secs(step.unsigned_abs()));
        let by_node = group(pods.values().cloned().collect());
        let all = Snapshot { set, nodes: &nodes, pods: &by_node, hash: NEW, now: seconds };
        assert_eq!(world.count(set, NEW, seconds), count(&all), "seed {seed}, step {step}");
        // Now and then nothing may be done yet.
        if random(4) == 0 {
            continue;
        }
        let some = world.manage(set, NEW, seconds, &mut backoff, instant);
        let whole = manage(&all, &mut backoff_of_all, instant);
        assert_eq!((some.wait, &some.events), (whole.wait, &whole.events), "seed {seed}, step {step}");
        assert_eq!(names(some), names(whole), "seed {seed}, step {step}");
        assert_eq!(names(world.roll(set, NEW, seconds)), names(all.roll()), "seed {seed}, step {step}");
    }
}

#[test]
fn nodes_and_pods_kept_between_looks_give_the_same_as_all_looked_at_anew() {
    let mut made = Made::new();
    for strategy in [
        r#"{"type":"OnDelete"}"#,
        r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2,"maxSurge":0}}"#,
        r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":"50%"}}"#,
    ] {
        let set = DaemonSet::read(&tree(&format!(
            r#"{{"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"minReadySeconds":10,"updateStrategy":{strategy},"template":{{}}}}}}"#
        )));
        (1..40).for_each(|seed| kept_between_looks_is_the_same_as_all_at_once(seed, &set, &mut made));
    }
}
