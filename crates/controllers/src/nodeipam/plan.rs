//! Which blocks a node gets.

use std::collections::BTreeSet;

use object::{Map, Value};

use super::NodeIpam;
use super::cidr::Cidr;
use super::cidr_set::CidrSet;
use super::held::Held;

/// The blocks of all cluster CIDRs.
pub struct Allocator {
    sets: Vec<CidrSet>,
    /// What nodes have or were given, in and out of the cluster CIDRs.
    held: Held,
    /// The nodes that certainly do not have what they were given: nobody has written it.
    unwritten: BTreeSet<String>,
    reserved: Vec<Cidr>,
    left_alone: Option<String>,
    kubelets_only: bool,
}

#[derive(Debug, PartialEq)]
pub enum Plan {
    /// It has its blocks, or is going.
    Nothing,
    Assign {
        blocks: Vec<Cidr>,
        patch: Value,
    },
    Full(String),
}

/// A range of a node that another has a part of, too.
#[derive(Debug, PartialEq)]
pub struct Overlap {
    pub cidr: Cidr,
    pub other: String,
}

impl Allocator {
    pub fn new(settings: &NodeIpam) -> Allocator {
        let sets = settings.clusters.iter().map(|(cidr, size)| CidrSet::new(*cidr, *size)).collect();
        let mut allocator = Allocator {
            sets,
            held: Held::default(),
            unwritten: BTreeSet::new(),
            reserved: settings.reserved.clone(),
            left_alone: settings.left_alone.clone(),
            kubelets_only: settings.kubelets_only,
        };
        allocator.occupy_reserved();
        allocator
    }

    fn occupy_reserved(&mut self) {
        for reserved in &self.reserved {
            // Of those it does not overlap there is nothing to take.
            for set in &mut self.sets {
                let _ = set.occupy(reserved);
            }
        }
    }

    /// Blocks for a node without any. They are taken: give them back if it does not get them.
    pub fn plan(&mut self, node: &Value) -> Plan {
        let name = name_of(node);
        if !pod_cidrs(node).is_empty() || node.at(&["metadata", "deletionTimestamp"]).is_some() {
            return Plan::Nothing;
        }
        if self.left_alone.as_deref() == Some(name) || (self.kubelets_only && !has_kubelet(node)) {
            return Plan::Nothing;
        }
        // It was given them, and its object does not show them yet.
        let mut blocks = self.held.of(name).to_vec();
        if blocks.is_empty() {
            for index in 0..self.sets.len() {
                let Some(block) = self.sets[index].allocate() else {
                    // Differs from kube-controller-manager: what was taken for it of another family is not lost.
                    self.free(&blocks);
                    return Plan::Full(format!(
                        "failed to allocate cidr from cluster cidr at idx:{index}: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"
                    ));
                };
                blocks.push(block);
            }
            self.held.set(name, blocks.clone());
            self.unwritten.insert(name.to_owned());
        }
        let texts: Vec<String> = blocks.iter().map(Cidr::to_string).collect();
        let mut spec = Map::default();
        spec.set("podCIDR", texts.first().cloned().unwrap_or_default());
        spec.set("podCIDRs", Value::List(texts.into_iter().map(Value::from).collect()));
        let mut patch = Value::map();
        patch.make_map().set("spec", Value::Map(spec));
        Plan::Assign { blocks, patch }
    }

    /// How a write of what [`plan`](Allocator::plan) gave the node was answered. After some errors nobody knows whether it was written:
    /// whatever later tries are answered, the blocks stay taken. Better lost until the next start than given twice.
    pub fn note_answer(&mut self, name: &str, code: u16) {
        if code == 200 || code >= 500 {
            self.unwritten.remove(name);
        }
    }

    /// Nothing more is tried: the node does not get what [`plan`](Allocator::plan) gave it, unless it may have it.
    pub fn give_back(&mut self, name: &str, blocks: &[Cidr]) {
        // Otherwise it is gone, or has others; and these may be somebody else's by now.
        if self.held.of(name) == blocks && self.unwritten.remove(name) {
            self.held.remove(name);
            self.free(blocks);
        }
    }

