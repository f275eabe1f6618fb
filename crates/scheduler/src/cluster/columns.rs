//! One column a resource: what each node has and what its pods ask for.

use std::sync::Arc;

use crate::cluster::NodeIx;
use crate::node::Node;
use crate::pod::Spec;

pub const CPU: usize = 0;
pub const MEMORY: usize = 1;
pub const EPHEMERAL_STORAGE: usize = 2;

/// The first three are always there.
const FIXED: usize = 3;
/// With more columns than this, those that say nothing are let go.
const MAX_RESOURCES: usize = 128;

/// All columns are as long as there are places for nodes.
pub struct Columns {
    names: Vec<Arc<str>>,
    allocatable: Vec<Vec<i64>>,
    requested: Vec<Vec<i64>>,
    /// Cpu and memory with a minimum for each container: nodes full of pods that ask for nothing look full.
    at_least: [Vec<i64>; 2],
    pods_allowed: Vec<i64>,
    pods: Vec<i64>,
    width: usize,
    /// Grows when columns get other numbers.
    epoch: u64,
    /// So many names there may be before the next look for columns that say nothing.
    compact_above: usize,
}

impl Default for Columns {
    fn default() -> Self {
        let names: Vec<Arc<str>> = ["cpu", "memory", "ephemeral-storage"].map(Arc::from).to_vec();
        Columns {
            allocatable: vec![Vec::new(); names.len()],
            requested: vec![Vec::new(); names.len()],
            names,
            at_least: [Vec::new(), Vec::new()],
            pods_allowed: Vec::new(),
            pods: Vec::new(),
            width: 0,
            epoch: 0,
            compact_above: MAX_RESOURCES,
        }
    }
}

impl Columns {
    /// The column of a resource, made when it is first heard of.
    pub fn resource(&mut self, name: &str) -> usize {
        if let Some(at) = self.names.iter().position(|n| n.as_ref() == name) {
            return at;
        }
        self.names.push(name.into());
        self.allocatable.push(vec![0; self.width]);
        self.requested.push(vec![0; self.width]);
        self.names.len() - 1
    }
    /// Numbers of columns hold while this stays the same.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Lets go of resources that no node has and no placed pod asks for: names come and go with nodes and pods, and
    /// whoever may write pods can make up as many as they like.
    pub(super) fn compact(&mut self) {
        if self.names.len() <= self.compact_above {
            return;
        }
        let says = |column: &Vec<i64>| column.iter().any(|amount| *amount != 0);
        let used = |at: usize| at < FIXED || says(&self.allocatable[at]) || says(&self.requested[at]);
        let keep: Vec<bool> = (0..self.names.len()).map(used).collect();
        retain(&mut self.names, &keep);
        retain(&mut self.allocatable, &keep);
        retain(&mut self.requested, &keep);
        // Many that are all in use are not looked through again for every decision.
        self.compact_above = MAX_RESOURCES.max(2 * self.names.len());
        self.epoch += 1;
    }
    #[cfg(test)]
    pub fn names(&self) -> usize {
        self.names.len()
    }
    pub fn name(&self, resource: usize) -> &str {
        &self.names[resource]
    }
    pub fn allocatable(&self, resource: usize, node: NodeIx) -> i64 {
        self.allocatable[resource][node as usize]
    }
    pub fn requested(&self, resource: usize, node: NodeIx) -> i64 {
        self.requested[resource][node as usize]
    }
    /// Of all nodes: the pods there are, and those allowed.
    pub fn all_pods(&self) -> (&[i64], &[i64]) {
        (&self.pods, &self.pods_allowed)
    }
    /// Of all nodes.
    pub fn all_allocatable(&self, resource: usize) -> &[i64] {
        &self.allocatable[resource]
    }
    pub fn all_requested(&self, resource: usize) -> &[i64] {
        &self.requested[resource]
    }
    /// What is asked for with the minimum for each container; only of cpu and memory.
    pub fn all_at_least(&self, resource: usize) -> &[i64] {
        self.at_least.get(resource).unwrap_or(&self.requested[resource])
    }
    pub fn pods_allowed(&self, node: NodeIx) -> i64 {
        self.pods_allowed[node as usize]
    }
    pub fn pods(&self, node: NodeIx) -> i64 {
        self.pods[node as usize]
    }

    pub(super) fn grow(&mut self) {
        self.width += 1;
        for column in self.all() {
            column.push(0);
        }
    }

    pub(super) fn clear(&mut self, node: NodeIx) {
        for column in self.all() {
            column[node as usize] = 0;
        }
    }

    pub(super) fn set_allocatable(&mut self, ix: NodeIx, node: &Node) {
        for column in &mut self.allocatable {
            column[ix as usize] = 0;
        }
        self.pods_allowed[ix as usize] = 0;
        for (name, amount) in &node.allocatable {
            if name.as_ref() == "pods" {
                self.pods_allowed[ix as usize] = *amount;
            } else {
                let resource = self.resource(name);
                self.allocatable[resource][ix as usize] = *amount;
            }
        }
    }

    pub(super) fn add_pod(&mut self, node: NodeIx, spec: &Spec, sign: i64) {
        for (name, amount) in &spec.requests {
            let resource = self.resource(name);
            let cell = &mut self.requested[resource][node as usize];
            *cell = cell.saturating_add(sign * amount);
        }
        for (column, amount) in self.at_least.iter_mut().zip(spec.at_least) {
            let cell = &mut column[node as usize];
            *cell = cell.saturating_add(sign * amount);
        }
        self.pods[node as usize] += sign;
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Vec<i64>> {
        let numbers = [&mut self.pods_allowed, &mut self.pods];
        self.allocatable.iter_mut().chain(&mut self.requested).chain(&mut self.at_least).chain(numbers)
    }
}

fn retain<T>(all: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    all.retain(|_| keep.next().copied().unwrap_or(true));
}
