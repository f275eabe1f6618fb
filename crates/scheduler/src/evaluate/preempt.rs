//! Making room: which less important pods to delete so that a pod that fits nowhere fits somewhere.

use std::cmp::Reverse;
use std::sync::Arc;

use object::selector::LabelSelector;

use super::{Evaluator, Rng, Work};
use crate::cluster::{Cluster, NodeIx, Placed, PodIx};
use crate::config::Profile;
use crate::evaluate::devices::Devices;
use crate::evaluate::local::Change;
use crate::nominated::Nominated;
use crate::pod::Pod;
use crate::selectors::Selectors;
use crate::verdict::{Diagnosis, Verdict};

/// A PodDisruptionBudget, as far as it bounds preemption.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    pub namespace: Arc<str>,
    pub selector: LabelSelector,
    pub allowed: i64,
    /// Pods the server has let go already: they are counted.
    pub disrupted: Vec<String>,
}

#[derive(Debug)]
pub enum Preemption {
    /// Room is being made; the victims in the order of their importance.
    Room { node: NodeIx, victims: Vec<Placed> },
    /// Nothing can be done; the words follow "preemption: ". A nomination that was made is taken back.
    Helpless(String),
    /// Nothing is to be done now; a nomination stays.
    Refused(&'static str),
}

struct Candidate {
    node: NodeIx,
    victims: Vec<PodIx>,
    violations: usize,
}

impl Evaluator {
    #[allow(clippy::too_many_arguments)]
    pub fn preempt(
        &mut self,
        cluster: &mut Cluster,
        selectors: &Selectors,
        nominated: &Nominated,
        budgets: &[Budget],
        profile: usize,
        pod: &Pod,
        diagnosis: &Diagnosis,
        rng: Rng,
    ) -> Preemption {
        if !pod.preempts {
            return Preemption::Refused("not eligible due to preemptionPolicy=Never.");
        }
        if waits_for_victims(cluster, pod, diagnosis) {
            return Preemption::Refused("not eligible due to a terminating pod on the nominated node.");
        }
        let work = self.begin(cluster, selectors, profile, pod);
        let config = self.config.clone();
        let settings = &config.profiles[profile];
        let result = dry_run(cluster, nominated, budgets, settings, pod, diagnosis, &work, rng);
        let said = work.devices.as_ref().map(Devices::said).unwrap_or_default();
        self.end(work);
        match result {
            Ok(best) => {
                let victims = best.victims.iter().map(|ix| cluster.placed(*ix).clone()).collect();
                Preemption::Room { node: best.node, victims }
            }
            Err(mut found) => {
                found.devices = said;
                Preemption::Helpless(found.message(&pod.class.spec))
            }
        }
    }
}

/// Whether an earlier preemption's victims are still going from the node this pod was promised.
fn waits_for_victims(cluster: &Cluster, pod: &Pod, diagnosis: &Diagnosis) -> bool {
    let Some(ix) = cluster.node_ix(&pod.nominated_node) else { return false };
    if diagnosis.verdict(ix).is_none_or(Verdict::unresolvable) {
        return false;
    }
    cluster
        .pods_on(ix)
        .iter()
        .map(|ix| cluster.placed(*ix))
        .any(|other| other.priority < pod.priority && other.deleting && other.preempted)
}

#[allow(clippy::too_many_arguments)]
fn dry_run(
    cluster: &Cluster,
    nominated: &Nominated,
    budgets: &[Budget],
    profile: &Profile,
    pod: &Pod,
    diagnosis: &Diagnosis,
    work: &Work,
    rng: Rng,
) -> Result<Candidate, Diagnosis> {
    let mut found = Diagnosis { nodes: diagnosis.nodes, ..Diagnosis::default() };
    found.others = Some("Preemption is not helpful for scheduling".to_owned());
    let potential =
        || diagnosis.verdicts.iter().filter(|(_, verdict)| !verdict.unresolvable()).map(|(ix, _)| *ix);
    let all = potential().count();
    if all == 0 {
        return Err(found);
    }
    let share = all as i64 * profile.preemption.min_candidate_nodes_percentage / 100;
    let enough = share.max(profile.preemption.min_candidate_nodes_absolute).min(all as i64) as usize;
    let offset = rng(all as u64) as usize;
    let (mut clean, mut violating) = (Vec::new(), Vec::new());
    for ix in potential().skip(offset).chain(potential().take(offset)) {
        match victims(cluster, nominated, budgets, profile, pod, work, ix) {
            Ok(candidate) if candidate.violations == 0 => clean.push(candidate),
            Ok(candidate) => violating.push(candidate),
            Err(verdict) => found.counts.add(verdict),
        }
        if !clean.is_empty() && clean.len() + violating.len() >= enough {
            break;
        }
    }
    clean.append(&mut violating);
    best(cluster, clean).ok_or(found)
}

/// The fewest that must go from a node, the least important first, or why none would help.
fn victims(
    cluster: &Cluster,
    nominated: &Nominated,
    budgets: &[Budget],
    profile: &Profile,
    pod: &Pod,
    work: &Work,
    ix: NodeIx,
) -> Result<Candidate, Verdict> {
    if cluster.lowest_priority(ix) >= pod.priority {
        return Err(Verdict::NoVictims);
    }
    let less = |other: &&PodIx| cluster.placed(**other).priority < pod.priority;
    let mut potential: Vec<PodIx> = cluster.pods_on(ix).iter().filter(less).copied().collect();
    let expected = work.expected(cluster, nominated, pod, ix).added;
    let fits = |removed: &[PodIx]| {
        let mut change = Change { removed: removed.to_vec(), added: expected.clone() };
        let verdict = work.after(cluster, profile, pod, ix, &change);
        if verdict != Verdict::Fits || expected.is_empty() {
            return verdict;
        }
        // The promised pods may never come: it must fit without them too.
        change.added.clear();
        work.after(cluster, profile, pod, ix, &change)
    };
    match fits(&potential) {
        Verdict::Fits => {}
        verdict => return Err(verdict),
    }
    potential.sort_by_key(|ix| importance(cluster.placed(*ix)));
    let (violating, others) = over_budget(cluster, budgets, &potential);
    let mut gone = potential.clone();
    let (mut victims, mut violations) = (Vec::new(), 0);
    // Those whose budget would be overdrawn are spared first, and the most important of the others.
    for (spared, violates) in violating.iter().map(|v| (v, 1)).chain(others.iter().map(|v| (v, 0))) {
        gone.retain(|other| other != spared);
        if fits(&gone) != Verdict::Fits {
            gone.push(*spared);
            victims.push(*spared);
            violations += violates;
        }
    }
    if victims.is_empty() {
        return Err(Verdict::NoVictims);
    }
    victims.sort_by_key(|ix| importance(cluster.placed(*ix)));
    Ok(Candidate { node: ix, victims, violations })
}

/// Higher priority first, then who started earlier.
fn importance(pod: &Placed) -> (Reverse<i32>, i64) {
    (Reverse(pod.priority), pod.started.unwrap_or(i64::MAX))
}

/// Pods whose deletion a budget would not allow, and the others, each in their order.
fn over_budget(cluster: &Cluster, budgets: &[Budget], pods: &[PodIx]) -> (Vec<PodIx>, Vec<PodIx>) {
    let mut allowed: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.iter().partition(|ix| {
        let pod = cluster.placed(**ix);
        let mut violates = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let bound = !pod.class.labels.is_empty()
                && budget.namespace == pod.class.namespace
                && !budget.selector.is_everything()
                && budget.selector.matches(&|key| pod.class.label(key))
                && !budget.disrupted.iter().any(|name| name.as_str() == &*pod.name);
            if bound {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        violates
    })
}

/// Upstream's order: fewest violated budgets, lowest top priority, lowest sum, fewest victims, latest start of the
/// most important, first found.
fn best(cluster: &Cluster, candidates: Vec<Candidate>) -> Option<Candidate> {
    let rank = |candidate: &Candidate| {
        let pods: Vec<&Placed> = candidate.victims.iter().map(|ix| cluster.placed(*ix)).collect();
        let top = pods.iter().map(|p| p.priority).max().unwrap_or(i32::MIN);
        let sum: i64 = pods.iter().map(|p| i64::from(p.priority) + (1 << 31)).sum();
        let important = pods.iter().filter(|p| p.priority == top);
        let earliest = important.map(|p| p.started.unwrap_or(i64::MAX)).min().unwrap_or(i64::MAX);
        (candidate.violations, top, sum, pods.len(), Reverse(earliest))
    };
    candidates.into_iter().min_by_key(rank)
}
