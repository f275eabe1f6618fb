//! A pod that fits nowhere is tried again as soon as it fits: the queue's hints against a naive evaluator.

use std::collections::{BTreeMap, BTreeSet};

use object::Value;

use super::naive::{World, a_node, a_pod};
use crate::plugin::{Plugin, Plugins};
use crate::pod::Templates;
use crate::read::labels;
use crate::testing::{NOW, rng, tree};
use crate::{Config, Engine, Node, ScheduleResult};

type Pick<'a> = &'a mut dyn FnMut(u64) -> u64;

/// The same objects in an engine and in plain lists, and the objects themselves.
struct Both {
    engine: Engine,
    world: World,
    templates: Templates,
    nodes: BTreeMap<String, Value>,
    placed: BTreeMap<String, Value>,
    waiting: BTreeMap<String, Value>,
    /// Events that made room for pods, and for pods of which a plugin had rejected every node.
    helped: BTreeSet<(&'static str, Option<&'static str>)>,
    names: usize,
}

impl Both {
    fn new() -> Both {
        Both {
            engine: Engine::new(Config::default()),
            world: World::default(),
            templates: Templates::default(),
            nodes: BTreeMap::new(),
            placed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            helped: BTreeSet::new(),
            names: 0,
        }
    }

    fn set_node(&mut self, node: Value) {
        let name = node.str_at(&["metadata", "name"]).expect("named").to_owned();
        self.world.nodes.insert(name.clone(), Node::parse(&node).into());
        self.engine.set_node(&node, NOW);
        self.nodes.insert(name, node);
    }

    fn remove_node(&mut self, name: &str) {
        self.world.nodes.remove(name);
        self.engine.remove_node(name, NOW);
        self.nodes.remove(name);
    }

    fn place(&mut self, pod: Value) {
        let known = self.engine.set_pod(&pod, NOW);
        self.world.pods.insert(known.uid.to_string(), (*known).clone());
        self.placed.insert(known.uid.to_string(), pod);
    }

    fn remove(&mut self, uid: &str) {
        self.world.pods.remove(uid);
        self.engine.remove_pod(uid, NOW);
        self.placed.remove(uid);
        self.waiting.remove(uid);
    }

    /// A pod that waits, unless there is a place for it already.
    fn wait(&mut self, mut pod: Value) {
        pod.map_at(&["metadata"]).remove("deletionTimestamp");
        let known = self.templates.parse(&pod);
        if !self.world.fits(&known) {
            self.waiting.insert(known.uid.to_string(), pod.clone());
            self.engine.set_pod(&pod, NOW);
        }
    }

    /// Tries who may be tried until nobody may, and sees that those who were tried fared as they should.
    fn settle(&mut self, at: &str) {
        while let Some(step) = self.engine.next(NOW, &mut rng(1)) {
            match step {
                ScheduleResult::Failed(failure) => {
                    assert!(!self.world.fits(&failure.pod), "{at}: {}", failure.message)
                }
                ScheduleResult::Bind { queued, node } => {
                    assert!(self.world.fits(&queued.pod), "{at}: {} on {node}", queued.pod.uid);
                    let mut pod = self.waiting.remove(&*queued.pod.uid).expect("it waited");
                    pod.map_at(&["spec"]).set("nodeName", node.to_string());
                    self.place(pod);
                    self.nobody_is_forgotten(&format!("{at}, then {} was placed", queued.pod.uid));
                }
                other => panic!("{at}: {other:?}"),
            }
        }
    }

    fn nobody_is_forgotten(&self, at: &str) {
        for waiter in self.engine.queue().first(usize::MAX).unschedulable {
            let by: Vec<_> = waiter.rejected_by.iter().map(Plugin::name).collect();
            assert!(
                !self.world.fits(&waiter.pod),
                "{at}: {} fits now and was not woken; rejected by {by:?}; {:?}",
                waiter.pod.uid,
                waiter.pod.class
            );
        }
    }

    /// Who is set aside, and by whom.
    fn set_aside(&self) -> BTreeMap<String, Plugins> {
        let waiters = self.engine.queue().first(usize::MAX).unschedulable;
        waiters.into_iter().map(|waiter| (waiter.pod.uid.to_string(), waiter.rejected_by)).collect()
    }

