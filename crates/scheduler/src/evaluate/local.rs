//! What one node alone decides about a pod: filters and scores that look at nothing but that node.
//!
//! Found out once for each spec and node, and again only after the node has changed.

use std::sync::Arc;

use crate::cluster::{Cluster, ImageIx, NodeIx};
use crate::config::{Profile, Strategy};
use crate::node_selector::{Chosen, Weighed};
use crate::plugin::Plugin;
use crate::pod::{Spec, conflict};
use crate::taint::{self, Tolerance};
use crate::verdict::Verdict;

pub const MAX_SCORE: i64 = 100;
const MIB: i64 = 1 << 20;
const MIN_IMAGE_SUM: i64 = 23 * MIB;
const MAX_IMAGE_SUM: i64 = 1000 * MIB;

/// All that is known about one spec, node by node.
pub struct Local {
    spec: Arc<Spec>,
    /// Columns of what is asked for.
    requests: Vec<Request>,
    fit: Vec<Scored>,
    balanced: Vec<Scored>,
    unschedulable_ok: bool,
    /// What is asked of a node's labels and taints, for the nodes of this epoch.
    words_epoch: Option<u64>,
    chosen: Chosen,
    tolerance: Tolerance,
    preferred: Weighed,
    added: Chosen,
    added_preferred: Weighed,
    /// Those of its images that some node has.
    images: Vec<ImageIx>,
    images_epoch: Option<u64>,
    /// The numbers of columns above are of this epoch.
    pub columns_epoch: u64,
    /// For each node twice the generation it was looked at in, and one more if it fit then. Both columns are empty until
    /// the spec is asked about for the second time: most of those that differ never are.
    known: Vec<u64>,
    scored: Vec<(u64, Scores)>,
    begun: bool,
    pub used: u64,
    /// How often a node was looked at because nothing was known of it as it is.
    #[cfg(test)]
    pub evaluated: usize,
}

struct Request {
    column: usize,
    amount: i64,
    ignored: bool,
}

/// A resource whose use is scored.
struct Scored {
    column: usize,
    weight: i64,
    request: i64,
}

/// Taints and affinity are not yet normalised over the nodes that fit.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Scores {
    /// Those that look at resources and images, each times its weight.
    pub resources: i64,
    pub taints: i32,
    pub affinity: i32,
}

