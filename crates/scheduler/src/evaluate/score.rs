//! Which of the nodes that fit is best: each plugin's score from 0 to 100, times its weight.

use crate::cluster::counters::NOWHERE;
use crate::cluster::{Cluster, NodeIx};
use crate::config::Profile;
use crate::evaluate::local::{MAX_SCORE, Scores};
use crate::evaluate::plan::Plan;
use crate::plugin::Plugin;

/// The total of each of the `fit` nodes, in their order.
pub fn totals(profile: &Profile, plan: &Plan, cluster: &Cluster, fit: &[(NodeIx, Scores)]) -> Vec<i64> {
    let mut totals = vec![0i64; fit.len()];
    let weight = |plugin: Plugin| profile.weight(plugin);
    let most_taints = fit.iter().map(|(_, s)| i64::from(s.taints)).max().unwrap_or(0).max(0);
    let most_affinity = fit.iter().map(|(_, s)| i64::from(s.affinity)).max().unwrap_or(0).max(0);
    let [taints, affinity] = [Plugin::TaintToleration, Plugin::NodeAffinity].map(weight);
    let [fits, balanced, image] =
        [Plugin::NodeResourcesFit, Plugin::NodeResourcesBalancedAllocation, Plugin::ImageLocality]
            .map(weight);
    for (total, (_, s)) in totals.iter_mut().zip(fit) {
        *total = i64::from(s.fit) * fits + i64::from(s.balanced) * balanced + i64::from(s.image) * image;
        // More intolerable taints are worse.
        let tolerated = match most_taints {
            0 => MAX_SCORE,
            most => MAX_SCORE - MAX_SCORE * i64::from(s.taints) / most,
        };
        *total += tolerated * taints;
        if most_affinity > 0 {
            *total += MAX_SCORE * i64::from(s.affinity) / most_affinity * affinity;
        }
    }
    if !plan.soft.is_empty() {
        spread(plan, cluster, fit, weight(Plugin::PodTopologySpread), &mut totals);
    }
    if !plan.wanted.is_empty() {
        inter_pod(plan, cluster, fit, weight(Plugin::InterPodAffinity), &mut totals);
    }
    totals
}

/// Nodes in domains with fewer matching pods are better.
fn spread(plan: &Plan, cluster: &Cluster, fit: &[(NodeIx, Scores)], weight: i64, totals: &mut [i64]) {
    let counters = cluster.counters();
    let ignored = |ix: NodeIx| {
        plan.require_all && plan.soft.iter().any(|s| counters.domain(s.at.topology)[ix as usize] == NOWHERE)
    };
    let counted = fit.iter().filter(|(ix, _)| !ignored(*ix)).count();
    let mut sums = vec![0f64; fit.len()];
    for soft in &plan.soft {
        let domain = counters.domain(soft.at.topology);
        let size = if soft.hostname {
            counted
        } else {
            // The nodes without the label are one domain more.
            let mut seen = vec![false; counters.domains_of(soft.at.topology) + 1];
            let last = seen.len() - 1;
            for (ix, _) in fit.iter().filter(|(ix, _)| !ignored(*ix)) {
                seen[(domain[*ix as usize] as usize).min(last)] = true;
            }
            seen.into_iter().filter(|seen| *seen).count()
        };
        // More domains make each pod more of a reason, or zones would weigh less than nodes.
        let each = ((size + 2) as f64).ln();
        let per_node = counters.per_node(soft.at.counter);
        let domains = (!soft.hostname).then(|| &counters.read(soft.at.counter).counts);
        for (sum, (ix, _)) in sums.iter_mut().zip(fit) {
            let here = domain[*ix as usize];
            if here != NOWHERE {
                let count = match domains {
                    None => i64::from(per_node[*ix as usize]),
                    Some(counts) => counts[here as usize],
                };
                *sum += count as f64 * each + (soft.max_skew - 1) as f64;
            }
        }
    }
    let scores: Vec<Option<i64>> =
        sums.iter().zip(fit).map(|(sum, (ix, _))| (!ignored(*ix)).then(|| sum.round() as i64)).collect();
    let least = scores.iter().flatten().copied().min().unwrap_or(0);
    let most = scores.iter().flatten().copied().max().unwrap_or(0);
    for (total, score) in totals.iter_mut().zip(scores) {
        let Some(score) = score else { continue };
        let normal = if most == 0 { MAX_SCORE } else { MAX_SCORE * (most + least - score) / most };
        *total += normal * weight;
    }
}

/// Nodes near pods that are wanted, or that want this one, are better.
fn inter_pod(plan: &Plan, cluster: &Cluster, fit: &[(NodeIx, Scores)], weight: i64, totals: &mut [i64]) {
    let counters = cluster.counters();
    let mut sums = vec![0i64; fit.len()];
    for (worth, at) in &plan.wanted {
        let (domain, counts) = (counters.domain(at.topology), &counters.read(at.counter).counts);
        for (sum, (ix, _)) in sums.iter_mut().zip(fit) {
            if let Some(count) = counts.get(domain[*ix as usize] as usize) {
                *sum += worth * count;
            }
        }
    }
    let least = sums.iter().copied().min().unwrap_or(0);
    let span = sums.iter().copied().max().unwrap_or(0) - least;
    if span == 0 {
        return;
    }
    for (total, sum) in totals.iter_mut().zip(sums) {
        let normal = MAX_SCORE as f64 * ((sum - least) as f64 / span as f64);
        *total += normal as i64 * weight;
    }
}
