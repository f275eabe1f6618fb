//! Where a pod should go: filter the nodes, score those that fit, take one of the best.
//!
//! ```text
//! pod ──> Local (one node alone, kept while the node stays as it is) ──┐
//!     ──> Plan (counters for spread and pod affinity, kept up to date) ┴─> nodes that fit ──> totals ──> one of the best
//! ```
//! The search starts where the last one ended and ends when enough nodes fit, so that a large cluster is used evenly
//! and no decision looks at all of it.

pub(crate) mod devices;
mod filter;
pub(crate) mod local;
mod plan;
pub mod preempt;
mod score;
pub(crate) mod volumes;

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::bits::Bits;
use crate::cluster::{Cluster, NodeIx};
use crate::config::{Config, Profile};
use crate::nominated::Nominated;
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::selectors::Selectors;
use crate::verdict::{Diagnosis, Verdict};
use ::devices::Allocator;
use devices::{Devices, Objection};
use filter::Ready;
use local::{Change, Local, Scores, Sight};
use plan::Plan;
use score::ControllerRegistry;
use volumes::{Rejection, Volumes};

/// Below this many nodes all are looked at, and at least so many are found.
const MIN_FEASIBLE: i64 = 100;
const MIN_PERCENTAGE: i64 = 5;
/// Specs remembered node by node, 40 bytes a node; the least recently used go.
const MAX_LOCALS: usize = 64;
const MAX_PLANS: usize = 4096;

pub struct Evaluator {
    config: Arc<Config>,
    locals: HashMap<(usize, u64), Box<Local>>,
    plans: HashMap<(usize, u64), Box<Plan>>,
    /// Room for what is found of the nodes, kept from decision to decision.
    fit: Vec<NodeIx>,
    scores: Vec<Scores>,
    verdicts: Vec<(NodeIx, Verdict)>,
    controllers: ControllerRegistry,
    /// Where in the order of nodes the next search starts.
    start: usize,
    tick: u64,
    /// What the last decision found of devices, if the pod asks for some.
    devices: Option<Devices>,
}

#[derive(Debug)]
pub enum Outcome {
    Place(NodeIx),
    /// There is no node at all.
    NoNodes,
    Unfit(Diagnosis),
    /// The attempt failed, which says nothing about nodes.
    Failed(String),
}

/// A random number below the given one.
pub type Rng<'a> = &'a mut dyn FnMut(u64) -> u64;

/// What one decision works on.
struct Work {
    key: (usize, u64, u64),
    local: Box<Local>,
    plan: Box<Plan>,
    ready: Ready,
    /// The nodes that may fit, as far as a bit says.
    open: Bits,
    /// The pod names the nodes it may go to.
    named: bool,
    /// `None` for a pod whose volumes can be anywhere, as most have.
    volumes: Option<Volumes>,
    /// `None` for a pod that asks for no devices, as most do.
    devices: Option<Devices>,
    rejection: Option<Rejection>,
    error: Option<String>,
    /// It needs features that not every node has.
    needs_features: bool,
    /// None of these: nodes are not asked about them.
    ordinary: bool,
}

impl Evaluator {
    pub fn new(config: Arc<Config>) -> Evaluator {
        Evaluator {
            config,
            locals: HashMap::new(),
            plans: HashMap::new(),
            fit: Vec::new(),
            scores: Vec::new(),
            verdicts: Vec::new(),
            controllers: ControllerRegistry::default(),
            start: 0,
            tick: 0,
            devices: None,
        }
    }

    /// The node for a pod, or why there is none.
    pub fn decide(
        &mut self,
        cluster: &mut Cluster,
        selectors: &Selectors,
        nominated: &Nominated,
        profile: usize,
        pod: &Pod,
        rng: Rng,
    ) -> Outcome {
        cluster.refresh_order();
        if cluster.order().is_empty() {
            return Outcome::NoNodes;
        }
        cluster.compact();
        let mut work = self.begin(cluster, selectors, profile, pod);
        let config = self.config.clone();
        let outcome = self.search(cluster, nominated, &config.profiles[profile], pod, &mut work, rng);
        self.devices = work.devices.take();
        self.end(work);
        outcome
    }

    /// What the last decision found of devices.
    pub fn take_devices(&mut self) -> Option<Devices> {
        self.devices.take()
    }