impl Local {
    pub fn new(spec: Arc<Spec>, profile: &Profile, cluster: &mut Cluster) -> Local {
        let columns = cluster.columns_mut();
        let mut request = |(name, amount): &(Arc<str>, i64)| Request {
            column: columns.resource(name),
            amount: *amount,
            ignored: profile.fit.ignores(name),
        };
        let requests = spec.requests.iter().map(&mut request).collect();
        let mut scored = |resources: &[(String, i64)], at_least: bool| -> Vec<Scored> {
            let mut out = Vec::new();
            for (name, weight) in resources {
                let request = match (name.as_str(), at_least) {
                    ("cpu", true) => spec.at_least[0],
                    ("memory", true) => spec.at_least[1],
                    _ => spec.request(name),
                };
                // A resource few nodes have matters only to pods that ask for it.
                if request != 0 || matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                    out.push(Scored { column: columns.resource(name), weight: *weight, request });
                }
            }
            out
        };
        let fit = scored(&profile.fit.resources, true);
        let mut balanced = scored(&profile.balanced, false);
        // Pods that ask for nothing would all go to the node that is balanced best.
        if balanced.iter().all(|s| s.request == 0) {
            balanced.clear();
        }
        Local {
            requests,
            fit,
            balanced,
            unschedulable_ok: taint::tolerates_unschedulable(&spec.tolerations),
            words_epoch: None,
            chosen: Chosen::default(),
            tolerance: Tolerance::default(),
            preferred: Weighed::default(),
            added: Chosen::default(),
            added_preferred: Weighed::default(),
            images: Vec::new(),
            images_epoch: None,
            columns_epoch: cluster.columns().epoch(),
            known: Vec::new(),
            scored: Vec::new(),
            begun: false,
            used: 0,
            #[cfg(test)]
            evaluated: 0,
            spec,
        }
    }

    /// Fits the cache to the cluster before nodes are looked at.
    pub fn begin(&mut self, cluster: &Cluster, profile: &Profile) {
        let words = cluster.words();
        if self.words_epoch != Some(words.epoch()) {
            self.words_epoch = Some(words.epoch());
            self.chosen = self.spec.required.choose(words);
            self.tolerance = Tolerance::new(words);
            self.preferred = self.spec.preferred.choose(words);
            let added = &profile.added_affinity;
            self.added = added.required.as_ref().map(|terms| terms.choose(words)).unwrap_or_default();
            self.added_preferred = added.preferred.choose(words);
        }
        // How far an image has spread is known to all nodes: one that gets it changes the score of the others.
        if self.images_epoch != Some(cluster.images_epoch()) {
            self.images_epoch = Some(cluster.images_epoch());
            self.images = self.spec.images.iter().filter_map(|name| cluster.images().number(name)).collect();
            self.scored.clear();
        }
        if self.begun {
            self.known.resize(cluster.width(), 0);
            self.scored.resize(cluster.width(), (0, Scores::default()));
        }
        self.begun = true;
    }

    /// `false`: one look at a bit says that the node is not one the pod asks for. Another filter may have more to say.
    #[inline]
    pub fn asks_for(&self, profile: &Profile, ix: NodeIx) -> bool {
        self.chosen.has(ix) || !profile.filter.has(Plugin::NodeAffinity)
    }

    /// Whether a node fits, as it is.
    #[inline]
    pub fn fits(&mut self, cluster: &Cluster, profile: &Profile, ix: NodeIx) -> bool {
        let unfit = cluster.generation(ix) << 1;
        if let Some(known) = self.known.get(ix as usize).filter(|known| **known | 1 == unfit | 1) {
            return *known != unfit;
        }
        #[cfg(test)]
        {
            self.evaluated += 1;
        }
        let fits = self.verdict(cluster, profile, ix, None) == Verdict::Fits;
        if let Some(known) = self.known.get_mut(ix as usize) {
            *known = unfit | u64::from(fits);
        }
        fits
    }

    /// The scores of these nodes, which fit.
    pub fn score(
        &mut self,
        cluster: &Cluster,
        profile: &Profile,
        nodes: &[NodeIx],
        scores: &mut Vec<Scores>,
    ) {
        scores.clear();
        if self.scored.is_empty() {
            scores.extend(nodes.iter().map(|ix| self.scores(cluster, profile, *ix)));
            return;
        }
        for ix in nodes {
            let generation = cluster.generation(*ix);
            if self.scored[*ix as usize].0 != generation {
                self.scored[*ix as usize] = (generation, self.scores(cluster, profile, *ix));
            }
            scores.push(self.scored[*ix as usize].1);
        }
    }

    /// What is found about a node, as it is or after the change.
    #[inline]
    pub fn verdict(
        &self,
        cluster: &Cluster,
        profile: &Profile,
        ix: NodeIx,
        change: Option<&Change>,
    ) -> Verdict {
        let words = cluster.words();
        let on = |plugin: Plugin| profile.filter.has(plugin);
        if on(Plugin::NodeUnschedulable) && !self.unschedulable_ok && words.unschedulable(ix) {
            return Verdict::Cordoned;
        }
        if on(Plugin::TaintToleration) && self.tolerance.of(&self.spec.tolerations, words, ix).is_none() {
            return Verdict::Tainted;
        }
        if on(Plugin::NodeAffinity) {
            if !self.added.has(ix) {
                return Verdict::NotEnforced;
            }
            if !self.chosen.has(ix) {
                return Verdict::NotSelected;
            }
        }
        if on(Plugin::NodePorts) && !self.spec.ports.is_empty() {
            let ports = &self.spec.ports;
            let taken = match change {
                None => conflict(ports, cluster.ports_on(ix)),
                Some(change) => conflict(ports, change.specs(cluster, ix).flat_map(|spec| &spec.ports)),
            };
            if taken {
                return Verdict::PortTaken;
            }
        }
        if on(Plugin::NodeResourcesFit) { self.room(cluster, ix, change) } else { Verdict::Fits }
    }

    #[inline]
    fn room(&self, cluster: &Cluster, ix: NodeIx, change: Option<&Change>) -> Verdict {
        let columns = cluster.columns();
        let (mut bits, mut unresolvable) = (0u64, false);
        let more = change.map_or(0, |change| change.added.len() as i64 - change.removed.len() as i64);
        let pods = columns.pods(ix) + more;
        if pods + 1 > columns.pods_allowed(ix) {
            bits |= 1;
        }
        for (i, request) in self.requests.iter().enumerate() {
            let allocatable = columns.allocatable(request.column, ix);
            let mut requested = columns.requested(request.column, ix);
            if let Some(change) = change {
                requested += change.requested(cluster, &self.spec.requests[i].0);
            }
            if request.amount > allocatable - requested && !request.ignored {
                bits |= Verdict::short_of(i);
                unresolvable |= request.amount > allocatable;
            }
        }
        if bits == 0 { Verdict::Fits } else { Verdict::Short { bits, unresolvable } }
    }

    #[inline]
    fn scores(&self, cluster: &Cluster, profile: &Profile, ix: NodeIx) -> Scores {
        let weight = |plugin: Plugin| profile.weight(plugin);
        let on = |plugin: Plugin| weight(plugin) != 0;
        let mut scores = Scores::default();
        if on(Plugin::NodeResourcesFit) {
            let score = self.fit_score(cluster, &profile.fit.strategy, ix);
            scores.resources += score * weight(Plugin::NodeResourcesFit);
        }
        if on(Plugin::NodeResourcesBalancedAllocation) && !self.balanced.is_empty() {
            let score = self.balance_score(cluster, ix);
            scores.resources += score * weight(Plugin::NodeResourcesBalancedAllocation);
        }
        if on(Plugin::ImageLocality) && !self.images.is_empty() {
            scores.resources += self.image_score(cluster, ix) * weight(Plugin::ImageLocality);
        }
        if on(Plugin::TaintToleration) {
            let words = cluster.words();
            // Without the filter a node with a taint that forbids may be here.
            let known = self.tolerance.of(&self.spec.tolerations, words, ix);
            let taints = known.map(i64::from).unwrap_or_else(|| {
                words
                    .taint_set(ix)
                    .map_or(0, |set| taint::intolerable(words.taints(set), &self.spec.tolerations))
            });
            scores.taints = taints.min(i64::from(i16::MAX)) as i32;
        }
        if on(Plugin::NodeAffinity) {
            let wanted = self.preferred.score(ix) + self.added_preferred.score(ix);
            scores.affinity = wanted.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        }
        scores
    }

    fn fit_score(&self, cluster: &Cluster, strategy: &Strategy, ix: NodeIx) -> i64 {
        let columns = cluster.columns();
        let (mut sum, mut weights) = (0, 0);
        for scored in &self.fit {
            let capacity = columns.allocatable(scored.column, ix);
            if capacity == 0 {
                continue;
            }
            let requested = columns.at_least(scored.column, ix) + scored.request;
            let score = match strategy {
                Strategy::LeastAllocated if requested > capacity => 0,
                Strategy::LeastAllocated => share(capacity - requested, capacity),
                Strategy::MostAllocated => share(requested.min(capacity), capacity),
                Strategy::RequestedToCapacityRatio(shape) => {
                    let used = if requested > capacity { 100 } else { share(requested, capacity) };
                    let score = on_shape(shape, used);
                    if score <= 0 {
                        continue;
                    }
                    score
                }
            };
            sum += score * scored.weight;
            weights += scored.weight;
        }
        match strategy {
            _ if weights == 0 => 0,
            Strategy::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
            _ => quotient(sum, weights),
        }
    }

    /// How much evener the node's resources are used with the pod than without it.
    fn balance_score(&self, cluster: &Cluster, ix: NodeIx) -> i64 {
        let columns = cluster.columns();
        // Without the pod, and with it.
        let mut used = [[0f64; 8]; 2];
        let mut n = 0;
        for scored in self.balanced.iter().take(used[0].len()) {
            let capacity = columns.allocatable(scored.column, ix);
            if capacity == 0 {
                continue;
            }
            let requested = columns.requested(scored.column, ix);
            used[0][n] = (requested as f64 / capacity as f64).min(1.0);
            used[1][n] = ((requested + scored.request) as f64 / capacity as f64).min(1.0);
            n += 1;
        }
        MAX_SCORE / 2 + (MAX_SCORE / 2 + balance(&used[1][..n]) - balance(&used[0][..n])) / 2
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
}

