//! How well nodes suit a pod, each by itself: one plugin after the other over all of them, so that what does not depend
//! on the node is looked up once.

use devices::NodeView;

use super::{Local, MAX_SCORE, Scored, Scores};
use crate::cluster::{Cluster, NodeIx};
use crate::config::{Profile, Strategy};
use crate::plugin::Plugin;
use crate::taint;

const MIB: i64 = 1 << 20;
const MIN_IMAGE_SUM: i64 = 23 * MIB;
const MAX_IMAGE_SUM: i64 = 1000 * MIB;
/// So many resources are balanced at most.
const MAX_BALANCED: usize = 8;

/// A resource's columns, and what the pod asks for.
struct Use<'a> {
    capacity: &'a [i64],
    requested: &'a [i64],
    request: i64,
    weight: i64,
}

impl Local {
    /// The scores of the nodes in their order, made anew.
    pub(super) fn find_scores(
        &self,
        cluster: &Cluster,
        profile: &Profile,
        nodes: &[NodeIx],
        scores: &mut Vec<Scores>,
    ) {
        scores.clear();
        scores.resize(nodes.len(), Scores::default());
        let weight = |plugin: Plugin| profile.weight(plugin);
        let on = |plugin: Plugin| weight(plugin) != 0;
        if on(Plugin::NodeResourcesFit) {
            let weight = weight(Plugin::NodeResourcesFit);
            self.fit_scores(cluster, &profile.fit.strategy, weight, nodes, scores);
        }
        if on(Plugin::NodeResourcesBalancedAllocation) && !self.balanced.is_empty() {
            self.balance_scores(cluster, weight(Plugin::NodeResourcesBalancedAllocation), nodes, scores);
        }
        if on(Plugin::ImageLocality) && !self.images.is_empty() {
            for (scores, ix) in scores.iter_mut().zip(nodes) {
                scores.resources += self.image_score(cluster, *ix) * weight(Plugin::ImageLocality);
            }
        }
        if on(Plugin::TaintToleration) && !self.tolerance.all_equal() {
            for (scores, ix) in scores.iter_mut().zip(nodes) {
                scores.taints = self.taint_score(cluster, *ix);
            }
        }
        if on(Plugin::NodeAffinity) && !(self.preferred.is_empty() && self.added_preferred.is_empty()) {
            for (scores, ix) in scores.iter_mut().zip(nodes) {
                let wanted = self.preferred.score(*ix) + self.added_preferred.score(*ix);
                scores.affinity = wanted.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
            }
        }
    }

    fn fit_scores(
        &self,
        cluster: &Cluster,
        strategy: &Strategy,
        weight: i64,
        nodes: &[NodeIx],
        scores: &mut [Scores],
    ) {
        let columns = cluster.columns();
        let requested = |column| columns.all_at_least(column);
        let backed = backed(cluster, &self.fit, nodes, requested);
        let uses = uses(cluster, &self.fit, &backed, requested);
        match strategy {
            Strategy::LeastAllocated => mean(&uses, weight, nodes, scores, |requested, capacity| {
                if requested > capacity { 0 } else { share(capacity - requested, capacity) }
            }),
            Strategy::MostAllocated => mean(&uses, weight, nodes, scores, |requested, capacity| {
                share(requested.min(capacity), capacity)
            }),
            Strategy::RequestedToCapacityRatio(shape) => {
                for (scores, ix) in scores.iter_mut().zip(nodes) {
                    scores.resources += mean_on_shape(&uses, shape, *ix) * weight;
                }
            }
        }
    }

    /// How much evener the node's resources are used with the pod than without it.
    fn balance_scores(&self, cluster: &Cluster, weight: i64, nodes: &[NodeIx], scores: &mut [Scores]) {
        let columns = cluster.columns();
        let requested = |column| columns.all_requested(column);
        let backed = backed(cluster, &self.balanced, nodes, requested);
        let mut uses = uses(cluster, &self.balanced, &backed, requested);
        uses.truncate(MAX_BALANCED);
        let (mut without, mut with) = ([0f64; MAX_BALANCED], [0f64; MAX_BALANCED]);
        for (scores, ix) in scores.iter_mut().zip(nodes) {
            let mut n = 0;
            for resource in &uses {
                let capacity = resource.capacity[*ix as usize];
                if capacity == 0 {
                    continue;
                }
                let requested = resource.requested[*ix as usize];
                without[n] = (requested as f64 / capacity as f64).min(1.0);
                with[n] = ((requested + resource.request) as f64 / capacity as f64).min(1.0);
                n += 1;
            }
            let evener = balance(&with[..n]) - balance(&without[..n]);
            scores.resources += (MAX_SCORE / 2 + (MAX_SCORE / 2 + evener) / 2) * weight;
        }
    }

    fn image_score(&self, cluster: &Cluster, ix: NodeIx) -> i64 {
        if self.spec.containers == 0 {
            return 0;
        }
        let all = cluster.order().len().max(1) as f64;
        let mut sum = 0;
        for image in &self.images {
            let Some(size) = cluster.images().size(*image, ix) else { continue };
            let spread = cluster.images().spread(*image) as f64 / all;
            sum += (size as f64 * spread) as i64;
        }
        let most = MAX_IMAGE_SUM * self.spec.containers as i64;
        MAX_SCORE * (sum.clamp(MIN_IMAGE_SUM, most) - MIN_IMAGE_SUM) / (most - MIN_IMAGE_SUM)
    }

