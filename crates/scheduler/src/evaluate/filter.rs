//! The filters that look beyond the node: topology spread and pod affinity, also with pods moved in thought.

use std::sync::Arc;

use crate::cluster::bits::Bits;
use crate::cluster::counters::NOWHERE;
use crate::cluster::{Cluster, NodeIx};
use crate::evaluate::local::Change;
use crate::evaluate::plan::{Plan, Topic, counts_for};
use crate::pod::{Class, PodTerm};
use crate::verdict::Verdict;

/// Numbers that are the same for every node of one decision.
pub struct Ready {
    /// For each hard constraint the fewest pods in any domain, or zero with too few domains.
    minimum: Vec<i64>,
    /// No pod anywhere is one this one wants to be with.
    nobody_yet: bool,
    /// Nodes near pods that this one does not want to be with, and near pods that do not want to be with it.
    pub anti: Bits,
    pub existing_anti: Bits,
}

/// What pods moved in thought change in the counters at one node's domains.
struct Moved {
    hard: Vec<i64>,
    affinity: i64,
    anti: Vec<i64>,
    existing: Vec<i64>,
    /// A pod put there does not want this one near.
    refused: bool,
}

impl Ready {
    pub fn new(plan: &Plan, cluster: &Cluster) -> Ready {
        let minimum = plan.hard.iter().map(|hard| minimum(hard.at, hard.min_domains, cluster, None));
        let counters = cluster.counters();
        let occupied = |topics: &mut dyn Iterator<Item = &Topic>| {
            let mut nodes = Bits::default();
            topics.for_each(|at| nodes.unite(counters.read(at.counter).occupied()));
            nodes
        };
        Ready {
            minimum: minimum.collect(),
            nobody_yet: plan.affinity.iter().all(|t| counters.read(t.counter).total == 0),
            anti: occupied(&mut plan.anti.iter()),
            existing_anti: occupied(&mut plan.existing_anti.iter().map(|existing| &existing.at)),
        }
    }
}

/// The fewest pods in a domain, with `change` added in one of them.
fn minimum(at: Topic, min_domains: i64, cluster: &Cluster, change: Option<(u32, i64)>) -> i64 {
    let domains = cluster.counters().read(at.counter);
    let (mut least, mut n) = (i64::MAX, 0);
    for (domain, _) in domains.nodes().iter().enumerate().filter(|(_, nodes)| **nodes > 0) {
        let moved = change.filter(|(at, _)| *at as usize == domain).map_or(0, |(_, by)| by);
        least = least.min(domains.counts().get(domain as u32) + moved);
        n += 1;
    }
    if n < min_domains { 0 } else { least }
}

/// Whether a node fits that no pod is near which must not be.
#[inline]
pub fn fits(plan: &Plan, ready: &Ready, cluster: &Cluster, ix: NodeIx) -> bool {
    !plan.counts_pods() || gathered(plan, ready, cluster, ix, None) == Verdict::Fits
}

#[inline]
pub fn verdict(plan: &Plan, ready: &Ready, cluster: &Cluster, ix: NodeIx) -> Verdict {
    if plan.counts_pods() {
        let verdict = gathered(plan, ready, cluster, ix, None);
        if verdict != Verdict::Fits {
            return verdict;
        }
    }
    match (ready.anti.has(ix), ready.existing_anti.has(ix)) {
        (true, _) => Verdict::AntiAffinity,
        (_, true) => Verdict::ExistingAntiAffinity,
        _ => Verdict::Fits,
    }
}

/// As [`verdict`], after the change.
pub fn verdict_after(
    plan: &Plan,
    ready: &Ready,
    cluster: &Cluster,
    class: &Class,
    ix: NodeIx,
    change: &Change,
) -> Verdict {
    if change.is_empty() {
        return verdict(plan, ready, cluster, ix);
    }
    let moved = Moved::new(plan, cluster, class, ix, change);
    match gathered(plan, ready, cluster, ix, Some(&moved)) {
        Verdict::Fits => apart(plan, cluster, ix, &moved),
        verdict => verdict,
    }
}