/// Pods taken off a node or put on it, in thought.
#[derive(Default, Clone)]
pub struct Change {
    pub removed: Vec<u32>,
    pub added: Vec<Arc<crate::pod::Pod>>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// The specs of the pods that would be there.
    fn specs<'a>(&'a self, cluster: &'a Cluster, ix: NodeIx) -> impl Iterator<Item = &'a Arc<Spec>> + Clone {
        let stay = cluster.pods_on(ix).iter().filter(|pod| !self.removed.contains(pod));
        stay.map(|pod| &cluster.placed(*pod).class.spec).chain(self.added.iter().map(|pod| &pod.class.spec))
    }

    fn requested(&self, cluster: &Cluster, resource: &str) -> i64 {
        let added: i64 = self.added.iter().map(|pod| pod.class.spec.request(resource)).sum();
        let of = |ix: &u32| cluster.placed(*ix).class.spec.request(resource);
        added - self.removed.iter().map(of).sum::<i64>()
    }
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
        Some(product) => quotient(product, whole),
        None => (i128::from(part) * i128::from(MAX_SCORE) / i128::from(whole)) as i64,
    }
}

/// As `a / b`. Where both are exact as floats and so is their sum, the float quotient is never rounded up to a whole
/// number it is below, and dividing floats takes a fraction of the time.
#[inline]
pub fn quotient(a: i64, b: i64) -> i64 {
    const EXACT: u64 = 1 << 52;
    if (a as u64) < EXACT && (b as u64) < EXACT && b != 0 { (a as f64 / b as f64) as i64 } else { a / b }
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
