//! The domains of a topology, which nodes count in each, and how many pods are there.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use super::NOWHERE;
use crate::cluster::NodeIx;
use crate::cluster::bits::Bits;
use crate::cluster::words::{Word, Words};
use crate::pod::{Inclusion, Spec};
use crate::taint::Tolerance;

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
    pub(super) places_text: String,
    pub(super) places: Option<Places>,
    set: Arc<PlaceSet>,
    pub(super) epoch: u64,
    pub counts: Vec<i64>,
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
    /// Equal for equal places: pods that differ in other things count over the same ones.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:?}", self.keys);
        if self.affinity == Inclusion::Honor && !self.spec.required.is_empty() {
            let _ = write!(text, " {:?}", self.spec.required);
        }
        if self.taints == Inclusion::Honor {
            let _ = write!(text, " {:?}", self.spec.tolerations);
        }
        text
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
            let tolerance = Tolerance::new(words);
            let tainted = |ix: &NodeIx| tolerance.of(&spec.tolerations, words, *ix).is_none();
            (0..words.width() as NodeIx).filter(tainted).for_each(|ix| nodes.remove(ix));
        }
        nodes
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
    pub(super) fn new(topology: usize, places_text: String, places: Option<Places>) -> Domains {
        Domains {
            topology,
            places_text,
            places,
            set: Arc::default(),
            // No epoch is this one: the counts are made when first read.
            epoch: u64::MAX,
            counts: Vec::new(),
            total: 0,
        }
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
    pub(super) fn rebuild(&mut self, per_node: &[u16], topology: &Topology, set: Arc<PlaceSet>) {
        self.counts.clear();
        self.counts.resize(topology.values.len(), 0);
        self.total = 0;
        for (ix, count) in per_node.iter().enumerate().filter(|(_, count)| **count != 0) {
            let domain = topology.domain[ix];
            if domain != NOWHERE && set.includes(ix as NodeIx) {
                self.counts[domain as usize] += i64::from(*count);
                self.total += i64::from(*count);
            }
        }
        self.set = set;
    }
}

impl PlaceSet {
    pub(super) fn new(
        topology: usize,
        places: Option<&Places>,
        topologies: &[Topology],
        words: &Words,
    ) -> PlaceSet {
        let eligible = places.map(|places| places.find(words, topologies));
        let mut set = PlaceSet { eligible, nodes: vec![0; topologies[topology].values.len()] };
        for (ix, domain) in topologies[topology].domain.iter().enumerate() {
            if *domain != NOWHERE && set.includes(ix as NodeIx) {
                set.nodes[*domain as usize] += 1;
            }
        }
        set
    }

    fn includes(&self, node: NodeIx) -> bool {
        self.eligible.as_ref().is_none_or(|nodes| nodes.has(node))
    }
}
