//! Which nodes have an image, and how large it is there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cluster::NodeIx;
use crate::node::Node;

/// The number of an image's name; given again when no node has the image any more.
pub type ImageIx = u32;

#[derive(Default)]
pub struct Images {
    numbers: HashMap<Arc<str>, ImageIx>,
    on: Vec<BTreeMap<NodeIx, i64>>,
    free: Vec<ImageIx>,
}

impl Images {
    pub fn number(&self, name: &str) -> Option<ImageIx> {
        self.numbers.get(name).copied()
    }
    /// How many nodes have it.
    pub fn spread(&self, image: ImageIx) -> usize {
        self.on[image as usize].len()
    }
    #[inline]
    pub fn size(&self, image: ImageIx, node: NodeIx) -> Option<i64> {
        self.on[image as usize].get(&node).copied()
    }

    pub(super) fn add(&mut self, ix: NodeIx, node: &Node) {
        for (name, size) in &node.images {
            let number = match self.numbers.get(name) {
                Some(number) => *number,
                None => {
                    let number = self.free.pop().unwrap_or(self.on.len() as ImageIx);
                    if number as usize == self.on.len() {
                        self.on.push(BTreeMap::new());
                    }
                    self.numbers.insert(name.clone(), number);
                    number
                }
            };
            // Said twice, the first counts.
            self.on[number as usize].entry(ix).or_insert(*size);
        }
    }

    pub(super) fn remove(&mut self, ix: NodeIx, node: &Node) {
        for (name, _) in &node.images {
            let Some(number) = self.numbers.get(name).copied() else { continue };
            self.on[number as usize].remove(&ix);
            if self.on[number as usize].is_empty() {
                self.numbers.remove(name);
                self.free.push(number);
            }
        }
    }
}