/// What a pod wants of the pods around it: to be spread among those like it, and to be near others.
fn gathered(plan: &Plan, ready: &Ready, cluster: &Cluster, ix: NodeIx, moved: Option<&Moved>) -> Verdict {
    let counters = cluster.counters();
    let domain = |topology: usize| counters.domain(topology)[ix as usize];
    for (i, hard) in plan.hard.iter().enumerate() {
        let here = domain(hard.at.topology);
        if here == NOWHERE {
            return Verdict::NoTopologyLabel;
        }
        let mut count = counters.read(hard.at.counter).counts().get(here);
        let mut least = ready.minimum[i];
        if let Some(by) = moved.map(|m| m.hard[i]).filter(|by| *by != 0) {
            count += by;
            least = minimum(hard.at, hard.min_domains, cluster, Some((here, by)));
        }
        // Without any domain there is no minimum to differ from.
        if least != i64::MAX && count + hard.itself - least > hard.max_skew {
            return Verdict::Skewed;
        }
    }

    let mut all_there = true;
    for at in &plan.affinity {
        match count(cluster, at, ix, moved.map_or(0, |m| m.affinity)) {
            None => return Verdict::NoAffinity,
            Some(count) => all_there &= count > 0,
        }
    }
    if !all_there {
        let first = match moved {
            None => ready.nobody_yet,
            Some(moved) => plan.affinity.iter().all(|at| {
                let by = if domain(at.topology) == NOWHERE { 0 } else { moved.affinity };
                counters.read(at.counter).total + by == 0
            }),
        };
        if !(first && plan.matches_itself) {
            return Verdict::NoAffinity;
        }
    }
    Verdict::Fits
}

/// How many pods there are in a node's domain, if it is in one.
fn count(cluster: &Cluster, at: &Topic, ix: NodeIx, by: i64) -> Option<i64> {
    match cluster.counters().domain(at.topology)[ix as usize] {
        NOWHERE => None,
        here => Some(cluster.counters().read(at.counter).counts().get(here) + by),
    }
}

/// Whether pods are near that this one, or those, do not want to be with.
fn apart(plan: &Plan, cluster: &Cluster, ix: NodeIx, moved: &Moved) -> Verdict {
    let near = |at: &Topic, by: i64| count(cluster, at, ix, by).is_some_and(|count| count > 0);
    for (i, at) in plan.anti.iter().enumerate() {
        if near(at, moved.anti[i]) {
            return Verdict::AntiAffinity;
        }
    }
    for (i, existing) in plan.existing_anti.iter().enumerate() {
        if near(&existing.at, moved.existing[i]) {
            return Verdict::ExistingAntiAffinity;
        }
    }
    if moved.refused {
        return Verdict::ExistingAntiAffinity;
    }
    Verdict::Fits
}

impl Moved {
    fn new(plan: &Plan, cluster: &Cluster, class: &Class, ix: NodeIx, change: &Change) -> Moved {
        let counters = cluster.counters();
        let removed = change.removed.iter().map(|pod| cluster.placed(*pod));
        let removed = removed.map(|pod| (&*pod.class, pod.deleting, -1i64));
        let added = change.added.iter().map(|pod| (&*pod.class, pod.deleting, 1i64));
        let moves: Vec<(&Class, bool, i64)> = removed.chain(added).collect();
        let sum = |counts: &dyn Fn(&Class, bool) -> bool| -> i64 {
            moves.iter().filter(|(other, deleting, _)| counts(other, *deleting)).map(|(.., by)| by).sum()
        };
        let means = |terms: &[Arc<PodTerm>], other: &Class| {
            let labels = counters.namespace_labels(&other.namespace);
            !terms.is_empty() && terms.iter().all(|t| t.matches(&other.namespace, labels, &other.labels))
        };
        let hard = plan.hard.iter().map(|hard| {
            let place = counters.read(hard.at.counter).includes(ix);
            sum(&|other, deleting| place && counts_for(&hard.constraint, class, other, deleting))
        });
        let anti = class.anti_affinity.iter();
        let anti = anti.map(|term| sum(&|other, _| means(std::slice::from_ref(term), other)));
        let existing = plan.existing_anti.iter().map(|e| {
            let held = |pod: &&u32| cluster.placed(**pod).class.holds(&e.held);
            -(change.removed.iter().filter(held).count() as i64)
        });
        let labels = counters.namespace_labels(&class.namespace);
        let node = cluster.node(ix);
        let refuses = |term: &Arc<PodTerm>| {
            node.label(&term.topology_key).is_some() && term.matches(&class.namespace, labels, &class.labels)
        };
        Moved {
            hard: hard.collect(),
            affinity: sum(&|other, _| means(&class.affinity, other)),
            anti: anti.collect(),
            existing: existing.collect(),
            refused: change.added.iter().any(|pod| pod.class.anti_affinity.iter().any(refuses)),
        }
    }
}
