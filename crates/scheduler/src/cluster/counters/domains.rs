//! The domains of a topology, which nodes count in each, and how many pods are there.

use std::collections::HashMap;
use std::sync::Arc;

use super::NOWHERE;
use crate::cluster::NodeIx;
use crate::node::Node;
use crate::pod::{Inclusion, Spec};

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
    pub values: HashMap<Arc<str>, u32>,
}

/// Counts by domain of one topology.
pub struct Domains {
    pub topology: usize,
    pub(super) places_text: String,
    places: Option<Places>,
    /// Whether each node counts; empty where all do.
    eligible: Vec<bool>,
    pub(super) epoch: u64,
    pub counts: Vec<i64>,
    /// Nodes that count in each domain: a domain without any is none.
    pub nodes: Vec<u32>,
    /// The sum of all counts.
    pub total: i64,
}

impl Places {
    pub(super) fn text(&self) -> String {
        format!("{} {:?} {:?} {:?}", self.spec.id, self.affinity, self.taints, self.keys)
    }

    fn include(&self, ix: usize, node: &Node, topologies: &dyn Fn(usize, usize) -> u32) -> bool {
        self.keys.iter().all(|key| topologies(*key, ix) != NOWHERE)
            && (self.affinity == Inclusion::Ignore || self.spec.required.matches(node))
            && (self.taints == Inclusion::Ignore
                || crate::taint::all_tolerated(&node.taints, &self.spec.tolerations))
    }
}

impl Topology {
    pub fn domain_of(&mut self, node: Option<&Node>) -> u32 {
        let Some(value) = node.and_then(|n| n.label(&self.key)) else { return NOWHERE };
        if let Some(&domain) = self.values.get(value) {
            return domain;
        }
        let domain = self.values.len() as u32;
        self.values.insert(value.into(), domain);
        domain
    }
}

impl Domains {
    pub(super) fn new(topology: usize, places_text: String, places: Option<Places>) -> Domains {
        Domains {
            topology,
            places_text,
            places,
            eligible: Vec::new(),
            // No epoch is this one: the counts are made when first read.
            epoch: u64::MAX,
            counts: Vec::new(),
            nodes: Vec::new(),
            total: 0,
        }
    }

    /// Whether a node is one of the places.
    pub fn includes(&self, node: NodeIx) -> bool {
        self.eligible.get(node as usize).copied().unwrap_or(true)
    }

    pub(super) fn rebuild(&mut self, per_node: &[u16], topologies: &[Topology], nodes: &[Option<Arc<Node>>]) {
        let width = topologies[self.topology].values.len();
        self.counts = vec![0; width];
        self.nodes = vec![0; width];
        self.total = 0;
        let at = |key: usize, ix: usize| topologies[key].domain[ix];
        if let Some(places) = &self.places {
            let include = |(ix, node): (usize, &Option<Arc<Node>>)| {
                node.as_ref().is_some_and(|node| places.include(ix, node, &at))
            };
            self.eligible = nodes.iter().enumerate().map(include).collect();
        }
        for (ix, count) in per_node.iter().enumerate() {
            let domain = at(self.topology, ix);
            if domain == NOWHERE || !self.includes(ix as NodeIx) {
                continue;
            }
            self.counts[domain as usize] += i64::from(*count);
            self.nodes[domain as usize] += 1;
            self.total += i64::from(*count);
        }
    }
}