    fn search(
        &mut self,
        cluster: &Cluster,
        nominated: &Nominated,
        profile: &Profile,
        pod: &Pod,
        work: &mut Work,
        rng: Rng,
    ) -> Outcome {
        let mut diagnosis = Diagnosis { nodes: cluster.order().len(), ..Diagnosis::default() };
        let named = work.named && profile.filter.has(Plugin::NodeAffinity);
        let named = named.then(|| pod.class.spec.required.named_nodes()).flatten();
        if let Some(named) = &named {
            diagnosis.plugins.insert(Plugin::NodeAffinity);
            if named.is_empty() {
                diagnosis.pre_filter = Some("pod affinity terms conflict".to_owned());
                return Outcome::Unfit(diagnosis);
            }
            let words = format!("node(s) didn't satisfy plugin(s) [{}]", Plugin::NodeAffinity.name());
            diagnosis.others = Some(words);
        }
        if let Some(error) = work.error.take() {
            return Outcome::Failed(error);
        }
        if let Some(Rejection { plugin, message }) = work.rejection.take() {
            diagnosis.plugins = [plugin].into_iter().collect();
            diagnosis.pre_filter = Some(message);
            return Outcome::Unfit(diagnosis);
        }
        let mut sight = work.local.sight(cluster, profile);
        sight.allocator = work.devices.as_ref().map(|devices| devices.allocator(cluster));
        if let Some(ix) = cluster.node_ix(&pod.nominated_node)
            && work.fits(&sight, nominated, profile, pod, ix)
        {
            return Outcome::Place(ix);
        }
        let named: Option<Vec<NodeIx>> =
            named.map(|names| names.into_iter().filter_map(|name| cluster.node_ix(name)).collect());
        let nodes = named.as_deref().unwrap_or(cluster.order());
        let wanted = self.feasible_wanted(profile, nodes.len());
        let start = if nodes.is_empty() { 0 } else { self.start % nodes.len() };
        let in_turn = || nodes[start..].iter().chain(&nodes[..start]);
        let Evaluator { fit, scores, .. } = self;
        fit.clear();
        let mut looked_at = 0;
        for ix in in_turn() {
            looked_at += 1;
            if work.fits(&sight, nominated, profile, pod, *ix) {
                fit.push(*ix);
                if fit.len() >= wanted {
                    break;
                }
            }
        }
        self.start = (self.start + looked_at) % cluster.order().len();
        if let Some(error) = work.devices.as_ref().and_then(Devices::take_error) {
            return Outcome::Failed(format!("running \"DynamicResources\" filter plugin: {error}"));
        }
        match fit.as_slice() {
            [] => {}
            [only] => return Outcome::Place(*only),
            _ => {
                let devices = work.devices.as_ref();
                work.local.score(cluster, profile, fit, scores);
                let totals = self.controllers.totals(profile, &work.plan, devices, cluster, fit, scores);
                return Outcome::Place(fit[one_of_the_best(totals, rng)]);
            }
        }
        // Why not must be told of every node, in the words of the first filter that objects.
        diagnosis.verdicts = std::mem::take(&mut self.verdicts);
        for ix in in_turn() {
            let verdict = work.verdict(&sight, nominated, profile, pod, *ix);
            diagnosis.counts.add(verdict);
            diagnosis.verdicts.push((*ix, verdict));
        }
        diagnosis.counts.plugins().for_each(|plugin| diagnosis.plugins.insert(plugin));
        diagnosis.devices = work.devices.as_ref().map(Devices::said).unwrap_or_default();
        Outcome::Unfit(diagnosis)
    }

    /// A diagnosis that nobody needs any more: the next is made in its room.
    pub fn take_back(&mut self, diagnosis: Diagnosis) {
        self.verdicts = diagnosis.verdicts;
        self.verdicts.clear();
    }

    /// How many nodes must fit before the search ends: fewer, in proportion, of more.
    fn feasible_wanted(&self, profile: &Profile, nodes: usize) -> usize {
        // When nothing is scored the first is as good as any.
        if profile.weights.iter().all(|weight| *weight == 0) {
            return 1;
        }
        let all = nodes as i64;
        if all < MIN_FEASIBLE {
            return nodes;
        }
        let of_all = self.config.percentage_of_nodes_to_score;
        let percentage = match profile.percentage_of_nodes_to_score.unwrap_or(of_all) {
            0 => (50 - all / 125).max(MIN_PERCENTAGE),
            percentage => percentage,
        };
        (all * percentage / 100).max(MIN_FEASIBLE) as usize
    }