    /// Takes the blocks a node has. Tells of ranges that overlap another node's, once, and whether all is in the cluster CIDRs.
    pub fn occupy(&mut self, name: &str, node: &Value) -> (Vec<Overlap>, Result<(), String>) {
        let texts = pod_cidrs(node);
        let cidrs: Vec<Cidr> = texts.iter().filter_map(|text| Cidr::parse(text)).collect();
        if !texts.is_empty() {
            self.unwritten.remove(name);
        }
        if texts.is_empty() || cidrs == self.held.of(name) {
            return (Vec::new(), Ok(()));
        }
        // What it was given meanwhile it cannot get any more: its ranges never change.
        let given = self.held.remove(name);
        self.free(&given);
        let mut overlaps = Vec::new();
        for cidr in &cidrs {
            let others = self.held.overlapping(cidr);
            overlaps.extend(others.map(|other| Overlap { cidr: *cidr, other: other.to_owned() }));
        }
        self.held.set(name, cidrs);
        (overlaps, self.take(name, &texts))
    }

    fn take(&mut self, name: &str, texts: &[&str]) -> Result<(), String> {
        for (index, text) in texts.iter().enumerate() {
            let cidr =
                Cidr::parse(text).ok_or_else(|| format!("failed to parse node {name}, CIDR {text}"))?;
            self.set(name, text, index)?.occupy(&cidr).map_err(|error| {
                format!("failed to mark cidr[{cidr}] at idx [{index}] as occupied for node: {name}: {error}")
            })?;
        }
        Ok(())
    }

    /// Gives back the blocks of a node that is gone, except those of which others have a part.
    pub fn release(&mut self, node: &Value) -> Result<(), String> {
        let name = name_of(node);
        self.unwritten.remove(name);
        let given = self.held.remove(name);
        self.free(&given);
        for (index, text) in pod_cidrs(node).iter().enumerate() {
            let cidr =
                Cidr::parse(text).ok_or_else(|| format!("failed to parse CIDR {text} on Node {name}"))?;
            self.set(name, text, index)?
                .release(&cidr)
                .map_err(|error| format!("error when releasing CIDR {cidr}: {error}"))?;
            self.occupy_again(&cidr);
        }
        // A node may have had one of those.
        self.occupy_reserved();
        Ok(())
    }

    fn free(&mut self, blocks: &[Cidr]) {
        for (set, block) in self.sets.iter_mut().zip(blocks) {
            // Of what lies outside there is nothing to free.
            let _ = set.release(block);
        }
        for block in blocks {
            self.occupy_again(block);
        }
    }

    /// What nodes have of the blocks this range touches.
    fn occupy_again(&mut self, cidr: &Cidr) {
        for set in &mut self.sets {
            let Some(blocks) = set.blocks_around(cidr) else { continue };
            let names: Vec<&str> = self.held.overlapping(&blocks).collect();
            for taken in names.into_iter().flat_map(|name| self.held.of(name)) {
                let _ = set.occupy(taken);
            }
        }
    }

    fn set(&mut self, name: &str, text: &str, index: usize) -> Result<&mut CidrSet, String> {
        self.sets.get_mut(index).ok_or_else(|| {
            format!(
                "node:{name} has an allocated cidr: {text} at index:{index} that does not exist in cluster cidrs configuration"
            )
        })
    }
}

/// A kubelet says what runs its containers when it registers.
fn has_kubelet(node: &Value) -> bool {
    let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).unwrap_or_default();
    !runtime.is_empty() && !runtime.starts_with("simulated://")
}

fn name_of(node: &Value) -> &str {
    node.str_at(&["metadata", "name"]).unwrap_or("")
}

fn pod_cidrs(node: &Value) -> Vec<&str> {
    let list = node.at(&["spec", "podCIDRs"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}