    fn after(&mut self, event: &'static str, before: &BTreeMap<String, Plugins>, at: &str) {
        self.nobody_is_forgotten(at);
        for (uid, by) in before {
            let Some(pod) = self.engine.waiting(uid).filter(|pod| self.world.fits(pod)) else { continue };
            assert!(!self.set_aside().contains_key(&*pod.uid));
            let mut by = by.iter();
            let only = by.next().filter(|_| by.next().is_none());
            self.helped.insert((event, only.map(Plugin::name)));
        }
        self.settle(at);
        self.nobody_is_forgotten(at);
    }

    /// Something happens; its name, or nothing where it cannot happen now.
    fn happens(&mut self, pick: Pick) -> Option<&'static str> {
        let app = ["web", "db", "job"][pick(3) as usize];
        match pick(12) {
            0 => {
                let node = format!("n{}", pick(5));
                let pod = self.a_placed(&node, pick);
                self.place(pod);
                Some("pod placed")
            }
            1 => {
                let (uid, _) = one_of(&self.placed, pick)?;
                self.remove(&uid);
                Some("pod removed")
            }
            2 => {
                let (_, mut pod) = one_of(&self.placed, pick)?;
                pod.map_at(&["metadata", "labels"]).set("app", app);
                self.place(pod);
                Some("pod's labels changed")
            }
            3 => {
                let (uid, mut pod) = one_of(&self.placed, pick)?;
                let port = !self.world.pods[&uid].class.spec.ports.is_empty();
                pod.map_at(&["spec"]).set("containers", containers(pick(4), port));
                self.place(pod);
                Some("pod resized")
            }
            4 => {
                let (_, mut pod) = one_of(&self.placed, pick)?;
                pod.map_at(&["metadata"]).set("deletionTimestamp", "2026-01-01T00:00:00Z");
                self.place(pod);
                Some("pod leaving")
            }
            5 => {
                let name = pick(5) as usize;
                let new = !self.nodes.contains_key(&format!("n{name}"));
                self.set_node(a_node(name, pick));
                Some(if new { "node added" } else { "node changed" })
            }
            6..=8 => {
                let (name, mut node) = one_of(&self.nodes, pick)?;
                let number = name[1..].parse().expect("a number");
                let other = a_node(number, pick);
                let part = |path: &[&str]| other.at(path).cloned().unwrap_or_else(Value::map);
                let event = match pick(3) {
                    0 => {
                        node.map_at(&["metadata"]).set("labels", part(&["metadata", "labels"]));
                        "node's labels changed"
                    }
                    1 => {
                        node.make_map().set("spec", part(&["spec"]));
                        "node's taints changed"
                    }
                    _ => {
                        node.make_map().set("status", part(&["status"]));
                        "node's allocatable changed"
                    }
                };
                self.set_node(node);
                Some(event)
            }
            9 if pick(3) == 0 => {
                let (name, _) = one_of(&self.nodes, pick)?;
                self.remove_node(&name);
                Some("node removed")
            }
            10 => {
                let (name, team) = (format!("ns{}", pick(2)), ["red", "blue"][pick(2) as usize]);
                let namespace = tree(&format!(r#"{{"metadata":{{"labels":{{"team":"{team}"}}}}}}"#));
                let labels = labels(namespace.at(&["metadata", "labels"]));
                self.world.namespaces.insert(name.clone(), labels);
                self.engine.set_namespace(&name, Some(&namespace), NOW);
                Some("namespace's labels changed")
            }
            11 => {
                let (uid, mut pod) = one_of(&self.waiting, pick)?;
                if pick(2) == 0 {
                    pod.map_at(&["metadata", "labels"]).set("app", app);
                } else {
                    let tolerates = member(r#"[{"operator":"Exists"}]"#);
                    pod.map_at(&["spec"]).set("tolerations", tolerates);
                }
                self.engine.set_pod(&pod, NOW);
                self.waiting.insert(uid, pod);
                Some("itself changed")
            }
            _ => None,
        }
    }

    fn a_placed(&mut self, node: &str, pick: Pick) -> Value {
        self.names += 1;
        let mut pod = a_pod(self.names, node, pick);
        pod.map_at(&["spec"]).set("containers", containers(pick(4), pick(2) == 0));
        pod
    }

    /// Pods that find no place easily, and for all kinds of reasons.
    fn a_waiting(&mut self, pick: Pick) -> Value {
        self.names += 1;
        let mut pod = a_pod(self.names, "", pick);
        let topology = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk"];
        let mut term = || {
            let (key, app) = (topology[pick(3) as usize], ["web", "db", "job"][pick(3) as usize]);
            format!(r#"{{"topologyKey":"{key}","labelSelector":{{"matchLabels":{{"app":"{app}"}}}}}}"#)
        };
        let terms = [term(), term()].join(",");
        let required = format!(r#"{{"requiredDuringSchedulingIgnoredDuringExecution":[{terms}]}}"#);
        let (kind, domains) = (pick(9), 1 + pick(3));
        if kind < 4 {
            // Nothing but what is asked for below.
            pod.map_at(&["spec"]).retain(|_, _| false);
            pod.map_at(&["spec"]).set("containers", containers(0, false));
        }
        let spec = pod.map_at(&["spec"]);
        match kind {
            0 | 4 => spec.set("containers", containers(4 + pick(2), false)),
            1 | 5 => spec.set("containers", containers(0, true)),
            2 => {
                let name = format!("n{}", pick(5));
                spec.set(
                    "affinity",
                    member(&format!(
                        r#"{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
                        {{"matchFields":[{{"key":"metadata.name","operator":"In","values":["{name}"]}}]}}]}}}}}}"#
                    )),
                );
            }
            3 | 6 => {
                let own = |key: &str| {
                    format!(
                        r#"{{"maxSkew":1,"minDomains":{domains},"topologyKey":"{key}","whenUnsatisfiable":"DoNotSchedule",
                        "labelSelector":{{"matchExpressions":[{{"key":"app","operator":"Exists"}}]}}}}"#
                    )
                };
                let two = [own(topology[pick(2) as usize]), own(topology[2])];
                let constraints = two[..1 + pick(2) as usize].join(",");
                spec.set("topologySpreadConstraints", member(&format!("[{constraints}]")));
                if pick(2) == 0 {
                    spec.set("nodeSelector", member(r#"{"disk":"ssd"}"#));
                }
            }
            7 => spec.set("affinity", member(&format!(r#"{{"podAntiAffinity":{required}}}"#))),
            8 => spec.set("affinity", member(&format!(r#"{{"podAffinity":{required}}}"#))),
            _ => {}
        }
        pod
    }
}

fn one_of(all: &BTreeMap<String, Value>, pick: Pick) -> Option<(String, Value)> {
    let at = pick(all.len() as u64) as usize;
    all.iter().nth(at).map(|(name, tree)| (name.clone(), tree.clone()))
}

fn member(json: &str) -> Value {
    tree(&format!(r#"{{"it":{json}}}"#)).get("it").expect("just written").clone()
}

fn containers(requests: u64, port: bool) -> Value {
    let requests =
        ["", r#""cpu":"500m""#, r#""cpu":"1","memory":"1Gi""#, r#""memory":"2Gi""#, r#""cpu":"5""#, BIG]
            [requests as usize];
    let ports = if port { r#","ports":[{"hostPort":80}]"# } else { "" };
    member(&format!(r#"[{{"name":"c","resources":{{"requests":{{{requests}}}}}{ports}}}]"#))
}

const BIG: &str = r#""memory":"12Gi""#;

#[test]
fn a_pod_that_fits_after_an_event_is_woken_by_it() {
    let mut helped = BTreeSet::new();
    for seed in 0..60 {
        let mut next = rng(seed);
        let pick: Pick = &mut next;
        let mut both = Both::new();
        for step in 0..150 {
            if both.waiting.len() < 6 {
                let pod = both.a_waiting(pick);
                both.wait(pod);
                both.settle(&format!("seed {seed} step {step}, came"));
            }
            if both.waiting.len() + both.placed.len() > 18 {
                let old = if pick(2) == 0 { &both.placed } else { &both.waiting };
                if let Some((uid, _)) = one_of(old, pick) {
                    let before = both.set_aside();
                    both.remove(&uid);
                    both.after("pod removed", &before, &format!("seed {seed} step {step}, {uid} made room"));
                }
            }
            let before = both.set_aside();
            if let Some(event) = both.happens(pick) {
                both.after(event, &before, &format!("seed {seed} step {step}, {event}"));
            }
        }
        helped.append(&mut both.helped);
    }
    // Each plugin's pods were helped, and by all that can help: or the test would say little.
    let plugins: BTreeSet<_> = helped.iter().filter_map(|(_, plugin)| *plugin).collect();
    assert_eq!(plugins.len(), 7, "{helped:?}");
    let events: BTreeSet<_> = helped.iter().map(|(event, _)| *event).collect();
    assert_eq!(events.len(), 13, "{events:?}");
}
