//! The domains of a topology, which nodes count in each, and how many pods are there.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::NOWHERE;
use super::tally::Tally;
use crate::cluster::NodeIx;
use crate::cluster::bits::Bits;
use crate::cluster::words::{Word, Words};
use crate::node_selector::Required;
use crate::pod::{Inclusion, Spec};
use crate::taint::{Tolerance, Toleration};

/// Which nodes count as places for a constraint.
#[derive(Clone, Debug)]
pub struct Places {
    pub spec: Arc<Spec>,
    pub affinity: Inclusion,
    pub taints: Inclusion,
    /// Topology keys that must all be there.
    pub keys: Vec<usize>,
}

/// One topology key.
pub struct Topology {
    pub key: String,
    /// Of each node.
    pub domain: Vec<u32>,
    /// The domain of each value.
    pub values: HashMap<Word, u32>,
}

/// Counts by domain of one topology.
pub struct Domains {
    pub topology: usize,
    pub(super) places: Option<Places>,
    set: Arc<PlaceSet>,
    pub(super) epoch: u64,
    counts: Tally,
    /// The nodes in domains with a pod; only where all nodes count.
    occupied: Bits,
    /// The sum of all counts.
    pub total: i64,
}

/// The places of a topology; all questions over the same ones share them.
#[derive(Default)]
pub struct PlaceSet {
    /// The nodes that count; `None` where all do.
    eligible: Option<Bits>,
    /// Nodes that count in each domain: a domain without any is none.
    nodes: Vec<u32>,
}

impl Places {
    /// What they depend on: pods that differ in other things count over the same ones.
    fn identity(&self) -> (&[usize], Option<&Required>, Option<&[Toleration]>) {
        let required = (self.affinity == Inclusion::Honor).then_some(&self.spec.required);
        let tolerations = (self.taints == Inclusion::Honor).then_some(&self.spec.tolerations[..]);
        (&self.keys, required.filter(|required| !required.is_empty()), tolerations)
    }

    /// The nodes that are.
    fn find(&self, words: &Words, topologies: &[Topology]) -> Bits {
        let spec = &self.spec;
        let mut nodes = words.there().clone();
        for key in &self.keys {
            nodes.intersect(&words.having_key(&topologies[*key].key));
        }
        if self.affinity == Inclusion::Honor {
            spec.required.choose(words).keep(&mut nodes);
        }
        if self.taints == Inclusion::Honor {
            Tolerance::new(&spec.tolerations, words).keep(words, &mut nodes);
        }
        nodes
    }
}

impl PartialEq for Places {
    fn eq(&self, other: &Places) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Places {}

impl Hash for Places {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Topology {
    /// The number of a value may be given to another when no node has it any more: so is its domain then.
    pub fn domain_of(&mut self, words: &Words, node: NodeIx) -> u32 {
        let value = words.key(&self.key).and_then(|key| words.label(node, key));
        let Some(value) = value else { return NOWHERE };
        let next = self.values.len() as u32;
        *self.values.entry(value).or_insert(next)
    }
}

impl Domains {
    pub(super) fn new(topology: usize, places: Option<Places>) -> Domains {
        Domains {
            topology,
            places,
            set: Arc::default(),
            // No epoch is this one: the counts are made when first read.
            epoch: u64::MAX,
            counts: Tally::new(0),
            occupied: Bits::default(),
            total: 0,
        }
    }

    /// By domain.
    pub fn counts(&self) -> &Tally {
        &self.counts
    }

    /// The nodes in a domain with a pod.
    pub fn occupied(&self) -> &Bits {
        &self.occupied
    }

    /// Nodes that count in each domain.
    pub fn nodes(&self) -> &[u32] {
        &self.set.nodes
    }

    /// Whether a node is one of the places.
    pub fn includes(&self, node: NodeIx) -> bool {
        self.set.includes(node)
    }

    /// Counts anew, over these places.
    pub(super) fn rebuild(
        &mut self,
        per_node: &Tally,
        topology: &Topology,
        words: &Words,
        set: Arc<PlaceSet>,
    ) {
        self.counts = Tally::new(topology.values.len());
        self.occupied = Bits::default();
        self.total = 0;
        self.set = set;
        match (per_node, &self.set.clone().eligible) {
            (Tally::Many(counts), Some(eligible)) => {
                let some = eligible.iter().filter_map(|ix| Some((ix, i64::from(*counts.get(ix as usize)?))));
                some.filter(|(_, count)| *count != 0)
                    .for_each(|(ix, count)| self.add(ix, count, topology, words));
            }
            _ => per_node.iter().for_each(|(ix, count)| self.add(ix, count, topology, words)),
        }
    }

    pub(super) fn add(&mut self, node: NodeIx, by: i64, topology: &Topology, words: &Words) {
        let domain = topology.domain[node as usize];
        if domain == NOWHERE || !self.includes(node) {
            return;
        }
        self.total += by;
        let count = self.counts.add(domain, by);
        // Only the first pod and the last change who is alone.
        if self.places.is_some() || (count != by && count != 0) {
            return;
        }
        if let Some(nodes) = words.nodes_with_same_label(node, &topology.key) {
            match count {
                0 => self.occupied.take(nodes),
                _ => self.occupied.add(nodes),
            }
        }
    }
}

impl PlaceSet {
    pub(super) fn new(
        topology: usize,
        places: Option<&Places>,
        topologies: &[Topology],
        words: &Words,
    ) -> PlaceSet {
        let Topology { domain, values, .. } = &topologies[topology];
        let eligible = places.map(|places| places.find(words, topologies));
        let mut nodes = vec![0; values.len()];
        let mut add = |domain: u32| {
            if domain != NOWHERE {
                nodes[domain as usize] += 1;
            }
        };
        match &eligible {
            Some(eligible) => eligible.iter().for_each(|ix| add(domain[ix as usize])),
            None => domain.iter().for_each(|domain| add(*domain)),
        }
        PlaceSet { eligible, nodes }
    }

    fn includes(&self, node: NodeIx) -> bool {
        self.eligible.as_ref().is_none_or(|nodes| nodes.has(node))
    }
}
