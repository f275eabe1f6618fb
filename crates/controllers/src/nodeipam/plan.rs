//! Which blocks a node gets.

use object::{Map, Value};

use super::NodeIpam;
use super::cidr::Cidr;
use super::cidr_set::CidrSet;

/// The blocks of all cluster CIDRs.
pub struct Allocator {
    sets: Vec<CidrSet>,
    reserved: Vec<Cidr>,
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

impl Allocator {
    pub fn new(settings: &NodeIpam) -> Allocator {
        let sets = settings.clusters.iter().map(|(cidr, size)| CidrSet::new(*cidr, *size)).collect();
        let (reserved, kubelets_only) = (settings.reserved.clone(), settings.kubelets_only);
        let mut allocator = Allocator { sets, reserved, kubelets_only };
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
        if !pod_cidrs(node).is_empty() || node.at(&["metadata", "deletionTimestamp"]).is_some() {
            return Plan::Nothing;
        }
        if self.kubelets_only && !has_kubelet(node) {
            return Plan::Nothing;
        }
        let mut blocks = Vec::new();
        for index in 0..self.sets.len() {
            let Some(block) = self.sets[index].allocate() else {
                // Differs from kube-controller-manager: what was taken for it of another family is not lost.
                self.give_back(&blocks);
                return Plan::Full(format!(
                    "failed to allocate cidr from cluster cidr at idx:{index}: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"
                ));
            };
            blocks.push(block);
        }
        let texts: Vec<String> = blocks.iter().map(Cidr::to_string).collect();
        let mut spec = Map::default();
        spec.set("podCIDR", texts.first().cloned().unwrap_or_default());
        spec.set("podCIDRs", Value::List(texts.into_iter().map(Value::from).collect()));
        let mut patch = Value::map();
        patch.make_map().set("spec", Value::Map(spec));
        Plan::Assign { blocks, patch }
    }

    pub fn give_back(&mut self, blocks: &[Cidr]) {
        for (set, block) in self.sets.iter_mut().zip(blocks) {
            // A block of the set itself is never out of its range.
            let _ = set.release(block);
        }
    }

    /// Takes the blocks a node has.
    pub fn occupy(&mut self, name: &str, node: &Value) -> Result<(), String> {
        for (index, text) in pod_cidrs(node).iter().enumerate() {
            let cidr =
                Cidr::parse(text).ok_or_else(|| format!("failed to parse node {name}, CIDR {text}"))?;
            self.set(name, text, index)?.occupy(&cidr).map_err(|error| {
                format!("failed to mark cidr[{cidr}] at idx [{index}] as occupied for node: {name}: {error}")
            })?;
        }
        Ok(())
    }

    /// Gives back the blocks of a node that is gone.
    pub fn release(&mut self, node: &Value) -> Result<(), String> {
        let name = node.str_at(&["metadata", "name"]).unwrap_or("");
        for (index, text) in pod_cidrs(node).iter().enumerate() {
            let cidr =
                Cidr::parse(text).ok_or_else(|| format!("failed to parse CIDR {text} on Node {name}"))?;
            self.set(name, text, index)?
                .release(&cidr)
                .map_err(|error| format!("error when releasing CIDR {cidr}: {error}"))?;
        }
        // A node may have had one of those.
        self.occupy_reserved();
        Ok(())
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

fn pod_cidrs(node: &Value) -> Vec<&str> {
    let list = node.at(&["spec", "podCIDRs"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}
