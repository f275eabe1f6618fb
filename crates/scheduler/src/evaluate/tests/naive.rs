//! The columns, counters and caches against an evaluator that looks at every pod on every node each time.

pub(super) mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Value;

use crate::cluster::Cluster;
use crate::config::Config;
use crate::evaluate::Evaluator;
use crate::evaluate::local::Change;
use crate::node::{HOSTNAME, Node};
use crate::pod::{Class, Constraint, Inclusion, OwnerKind, Pod, PodTerm, Templates, Unsatisfiable, conflict};
use crate::read::Labels;
use crate::selectors::Selectors;
use crate::storage;
use crate::taint;
use crate::testing::{rng, tree};
use crate::verdict::Verdict;
use volumes::{Plain, a_change, with_volumes};

/// Everything, as plain lists.
#[derive(Default)]
pub(super) struct World {
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub pods: BTreeMap<String, Pod>,
    pub namespaces: BTreeMap<String, Labels>,
    pub storage: Plain,
}

type Found = BTreeMap<String, (Verdict, Option<i64>)>;

impl World {
    pub fn on<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(|p| p.node_name == node.name)
    }

    fn means(&self, term: &PodTerm, class: &Class) -> bool {
        let none: Labels = Arc::from([]);
        let labels = self.namespaces.get(&*class.namespace).unwrap_or(&none);
        term.matches(&class.namespace, labels, &class.labels)
    }

    fn count(&self, key: &str, value: &str, counts: &dyn Fn(&Node, &Pod) -> bool) -> i64 {
        let here = self.nodes.values().filter(|n| n.label(key) == Some(value));
        here.map(|n| self.on(n).filter(|p| counts(n, p)).count() as i64).sum()
    }

    fn verdict(&self, pod: &Pod, node: &Node, hard: &[Constraint]) -> Verdict {
        let (class, spec) = (&pod.class, &pod.class.spec);
        if node.unschedulable && !taint::tolerates_unschedulable(&spec.tolerations) {
            return Verdict::Cordoned;
        }
        if !taint::all_tolerated(&node.taints, &spec.tolerations) {
            return Verdict::Tainted;
        }
        if !spec.required.matches(node) {
            return Verdict::NotSelected;
        }
        let used: Vec<_> = self.on(node).flat_map(|p| p.class.spec.ports.clone()).collect();
        if conflict(&spec.ports, used.iter()) {
            return Verdict::PortTaken;
        }
        let (mut bits, mut unresolvable) = (0, false);
        if self.on(node).count() as i64 + 1 > node.allocatable("pods") {
            bits |= 1;
        }
        for (i, (name, amount)) in spec.requests.iter().enumerate() {
            let used: i64 = self.on(node).map(|p| p.class.spec.request(name)).sum();
            if *amount > node.allocatable(name) - used {
                bits |= Verdict::short_of(i);
                unresolvable |= *amount > node.allocatable(name);
            }
        }
        if bits != 0 {
            return Verdict::Short { bits, unresolvable };
        }
        let volumes = self.volumes_verdict(pod, node);
        if volumes != Verdict::Fits {
            return volumes;
        }
        for c in hard {
            let Some(value) = node.label(&c.topology_key) else { return Verdict::NoTopologyLabel };
            let keys: Vec<&str> = hard.iter().map(|c| &*c.topology_key).collect();
            let counts = self.domains(pod, c, &keys);
            let least = if (counts.len() as i64) < c.min_domains {
                0
            } else {
                counts.values().copied().min().unwrap_or(i64::from(i32::MAX))
            };
            let itself = i64::from(c.selector.matches(&|k| class.label(k)));
            if counts.get(value).copied().unwrap_or(0) + itself - least > c.max_skew {
                return Verdict::Skewed;
            }
        }
        let all = |p: &Pod| class.affinity.iter().all(|t| self.means(t, &p.class));
        let mut there = true;
        for term in &class.affinity {
            let Some(value) = node.label(&term.topology_key) else { return Verdict::NoAffinity };
            there &= self.count(&term.topology_key, value, &|_, p| all(p)) > 0;
        }
        if !there {
            let has_key = |n: &Node| class.affinity.iter().any(|t| n.label(&t.topology_key).is_some());
            let anybody = self.nodes.values().any(|n| has_key(n) && self.on(n).any(all));
            if anybody || !all(pod) {
                return Verdict::NoAffinity;
            }
        }
        for term in &class.anti_affinity {
            let value = node.label(&term.topology_key);
            if value
                .is_some_and(|v| self.count(&term.topology_key, v, &|_, p| self.means(term, &p.class)) > 0)
            {
                return Verdict::AntiAffinity;
            }
        }
        for other in self.nodes.values() {
            for placed in self.on(other) {
                for term in &placed.class.anti_affinity {
                    let (here, there) = (node.label(&term.topology_key), other.label(&term.topology_key));
                    if here.is_some() && here == there && self.means(term, class) {
                        return Verdict::ExistingAntiAffinity;
                    }
                }
            }
        }
        if spec.features.within(node.features) { Verdict::Fits } else { Verdict::LacksFeatures }
    }

    /// Whether there is a node for a pod that has no default constraints.
    pub fn fits(&self, pod: &Pod) -> bool {
        let own = pod.class.spread.iter().flatten();
        let hard: Vec<Constraint> = own.filter(|c| c.when == Unsatisfiable::DoNotSchedule).cloned().collect();
        !self.rejects(pod) && self.nodes.values().any(|node| self.verdict(pod, node, &hard) == Verdict::Fits)
    }

    /// Pods by domain that a constraint counts.
    fn domains(&self, pod: &Pod, c: &Constraint, keys: &[&str]) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for node in self.nodes.values() {
            let spec = &pod.class.spec;
            let place = keys.iter().all(|key| node.label(key).is_some())
                && (c.affinity_policy == Inclusion::Ignore || spec.required.matches(node))
                && (c.taints_policy == Inclusion::Ignore
                    || taint::all_tolerated(&node.taints, &spec.tolerations));
            let Some(value) = node.label(&c.topology_key).filter(|_| place) else { continue };
            *counts.entry(value.to_owned()).or_insert(0) += self.matching(pod, c, node);
        }
        counts
    }

    fn matching(&self, pod: &Pod, c: &Constraint, node: &Node) -> i64 {
        let counts = |p: &&Pod| {
            p.class.namespace == pod.class.namespace
                && !p.deleting
                && c.selector.matches(&|k| p.class.label(k))
        };
        if c.selector.is_everything() { 0 } else { self.on(node).filter(counts).count() as i64 }
    }

    fn evaluate(&self, pod: &Pod, selectors: &Selectors) -> Found {
        if self.rejects(pod) {
            return Found::new();
        }
        let defaults = Config::default().profiles[0].spread.defaults.clone();
        let own = pod.class.spread.is_some();
        let constraints = match (&pod.class.spread, selectors.of(&pod.class)) {
            (Some(own), _) => own.clone(),
            (None, Some(s)) => {
                defaults.into_iter().map(|c| Constraint { selector: s.clone(), ..c }).collect()
            }
            (None, None) => Vec::new(),
        };
        let (hard, soft): (Vec<_>, Vec<_>) =
            constraints.into_iter().partition(|c| c.when == Unsatisfiable::DoNotSchedule);
        let mut found = Found::new();
        let mut fit = Vec::new();
        for (name, node) in &self.nodes {
            let verdict = self.verdict(pod, node, &hard);
            found.insert(name.clone(), (verdict, None));
            if verdict == Verdict::Fits {
                fit.push(node);
            }
        }
        for (node, total) in fit.iter().zip(self.totals(pod, &fit, &soft, own)) {
            found.get_mut(&*node.name).expect("inserted").1 = Some(total);
        }
        found
    }

    fn totals(&self, pod: &Pod, fit: &[&Arc<Node>], soft: &[Constraint], own: bool) -> Vec<i64> {
        let spec = &pod.class.spec;
        let resources = ["cpu", "memory"];
        let mut totals = vec![0; fit.len()];
        let taints: Vec<i64> = fit.iter().map(|n| taint::intolerable(&n.taints, &spec.tolerations)).collect();
        let wants: Vec<i64> = fit.iter().map(|n| spec.preferred.score(n)).collect();
        let (most_taints, most_wants) =
            (taints.iter().max().copied().unwrap_or(0), wants.iter().max().copied().unwrap_or(0));
        for (i, node) in fit.iter().enumerate() {
            let least: i64 = (0..2)
                .map(|r| {
                    let capacity = node.allocatable(resources[r]);
                    let used: i64 = self.on(node).map(|p| p.class.spec.at_least[r]).sum();
                    let used = used + spec.at_least[r];
                    if used > capacity { 0 } else { (capacity - used) * 100 / capacity }
                })
                .sum::<i64>()
                / 2;
            totals[i] += least;
            if resources.iter().any(|r| spec.request(r) > 0) {
                let balance = |with: bool| {
                    let f = resources.map(|r| {
                        let used: i64 = self.on(node).map(|p| p.class.spec.request(r)).sum();
                        let used = used + if with { spec.request(r) } else { 0 };
                        (used as f64 / node.allocatable(r) as f64).min(1.0)
                    });
                    ((1.0 - ((f[0] - f[1]) / 2.0).abs()) * 100.0) as i64
                };
                totals[i] += 50 + (50 + balance(true) - balance(false)) / 2;
            }
            totals[i] += 3 * if most_taints == 0 { 100 } else { 100 - 100 * taints[i] / most_taints };
            totals[i] += 2 * if most_wants == 0 { 0 } else { 100 * wants[i] / most_wants };
        }
        if !soft.is_empty() {
            self.add_spread(pod, fit, soft, own, &mut totals);
        }
        let mut sums = vec![0i64; fit.len()];
        for other in self.nodes.values() {
            for placed in self.on(other) {
                let mut terms: Vec<(i64, &PodTerm)> = Vec::new();
                let own = pod.class.preferred.iter().filter(|(_, t)| self.means(t, &placed.class));
                terms.extend(own.map(|(w, t)| (*w, &**t)));
                let theirs = placed.class.preferred.iter().map(|(w, t)| (*w, &**t));
                let hard = placed.class.affinity.iter().map(|t| (1, &**t));
                terms.extend(theirs.chain(hard).filter(|(_, t)| self.means(t, &pod.class)));
                for (weight, term) in terms {
                    let there = other.label(&term.topology_key);
                    for (sum, node) in sums.iter_mut().zip(fit) {
                        if there.is_some() && node.label(&term.topology_key) == there {
                            *sum += weight;
                        }
                    }
                }
            }
        }
        let (least, most) =
            (sums.iter().min().copied().unwrap_or(0), sums.iter().max().copied().unwrap_or(0));
        for (total, sum) in totals.iter_mut().zip(sums) {
            if most > least {
                *total += 2 * (100.0 * ((sum - least) as f64 / (most - least) as f64)) as i64;
            }
        }
        totals
    }

    fn add_spread(&self, pod: &Pod, fit: &[&Arc<Node>], soft: &[Constraint], own: bool, totals: &mut [i64]) {
        let keys: Vec<&str> = if own { soft.iter().map(|c| &*c.topology_key).collect() } else { Vec::new() };
        let ignored = |n: &Node| keys.iter().any(|key| n.label(key).is_none());
        let mut scores = Vec::new();
        for node in fit {
            let mut score = 0.0;
            for c in soft {
                let counted = fit.iter().filter(|n| !ignored(n));
                let mut values: Vec<&str> = counted.map(|n| n.label(&c.topology_key).unwrap_or("")).collect();
                if &*c.topology_key != HOSTNAME {
                    values.sort_unstable();
                    values.dedup();
                }
                let Some(value) = node.label(&c.topology_key) else { continue };
                let count = match &*c.topology_key {
                    HOSTNAME => self.matching(pod, c, node),
                    _ => self.domains(pod, c, &keys).get(value).copied().unwrap_or(0),
                };
                score += count as f64 * ((values.len() + 2) as f64).ln() + (c.max_skew - 1) as f64;
            }
            scores.push((!ignored(node)).then(|| score.round() as i64));
        }
        let most = scores.iter().flatten().max().copied().unwrap_or(0);
        let least = scores.iter().flatten().min().copied().unwrap_or(0);
        for (total, score) in totals.iter_mut().zip(scores) {
            if let Some(score) = score {
                *total += 2 * if most == 0 { 100 } else { 100 * (most + least - score) / most };
            }
        }
    }
}