    fn begin(&mut self, cluster: &mut Cluster, selectors: &Selectors, profile: usize, pod: &Pod) -> Work {
        self.tick += 1;
        cluster.counters_mut().begin();
        let class = &pod.class;
        let settings = &self.config.profiles[profile];
        let mut local = self
            .locals
            .remove(&(profile, class.spec.id))
            .filter(|local| local.columns_epoch == cluster.columns().epoch())
            .unwrap_or_else(|| Box::new(Local::new(class.spec.clone(), settings, cluster)));
        local.begin(cluster, settings);
        local.used = self.tick;
        let kept = self.plans.remove(&(profile, class.id));
        let kept = kept.filter(|plan| plan.renew(cluster.counters_mut(), selectors));
        let mut plan = kept.unwrap_or_else(|| Box::new(Plan::new(class, settings, cluster, selectors)));
        plan.used = self.tick;
        let ready = Ready::new(&plan, cluster);
        let named = class.spec.required.named_nodes().is_some();
        let mut open = local.open().clone();
        open.subtract(&ready.anti);
        open.subtract(&ready.existing_anti);
        let (volumes, rejection) = match Volumes::new(cluster, settings, pod) {
            Ok(volumes) => (volumes, None),
            Err(rejection) => (None, Some(rejection)),
        };
        let (mut devices, mut rejection, mut error) = (None, rejection, None);
        if rejection.is_none() && pod.asks_for_devices() {
            match Devices::new(cluster, settings, pod) {
                Ok(found) => devices = found,
                Err(Objection::Rejected(why)) => rejection = Some(why),
                Err(Objection::Failed(why)) => error = Some(why),
            }
        }
        let declared = settings.filter.has(Plugin::NodeDeclaredFeatures);
        let needs_features = declared && !class.spec.features.is_empty();
        let ordinary = volumes.is_none() && !needs_features && devices.is_none();
        let key = (profile, class.spec.id, class.id);
        Work {
            key,
            local,
            plan,
            ready,
            open,
            named,
            volumes,
            devices,
            rejection,
            error,
            needs_features,
            ordinary,
        }
    }

    fn end(&mut self, work: Work) {
        let (profile, spec, class) = work.key;
        // Pods for one named node, as those of a DaemonSet, have a spec of their own each: nobody asks again.
        if !work.named {
            self.locals.insert((profile, spec), work.local);
        }
        self.plans.insert((profile, class), work.plan);
        // Half at once, so that looking through them all is paid for by many.
        if self.locals.len() > MAX_LOCALS {
            let mut used: Vec<u64> = self.locals.values().map(|local| local.used).collect();
            let (_, limit, _) = used.select_nth_unstable(MAX_LOCALS / 2);
            self.locals.retain(|_, local| local.used >= *limit);
        }
        if self.plans.len() > MAX_PLANS {
            let limit = self.tick.saturating_sub(MAX_PLANS as u64 / 2);
            self.plans.retain(|_, plan| plan.used >= limit);
        }
    }
}

#[cfg(test)]
impl Evaluator {
    /// What would be found about a node after pods were moved, in thought.
    pub fn inspect_after(
        &mut self,
        cluster: &mut Cluster,
        selectors: &Selectors,
        pod: &Pod,
        ix: NodeIx,
        change: &Change,
    ) -> Verdict {
        let work = self.begin(cluster, selectors, 0, pod);
        let verdict = work.after(cluster, &self.config.profiles[0], pod, ix, change);
        self.end(work);
        verdict
    }

    /// What is found about every node, and its total where it fits: for comparing with a naive evaluator. Nothing of
    /// any for a pod that is turned away before.
    pub fn inspect(
        &mut self,
        cluster: &mut Cluster,
        selectors: &Selectors,
        pod: &Pod,
    ) -> Vec<(Arc<str>, Verdict, Option<i64>)> {
        cluster.refresh_order();
        let mut work = self.begin(cluster, selectors, 0, pod);
        if work.rejection.is_some() {
            self.end(work);
            return Vec::new();
        }
        let (config, nominated) = (self.config.clone(), Nominated::default());
        let profile = &config.profiles[0];
        let nodes = cluster.order().to_vec();
        let sight = work.local.sight(cluster, profile);
        let checked: Vec<(NodeIx, Verdict)> =
            nodes.iter().map(|ix| (*ix, work.verdict(&sight, &nominated, profile, pod, *ix))).collect();
        let fit: Vec<NodeIx> =
            nodes.into_iter().filter(|ix| work.fits(&sight, &nominated, profile, pod, *ix)).collect();
        assert!(
            checked.iter().filter(|(_, v)| *v == Verdict::Fits).map(|(ix, _)| *ix).eq(fit.iter().copied())
        );
        let mut scores = Vec::new();
        work.local.score(cluster, profile, &fit, &mut scores);
        let devices = work.devices.as_ref();
        let totals = self.controllers.totals(profile, &work.plan, devices, cluster, &fit, &scores).to_vec();
        self.end(work);
        let total = |ix: NodeIx| fit.iter().position(|other| *other == ix).map(|at| totals[at]);
        checked.into_iter().map(|(ix, v)| (cluster.node_name(ix).clone(), v, total(ix))).collect()
    }
}