    #[inline]
    fn taint_score(&self, cluster: &Cluster, ix: NodeIx) -> i32 {
        let words = cluster.words();
        let tolerations = &self.spec.tolerations;
        self.tolerance.of(words, ix).unwrap_or_else(|| {
            // Without the filter a node with a taint that forbids may be here.
            let taints =
                words.taint_set(ix).map_or(0, |set| taint::intolerable(words.taints(set), tolerations));
            taints.min(i64::from(i16::MAX)) as i32
        })
    }
}

/// The columns of a resource, with devices where they stand for it.
struct Backed {
    capacity: Vec<i64>,
    requested: Vec<i64>,
}

/// For each resource that devices stand for; nothing at all if there is none.
fn backed<'a>(
    cluster: &'a Cluster,
    scored: &[Scored],
    nodes: &[NodeIx],
    requested: impl Fn(usize) -> &'a [i64],
) -> Vec<Option<Backed>> {
    if scored.iter().all(|s| !s.delegated) {
        return Vec::new();
    }
    let known = cluster.devices();
    let one = |s: &Scored| {
        let class = known.classes.for_extended_resource(&s.name).filter(|_| s.delegated)?;
        let mut backed = Backed {
            capacity: cluster.columns().all_allocatable(s.column).to_vec(),
            requested: requested(s.column).to_vec(),
        };
        for ix in nodes.iter().filter(|ix| cluster.columns().all_allocatable(s.column)[**ix as usize] == 0) {
            let node = cluster.node(*ix);
            let view = NodeView { name: &node.name, labels: &node.labels };
            let totals = known.slices.totals(&view, class, &known.allocated, &known.selectors);
            // Where they cannot be counted there are none.
            let (all, in_use) = totals.unwrap_or_default();
            (backed.capacity[*ix as usize], backed.requested[*ix as usize]) = (all, in_use);
        }
        Some(backed)
    };
    scored.iter().map(one).collect()
}

fn uses<'a>(
    cluster: &'a Cluster,
    scored: &[Scored],
    backed: &'a [Option<Backed>],
    requested: impl Fn(usize) -> &'a [i64],
) -> Vec<Use<'a>> {
    let one = |(at, s): (usize, &Scored)| {
        let (capacity, requested) = match backed.get(at) {
            Some(Some(backed)) => (&*backed.capacity, &*backed.requested),
            _ => (cluster.columns().all_allocatable(s.column), requested(s.column)),
        };
        Use { capacity, requested, request: s.request, weight: s.weight }
    };
    scored.iter().enumerate().map(one).collect()
}

/// Adds what the resources a node has are worth, from what would be requested and the capacity.
#[inline(always)]
fn mean(uses: &[Use], weight: i64, nodes: &[NodeIx], scores: &mut [Scores], worth: impl Fn(i64, i64) -> i64) {
    for (scores, ix) in scores.iter_mut().zip(nodes) {
        let (mut sum, mut weights) = (0, 0);
        for resource in uses {
            let capacity = resource.capacity[*ix as usize];
            if capacity != 0 {
                let requested = resource.requested[*ix as usize] + resource.request;
                sum += worth(requested, capacity) * resource.weight;
                weights += resource.weight;
            }
        }
        if weights != 0 {
            scores.resources += sum / weights * weight;
        }
    }
}

/// The same where resources that are worth nothing do not count.
fn mean_on_shape(uses: &[Use], shape: &[(i64, i64)], ix: NodeIx) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for resource in uses.iter().filter(|resource| resource.capacity[ix as usize] != 0) {
        let capacity = resource.capacity[ix as usize];
        let requested = resource.requested[ix as usize] + resource.request;
        let used = if requested > capacity { MAX_SCORE } else { share(requested, capacity) };
        let score = on_shape(shape, used);
        if score > 0 {
            sum += score * resource.weight;
            weights += resource.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

/// From the fractions of a node's resources that are used.
#[inline]
fn balance(used: &[f64]) -> i64 {
    let deviation = match used {
        [a, b] => ((a - b) / 2.0).abs(),
        [] | [_] => 0.0,
        _ => {
            let n = used.len() as f64;
            let mean = used.iter().sum::<f64>() / n;
            (used.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>() / n).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[inline]
fn share(part: i64, whole: i64) -> i64 {
    // Bytes of memory times a hundred fit; only absurd amounts need the wider type.
    match part.checked_mul(MAX_SCORE) {
        Some(product) => product / whole,
        None => (i128::from(part) * i128::from(MAX_SCORE) / i128::from(whole)) as i64,
    }
}

fn on_shape(shape: &[(i64, i64)], used: i64) -> i64 {
    for (i, (at, score)) in shape.iter().enumerate() {
        if used <= *at {
            let Some((last_at, last)) = i.checked_sub(1).map(|i| shape[i]) else { return *score };
            return last + (score - last) * (used - last_at) / (at - last_at);
        }
    }
    shape.last().map_or(0, |(_, score)| *score)
}