pub(super) fn a_node(name: usize, pick: &mut dyn FnMut(u64) -> u64) -> Value {
    let mut labels = vec![format!(r#""kubernetes.io/hostname":"n{name}""#)];
    if pick(5) > 0 {
        labels.push(format!(r#""topology.kubernetes.io/zone":"z{}""#, pick(3)));
    }
    if pick(2) > 0 {
        labels.push(format!(r#""disk":"{}""#, ["ssd", "hdd"][pick(2) as usize]));
    }
    // Words that come and go: their numbers are given to others.
    if pick(2) > 0 {
        labels.push(format!(r#""rack":"{}""#, pick(40)));
    }
    if pick(2) > 0 {
        labels.push(format!(r#""own-{}":"{}""#, pick(30), ["ssd", "z1", "v"][pick(3) as usize]));
    }
    let a_taint = |pick: &mut dyn FnMut(u64) -> u64| {
        let key = if pick(2) > 0 { "k".to_owned() } else { format!("k{}", pick(30)) };
        let effect = ["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"][pick(4) as usize];
        format!(r#"{{"key":"{key}","value":"{}","effect":"{effect}"}}"#, ["", "a", "b"][pick(3) as usize])
    };
    let taint = match pick(8) {
        0 | 1 => format!(r#""taints":[{}]"#, a_taint(pick)),
        2 => r#""unschedulable":true"#.to_owned(),
        3 => format!(r#""taints":[{},{}]"#, a_taint(pick), a_taint(pick)),
        _ => String::new(),
    };
    let declared = r#""declaredFeatures":["UserNamespacesHostNetworkSupport"],"#;
    let features = if pick(2) == 0 { declared } else { "" };
    tree(&format!(
        r#"{{"metadata":{{"name":"n{name}","labels":{{{}}}}},"spec":{{{taint}}},"status":{{{features}"allocatable":{{
        "cpu":"{}","memory":"{}Gi","pods":"{}"}}}}}}"#,
        labels.join(","),
        2 + pick(6),
        4 + pick(12),
        3 + pick(8)
    ))
}

pub(super) fn a_pod(name: usize, node: &str, pick: &mut dyn FnMut(u64) -> u64) -> Value {
    let app = |pick: &mut dyn FnMut(u64) -> u64| ["web", "db", "job"][pick(3) as usize];
    let key = |pick: &mut dyn FnMut(u64) -> u64| {
        ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk"][pick(3) as usize]
    };
    let mut spec = Vec::new();
    let term = |pick: &mut dyn FnMut(u64) -> u64| {
        let namespaces =
            ["", r#","namespaces":["ns0","ns1"]"#, r#","namespaceSelector":{"matchLabels":{"team":"red"}}"#];
        format!(
            r#"{{"topologyKey":"{}","labelSelector":{{"matchLabels":{{"app":"{}"}}}}{}}}"#,
            key(pick),
            app(pick),
            namespaces[pick(3) as usize]
        )
    };
    if pick(3) == 0 {
        let when = ["DoNotSchedule", "ScheduleAnyway"][pick(2) as usize];
        let policy =
            ["", r#","nodeAffinityPolicy":"Ignore""#, r#","nodeTaintsPolicy":"Honor""#][pick(3) as usize];
        spec.push(format!(
            r#""topologySpreadConstraints":[{{"maxSkew":{},"topologyKey":"{}","whenUnsatisfiable":"{when}",
            "labelSelector":{{"matchLabels":{{"app":"{}"}}}}{policy}}},{{"maxSkew":2,"topologyKey":"{}",
            "whenUnsatisfiable":"ScheduleAnyway","labelSelector":{{"matchLabels":{{"app":"{}"}}}}}}]"#,
            1 + pick(3),
            key(pick),
            app(pick),
            key(pick),
            app(pick)
        ));
    }
    let mut affinity = Vec::new();
    let kinds = ["podAffinity", "podAntiAffinity"];
    for kind in kinds {
        match pick(6) {
            0 => affinity.push(format!(
                r#""{kind}":{{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}"#,
                term(pick)
            )),
            1 => affinity.push(format!(
                r#""{kind}":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":{},"podAffinityTerm":{}}}]}}"#,
                1 + pick(100),
                term(pick)
            )),
            _ => {}
        }
    }
    if pick(4) == 0 {
        let kind = ["requiredDuringSchedulingIgnoredDuringExecution", PREFERRED][pick(2) as usize];
        let terms: Vec<String> = (0..1 + pick(2)).map(|_| a_term(pick)).collect();
        affinity.push(match kind {
            PREFERRED => {
                let weighed =
                    |term: &String| format!(r#"{{"weight":{},"preference":{term}}}"#, 1 + terms.len());
                let terms: Vec<String> = terms.iter().map(weighed).collect();
                format!(r#""nodeAffinity":{{"{PREFERRED}":[{}]}}"#, terms.join(","))
            }
            _ => format!(r#""nodeAffinity":{{"{kind}":{{"nodeSelectorTerms":[{}]}}}}"#, terms.join(",")),
        });
    } else if pick(5) == 0 {
        affinity.push(
            r#""nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":5,"preference":{
            "matchExpressions":[{"key":"disk","operator":"Exists"}]}}]}"#
                .to_owned(),
        );
    }
    if !affinity.is_empty() {
        spec.push(format!(r#""affinity":{{{}}}"#, affinity.join(",")));
    }
    match pick(6) {
        0 => spec.push(r#""nodeSelector":{"disk":"ssd"}"#.to_owned()),
        1 => spec.push(r#""tolerations":[{"key":"k","operator":"Exists"}]"#.to_owned()),
        2 => spec.push(format!(
            r#""tolerations":[{{"key":"k","value":"a"}},{{"key":"k{}","operator":"Exists","effect":"PreferNoSchedule"}}]"#,
            pick(30)
        )),
        3 if pick(2) == 0 => spec.push(format!(r#""nodeSelector":{{"own-{}":"v"}}"#, pick(30))),
        _ => {}
    }
    if !node.is_empty() {
        spec.push(format!(r#""nodeName":"{node}""#));
    }
    let ports = if pick(6) == 0 { r#","ports":[{"hostPort":80}]"# } else { "" };
    let requests =
        ["", r#""cpu":"500m""#, r#""cpu":"1","memory":"1Gi""#, r#""memory":"2Gi""#][pick(4) as usize];
    spec.push(format!(r#""containers":[{{"name":"c","resources":{{"requests":{{{requests}}}}}{ports}}}]"#));
    let owned = if pick(2) == 0 {
        r#","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","controller":true}]"#
    } else {
        ""
    };
    let going = if pick(8) == 0 { r#","deletionTimestamp":"2026-01-01T00:00:00Z""# } else { "" };
    tree(&format!(
        r#"{{"metadata":{{"name":"p{name}","namespace":"ns{}","uid":"p{name}","labels":{{"app":"{}"}}{owned}{going}}},
        "spec":{{{}}}}}"#,
        pick(2),
        app(pick),
        spec.join(",")
    ))
}

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A term about nodes: every operator, keys and values that are there or not, names of nodes.
fn a_term(pick: &mut dyn FnMut(u64) -> u64) -> String {
    let mut parts = Vec::new();
    if pick(4) > 0 {
        let operator = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"][pick(6) as usize];
        let key = match pick(4) {
            0 => "disk".to_owned(),
            1 => format!("own-{}", pick(30)),
            _ => "rack".to_owned(),
        };
        let values = match operator {
            "Exists" | "DoesNotExist" => String::new(),
            "Gt" | "Lt" => format!(r#","values":["{}"]"#, pick(40)),
            _ => format!(r#","values":["{}","ssd","{}"]"#, pick(40), pick(40)),
        };
        parts.push(format!(r#""matchExpressions":[{{"key":"{key}","operator":"{operator}"{values}}}]"#));
    }
    if parts.is_empty() || pick(6) == 0 {
        let operator = ["In", "NotIn"][pick(2) as usize];
        parts.push(format!(
            r#""matchFields":[{{"key":"metadata.name","operator":"{operator}","values":["n{}"]}}]"#,
            pick(10)
        ));
    }
    format!("{{{}}}", parts.join(","))
}

fn apply(storage: &mut storage::Storage, change: &volumes::Change) {
    let (namespace, name, tree) = (&*change.namespace, &*change.name, change.tree.as_ref());
    match change.kind {
        "claim" => {
            drop(storage.set_claim(namespace, name, tree.map(|t| Arc::new(storage::Claim::parse(t)))));
        }
        "volume" => drop(storage.set_volume(name, tree.map(|t| Arc::new(storage::Volume::parse(t))))),
        "class" => drop(storage.set_class(name, tree.map(storage::StorageClass::parse))),
        "csi node" => drop(storage.set_csi_node(name, tree.map(storage::CsiNode::parse))),
        "capacity" => drop(storage.set_capacity(namespace, name, tree.map(storage::Capacity::parse))),
        "attachment" => drop(storage.set_attachment(name, tree.map(storage::Attachment::parse))),
        _ => {
            let tracked = tree.and_then(|t| t.at(&["spec", "storageCapacity"])).and_then(Value::as_bool);
            storage.set_tracked(name, tracked == Some(true));
        }
    }
}

/// Some pods of a node taken away and some put there: in thought, and in the lists.
#[allow(clippy::too_many_arguments)]
fn moved_in_thought(
    world: &mut World,
    cluster: &mut Cluster,
    evaluator: &mut Evaluator,
    templates: &mut Templates,
    selectors: &Selectors,
    pod: &Pod,
    node: &str,
    pick: &mut dyn FnMut(u64) -> u64,
) {
    let ix = cluster.node_ix(node).expect("it is there");
    let removed: Vec<u32> = cluster.pods_on(ix).iter().copied().filter(|_| pick(2) == 0).collect();
    let uids: Vec<String> = removed.iter().map(|pod| cluster.placed(*pod).uid.to_string()).collect();
    let count = pick(3) as usize;
    let added: Vec<Arc<Pod>> =
        (0..count).map(|n| Arc::new(templates.parse(&a_pod(2000 + n, node, pick)))).collect();
    let change = Change { removed, added };
    let thought = evaluator.inspect_after(cluster, selectors, pod, ix, &change);

    let kept: Vec<Pod> = uids.iter().filter_map(|uid| world.pods.remove(uid)).collect();
    for pod in &change.added {
        world.pods.insert(pod.uid.to_string(), (**pod).clone());
    }
    let looked_at = world.evaluate(pod, selectors)[node].0;
    assert_eq!(thought, looked_at, "{node} without {uids:?} and with {:?} for {:?}", change.added, pod.class);
    for pod in &change.added {
        world.pods.remove(&*pod.uid);
    }
    for pod in kept {
        world.pods.insert(pod.uid.to_string(), pod);
    }
}

#[test]
fn incremental_state_agrees_with_a_full_scan() {
    let mut seen: Vec<&'static str> = Vec::new();
    for seed in 0..20 {
        let mut next = rng(seed);
        let pick: &mut dyn FnMut(u64) -> u64 = &mut next;
        let (mut world, mut cluster) = (World::default(), Cluster::default());
        let (mut templates, mut selectors) = (Templates::default(), Selectors::default());
        let mut evaluator = Evaluator::new(Arc::new(Config::default()));
        // What is kept as a list of a few is kept otherwise of many: one cluster is large from the beginning.
        let (nodes, pods, begin, steps) = if seed == 9 { (260, 120, 400, 50) } else { (8, 25, 0, 150) };
        for step in 0..begin + steps {
            // Volumes change as often as all else.
            let change = a_change(nodes, step + 1, pick);
            world.storage.apply(&change);
            apply(cluster.storage_mut(), &change);
            let now = match step {
                _ if step >= begin => pick(10),
                _ if step < nodes => 0,
                _ => 3,
            };
            match now {
                0 | 1 => {
                    let name = if step < begin { step } else { pick(nodes) };
                    let node = Arc::new(Node::parse(&a_node(name as usize, pick)));
                    world.nodes.insert(node.name.to_string(), node.clone());
                    cluster.set_node(node);
                }
                2 if pick(3) == 0 => {
                    let name = format!("n{}", pick(nodes));
                    world.nodes.remove(&name);
                    cluster.remove_node(&name);
                }
                3..=5 => {
                    let (name, node) = (pick(pods) as usize, format!("n{}", pick(nodes)));
                    let pod = templates.parse(&with_volumes(a_pod(name, &node, pick), pick));
                    cluster.set_pod(&pod, false);
                    world.pods.insert(pod.uid.to_string(), pod);
                }
                6 => {
                    let uid = format!("p{}", pick(pods));
                    world.pods.remove(&uid);
                    cluster.remove_pod(&uid);
                }
                7 if pick(4) == 0 => {
                    let (name, team) = (format!("ns{}", pick(2)), ["red", "blue"][pick(2) as usize]);
                    let labels: Labels = Arc::from([("team".into(), team.into())]);
                    world.namespaces.insert(name.clone(), labels.clone());
                    cluster.set_namespace(&name, Some(labels));
                }
                8 if pick(5) == 0 => {
                    let json = format!(
                        r#"{{"spec":{{"selector":{{"matchLabels":{{"app":"{}"}}}}}}}}"#,
                        ["web", "db"][pick(2) as usize]
                    );
                    selectors.set_owner(
                        OwnerKind::ReplicaSet,
                        &format!("ns{}", pick(2)),
                        "web",
                        Some(&tree(&json)),
                    );
                }
                _ => {
                    let tree = with_volumes(a_pod(1000 + pick(10) as usize, "", pick), pick);
                    let pod = templates.parse(&tree);
                    let found: Found = evaluator
                        .inspect(&mut cluster, &selectors, &pod)
                        .into_iter()
                        .map(|(name, verdict, total)| (name.to_string(), (verdict, total)))
                        .collect();
                    assert_eq!(
                        found,
                        world.evaluate(&pod, &selectors),
                        "seed {seed} step {step} {:?}",
                        pod.class
                    );
                    seen.extend(found.values().map(|(verdict, _)| verdict.reason()));
                    let nodes: Vec<String> = world.nodes.keys().cloned().collect();
                    // Pods that come and go are counted, and not looked for, where a claim is for one pod.
                    if !nodes.is_empty() && !world.rejects(&pod) && !world.has_claims_for_one_pod(&pod) {
                        let node = &nodes[pick(nodes.len() as u64) as usize];
                        moved_in_thought(
                            &mut world,
                            &mut cluster,
                            &mut evaluator,
                            &mut templates,
                            &selectors,
                            &pod,
                            node,
                            pick,
                        );
                    }
                }
            }
        }
    }
    // All filters had something to say, or the comparison would say little.
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 20, "{seen:?}");
}