impl Work {
    /// Whether all filters let the pod on a node, as it will be when the pods nominated for it have come, and as it is.
    #[inline]
    fn fits(
        &mut self,
        sight: &Sight,
        nominated: &Nominated,
        profile: &Profile,
        pod: &Pod,
        ix: NodeIx,
    ) -> bool {
        self.open.has(ix)
            && self.local.fits(sight, ix)
            && filter::fits(&self.plan, &self.ready, sight.cluster, ix)
            && (self.ordinary
                || self.volumes_verdict(sight.cluster, pod, ix, None) == Verdict::Fits
                    && self.features_verdict(sight.cluster, pod, ix) == Verdict::Fits
                    && self.devices_verdict(sight.cluster, pod, ix, sight.allocator.as_ref())
                        == Verdict::Fits)
            && (nominated.is_empty()
                || self.verdict_when_they_came(sight.cluster, nominated, profile, pod, ix) == Verdict::Fits)
    }

    /// The same in the words of the first filter that objects.
    fn verdict(
        &mut self,
        sight: &Sight,
        nominated: &Nominated,
        profile: &Profile,
        pod: &Pod,
        ix: NodeIx,
    ) -> Verdict {
        let cluster = sight.cluster;
        let verdict = self.verdict_when_they_came(cluster, nominated, profile, pod, ix);
        if verdict != Verdict::Fits {
            return verdict;
        }
        if !(self.local.open().has(ix) && self.local.fits(sight, ix)) {
            return self.local.verdict(cluster, profile, ix, None);
        }
        self.volumes_verdict(cluster, pod, ix, None)
            .and_then(|| filter::verdict(&self.plan, &self.ready, cluster, ix))
            .and_then(|| self.devices_verdict(cluster, pod, ix, sight.allocator.as_ref()))
            .and_then(|| self.features_verdict(cluster, pod, ix))
    }

    #[inline]
    fn volumes_verdict(&self, cluster: &Cluster, pod: &Pod, ix: NodeIx, change: Option<&Change>) -> Verdict {
        let volumes = self.volumes.as_ref();
        volumes.map_or(Verdict::Fits, |volumes| volumes.verdict(cluster, pod, ix, change))
    }

    #[inline]
    fn devices_verdict(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        ix: NodeIx,
        allocator: Option<&Allocator>,
    ) -> Verdict {
        let devices = self.devices.as_ref();
        devices.map_or(Verdict::Fits, |devices| devices.verdict(cluster, ix, pod, allocator))
    }

    #[inline]
    fn features_verdict(&self, cluster: &Cluster, pod: &Pod, ix: NodeIx) -> Verdict {
        let lacking = self.needs_features && !pod.class.spec.features.within(cluster.node(ix).features);
        if lacking { Verdict::LacksFeatures } else { Verdict::Fits }
    }

    #[inline]
    fn verdict_when_they_came(
        &self,
        cluster: &Cluster,
        nominated: &Nominated,
        profile: &Profile,
        pod: &Pod,
        ix: NodeIx,
    ) -> Verdict {
        if nominated.is_empty() {
            return Verdict::Fits;
        }
        let change = self.expected(cluster, nominated, pod, ix);
        if change.is_empty() { Verdict::Fits } else { self.after(cluster, profile, pod, ix, &change) }
    }

    /// The pods that will come to a node and are at least as important.
    fn expected(&self, cluster: &Cluster, nominated: &Nominated, pod: &Pod, ix: NodeIx) -> Change {
        let others = nominated.on(cluster.node_name(ix)).iter();
        let others = others.filter(|other| other.priority >= pod.priority && other.uid != pod.uid);
        Change { removed: Vec::new(), added: others.cloned().collect() }
    }

    fn after(&self, cluster: &Cluster, profile: &Profile, pod: &Pod, ix: NodeIx, change: &Change) -> Verdict {
        let filtered = || filter::verdict_after(&self.plan, &self.ready, cluster, &pod.class, ix, change);
        self.local
            .verdict(cluster, profile, ix, Some(change))
            .and_then(|| self.volumes_verdict(cluster, pod, ix, Some(change)))
            .and_then(filtered)
            .and_then(|| self.devices_verdict(cluster, pod, ix, None))
            .and_then(|| self.features_verdict(cluster, pod, ix))
    }
}

fn one_of_the_best(totals: &[i64], rng: Rng) -> usize {
    let best = totals.iter().copied().max().unwrap_or(0);
    let ties = totals.iter().filter(|total| **total == best).count() as u64;
    let chosen = if ties > 1 { rng(ties) } else { 0 };
    let mut at = totals.iter().enumerate().filter(|(_, total)| **total == best).map(|(i, _)| i);
    at.nth(chosen as usize).unwrap_or(0)
}

#[cfg(test)]
mod tests;
