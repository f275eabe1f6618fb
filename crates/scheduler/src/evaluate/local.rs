//! What one node alone decides about a pod: filters and scores that look at nothing but that node.
//!
//! Found out once for each spec and node, and again only after the node has changed.

mod scores;

use std::sync::Arc;

use devices::Allocator;

use crate::cluster::bits::Bits;
use crate::cluster::{Cluster, ImageIx, NodeIx};
use crate::config::Profile;
use crate::node_selector::{Chosen, Weighed};
use crate::plugin::Plugin;
use crate::pod::{Class, Spec, conflict, may_be_devices};
use crate::taint::{self, Tolerance};
use crate::verdict::Verdict;

pub const MAX_SCORE: i64 = 100;

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
    /// The nodes that are left of all by the filters that look at these alone.
    open: Bits,
    preferred: Weighed,
    added: Chosen,
    added_preferred: Weighed,
    /// Those of its images that some node has.
    images: Vec<ImageIx>,
    images_epoch: Option<u64>,
    /// Of the device classes that may stand for what is asked for; zero while none is asked about.
    classes_version: u64,
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
    /// Devices stand for it on nodes that have none of it.
    delegated: bool,
}

/// The columns one decision looks at.
pub struct Sight<'a> {
    pub cluster: &'a Cluster,
    pods: &'a [i64],
    pods_allowed: &'a [i64],
    requests: Vec<Line<'a>>,
    /// Whether resources are looked at, and ports.
    counts: bool,
    ports: bool,
    /// For a pod that asks for devices.
    pub allocator: Option<Allocator<'a>>,
}

struct Line<'a> {
    allocatable: &'a [i64],
    requested: &'a [i64],
    amount: i64,
    delegated: bool,
}

