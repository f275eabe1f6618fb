//! Which of the nodes that fit is best: each plugin's score from 0 to 100, times its weight.

use crate::cluster::counters::NOWHERE;
use crate::cluster::{Cluster, NodeIx};
use crate::config::Profile;
use crate::evaluate::devices::Devices;
use crate::evaluate::local::{MAX_SCORE, Scores};
use crate::evaluate::plan::Plan;
use crate::plugin::Plugin;

/// Room for the numbers of one decision, kept from one to the next.
#[derive(Default)]
pub struct ControllerRegistry {
    totals: Vec<i64>,
    numbers: Vec<i64>,
    seen: Vec<bool>,
}

impl ControllerRegistry {
    /// The total of each of the `fit` nodes, in their order.
    pub fn totals(
        &mut self,
        profile: &Profile,
        plan: &Plan,
        devices: Option<&Devices>,
        cluster: &Cluster,
        fit: &[NodeIx],
        scores: &[Scores],
    ) -> &[i64] {
        let weight = |plugin: Plugin| profile.weight(plugin);
        let most_taints = i64::from(scores.iter().map(|s| s.taints).max().unwrap_or(0).max(0));
        let most_affinity = i64::from(scores.iter().map(|s| s.affinity).max().unwrap_or(0).max(0));
        let [taints, affinity] = [Plugin::TaintToleration, Plugin::NodeAffinity].map(weight);
        self.totals.clear();
        self.totals.extend(scores.iter().map(|s| {
            // More intolerable taints are worse.
            let tolerated = match most_taints {
                0 => MAX_SCORE,
                most => MAX_SCORE - MAX_SCORE * i64::from(s.taints) / most,
            };
            let wanted = match most_affinity {
                0 => 0,
                most => MAX_SCORE * i64::from(s.affinity) / most,
            };
            s.resources + tolerated * taints + wanted * affinity
        }));
        if !plan.soft.is_empty() {
            self.spread(plan, cluster, fit, weight(Plugin::PodTopologySpread));
        }
        if !plan.wanted.is_empty() {
            self.inter_pod(plan, cluster, fit, weight(Plugin::InterPodAffinity));
        }
        if let Some(devices) = devices {
            self.devices(devices, fit, weight(Plugin::DynamicResources));
        }
        &self.totals
    }

    /// Nodes that have devices a pod names first are better.
    fn devices(&mut self, devices: &Devices, fit: &[NodeIx], weight: i64) {
        self.numbers.clear();
        self.numbers.extend(fit.iter().map(|ix| devices.score_of(*ix)));
        let most = self.numbers.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return;
        }
        for (total, score) in self.totals.iter_mut().zip(&self.numbers) {
            *total += MAX_SCORE * score / most * weight;
        }
    }

    /// Nodes in domains with fewer matching pods are better.
    fn spread(&mut self, plan: &Plan, cluster: &Cluster, fit: &[NodeIx], weight: i64) {
        let counters = cluster.counters();
        let ignored = |ix: NodeIx| {
            plan.require_all
                && plan.soft.iter().any(|s| counters.domain(s.at.topology)[ix as usize] == NOWHERE)
        };
        let counted = || fit.iter().copied().filter(|ix| !ignored(*ix));
        let parts: Vec<_> = plan
            .soft
            .iter()
            .map(|soft| {
                let domain = counters.domain(soft.at.topology);
                let size = if soft.hostname {
                    counted().count()
                } else {
                    // The nodes without the label are one domain more.
                    let last = counters.domains_of(soft.at.topology);
                    self.seen.clear();
                    self.seen.resize(last + 1, false);
                    counted().for_each(|ix| self.seen[(domain[ix as usize] as usize).min(last)] = true);
                    self.seen.iter().filter(|seen| **seen).count()
                };
                let counts = match soft.hostname {
                    true => counters.per_node(soft.at.counter),
                    false => counters.read(soft.at.counter).counts(),
                };
                // More domains make each pod more of a reason, or zones would weigh less than nodes.
                let each = ((size + 2) as f64).ln();
                (domain, counts, soft.hostname, each, (soft.max_skew - 1) as f64)
            })
            .collect();
        self.numbers.clear();
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for ix in fit {
            let mut sum = 0.0;
            for (domain, counts, hostname, each, always) in &parts {
                let here = domain[*ix as usize];
                if here != NOWHERE {
                    sum += counts.get(if *hostname { *ix } else { here }) as f64 * each + always;
                }
            }
            let score = rounded(sum);
            self.numbers.push(score);
            if !ignored(*ix) {
                (least, most) = (least.min(score), most.max(score));
            }
        }
        for ((total, score), ix) in self.totals.iter_mut().zip(&self.numbers).zip(fit) {
            if !ignored(*ix) {
                let normal = if most == 0 { MAX_SCORE } else { MAX_SCORE * (most + least - score) / most };
                *total += normal * weight;
            }
        }
    }

    /// Nodes near pods that are wanted, or that want this one, are better.
    fn inter_pod(&mut self, plan: &Plan, cluster: &Cluster, fit: &[NodeIx], weight: i64) {
        let counters = cluster.counters();
        self.numbers.clear();
        self.numbers.resize(fit.len(), 0);
        for (worth, at) in &plan.wanted {
            let (domain, domains) = (counters.domain(at.topology), counters.read(at.counter));
            // Most terms of pods that differ are about nobody yet.
            if domains.total == 0 {
                continue;
            }
            for (sum, ix) in self.numbers.iter_mut().zip(fit) {
                *sum += worth * domains.counts().get(domain[*ix as usize]);
            }
        }
        let least = self.numbers.iter().copied().min().unwrap_or(0);
        let span = self.numbers.iter().copied().max().unwrap_or(0) - least;
        if span == 0 {
            return;
        }
        for (total, sum) in self.totals.iter_mut().zip(&self.numbers) {
            let normal = MAX_SCORE as f64 * ((sum - least) as f64 / span as f64);
            *total += normal as i64 * weight;
        }
    }
}

/// As `f64::round` for all that come here: none is below zero, and none so close below a half that the sum is rounded.
#[inline]
fn rounded(number: f64) -> i64 {
    (number + 0.5) as i64
}