/// A resource whose use is scored.
struct Scored {
    name: Arc<str>,
    column: usize,
    weight: i64,
    request: i64,
    /// Devices stand for it on nodes that have none of it.
    delegated: bool,
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
            delegated: false,
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
                    let column = columns.resource(name);
                    let name = name.as_str().into();
                    out.push(Scored { name, column, weight: *weight, request, delegated: false });
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
            open: Bits::default(),
            preferred: Weighed::default(),
            added: Chosen::default(),
            added_preferred: Weighed::default(),
            images: Vec::new(),
            images_epoch: None,
            classes_version: 0,
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
            self.tolerance = Tolerance::new(&self.spec.tolerations, words);
            self.preferred = self.spec.preferred.choose(words);
            let added = &profile.added_affinity;
            self.added = added.required.as_ref().map(|terms| terms.choose(words)).unwrap_or_default();
            self.added_preferred = added.preferred.choose(words);
            self.open = self.find_open(cluster, profile);
        }
        // How far an image has spread is known to all nodes: one that gets it changes the score of the others.
        if self.images_epoch != Some(cluster.images_epoch()) {
            self.images_epoch = Some(cluster.images_epoch());
            self.images = self.spec.images.iter().filter_map(|name| cluster.images().number(name)).collect();
            self.scored.clear();
        }
        let classes = cluster.devices().classes_version();
        if !self.spec.extended.is_empty() && self.classes_version != classes {
            self.classes_version = classes;
            for (request, (name, _)) in self.requests.iter_mut().zip(&self.spec.requests) {
                request.delegated = may_be_devices(name) && cluster.devices().has_class_for(name);
            }
            for scored in self.fit.iter_mut().chain(&mut self.balanced) {
                let name = &scored.name;
                scored.delegated = may_be_devices(name) && cluster.devices().has_class_for(name);
            }
            self.known.clear();
            self.scored.clear();
        }
        if self.begun {
            self.known.resize(cluster.width(), 0);
            self.scored.resize(cluster.width(), (0, Scores::default()));
        }
        self.begun = true;
    }

    fn find_open(&self, cluster: &Cluster, profile: &Profile) -> Bits {
        let words = cluster.words();
        let mut open = words.there().clone();
        if profile.filter.has(Plugin::NodeUnschedulable) && !self.unschedulable_ok {
            open.subtract(words.cordoned());
        }
        if profile.filter.has(Plugin::TaintToleration) {
            self.tolerance.keep(words, &mut open);
        }
        if profile.filter.has(Plugin::NodeAffinity) {
            self.added.keep(&mut open);
            self.chosen.keep(&mut open);
        }
        open
    }

    /// The nodes that may fit, as far as a bit says: no filter lets the pod on another.
    pub fn open(&self) -> &Bits {
        &self.open
    }

    /// The columns that are looked at, found once for a decision.
    pub fn sight<'a>(&self, cluster: &'a Cluster, profile: &Profile) -> Sight<'a> {
        let columns = cluster.columns();
        let (pods, pods_allowed) = columns.all_pods();
        let counts = profile.filter.has(Plugin::NodeResourcesFit);
        let requests = self.requests.iter().filter(|request| counts && !request.ignored);
        let of = |request: &Request| Line {
            allocatable: columns.all_allocatable(request.column),
            requested: columns.all_requested(request.column),
            amount: request.amount,
            delegated: request.delegated,
        };
        let ports = profile.filter.has(Plugin::NodePorts) && !self.spec.ports.is_empty();
        let requests = requests.map(of).collect();
        Sight { cluster, pods, pods_allowed, requests, counts, ports, allocator: None }
    }

    /// Whether an open node fits, as it is.
    #[inline]
    pub fn fits(&mut self, sight: &Sight, ix: NodeIx) -> bool {
        let unfit = sight.cluster.generation(ix) << 1;
        if let Some(known) = self.known.get(ix as usize).filter(|known| **known | 1 == unfit | 1) {
            return *known != unfit;
        }
        #[cfg(test)]
        {
            self.evaluated += 1;
        }
        let fits = sight.room(ix) && !(sight.ports && conflict(&self.spec.ports, sight.cluster.ports_on(ix)));
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
        // What devices stand for changes with every claim, and the node does not.
        let delegated = self.fit.iter().chain(&self.balanced).any(|scored| scored.delegated);
        if delegated || self.scored.is_empty() {
            self.find_scores(cluster, profile, nodes, scores);
            return;
        }
        let changed = |ix: &NodeIx| self.scored[*ix as usize].0 != cluster.generation(*ix);
        let changed: Vec<NodeIx> = nodes.iter().copied().filter(changed).collect();
        self.find_scores(cluster, profile, &changed, scores);
        for (ix, scores) in changed.iter().zip(scores.iter()) {
            self.scored[*ix as usize] = (cluster.generation(*ix), *scores);
        }
        scores.clear();
        scores.extend(nodes.iter().map(|ix| self.scored[*ix as usize].1));
    }

    /// What is found about a node, as it is or after the change.
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
        if on(Plugin::TaintToleration) && self.tolerance.of(words, ix).is_none() {
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

    fn room(&self, cluster: &Cluster, ix: NodeIx, change: Option<&Change>) -> Verdict {
        let columns = cluster.columns();
        let (mut bits, mut unresolvable) = (0u32, false);
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
            let delegated = request.delegated && allocatable == 0;
            if request.amount > allocatable - requested && !request.ignored && !delegated {
                bits |= Verdict::short_of(i);
                unresolvable |= request.amount > allocatable;
            }
        }
        if bits == 0 { Verdict::Fits } else { Verdict::Short { bits, unresolvable } }
    }
}

impl Sight<'_> {
    #[inline]
    fn room(&self, ix: NodeIx) -> bool {
        let at = ix as usize;
        let has = |line: &Line| {
            line.amount <= line.allocatable[at] - line.requested[at]
                || line.delegated && line.allocatable[at] == 0
        };
        !self.counts || self.pods[at] < self.pods_allowed[at] && self.requests.iter().all(has)
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

    /// Name, uid and class of the pods with volumes that would be there.
    pub fn volume_pods<'a>(
        &'a self,
        cluster: &'a Cluster,
        ix: NodeIx,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Class)> {
        let stay = cluster.volume_pods_on(ix).filter(|pod| !self.removed.contains(pod));
        let stay = stay.map(|pod| cluster.placed(pod)).map(|pod| (&*pod.name, &*pod.uid, &*pod.class));
        stay.chain(self.added.iter().map(|pod| (&*pod.name, &*pod.uid, &*pod.class)))
    }

    fn requested(&self, cluster: &Cluster, resource: &str) -> i64 {
        let added: i64 = self.added.iter().map(|pod| pod.class.spec.request(resource)).sum();
        let of = |ix: &u32| cluster.placed(*ix).class.spec.request(resource);
        added - self.removed.iter().map(of).sum::<i64>()
    }
}
