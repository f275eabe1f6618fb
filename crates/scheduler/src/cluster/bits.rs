//! Sets of nodes, a bit each.

use crate::cluster::NodeIx;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

/// Nodes that have something in common: a list while they are few, so that a label each node has its own value of stays small.
#[derive(Debug)]
pub enum Nodes {
    Few(Vec<NodeIx>),
    Many(Bits, usize),
}

/// A list of more takes more room than a bit for every node of a cluster of some thousands.
const FEW: usize = 64;

impl Bits {
    pub fn none(width: usize) -> Bits {
        Bits(vec![0; width.div_ceil(64)])
    }
    #[inline]
    pub fn has(&self, node: NodeIx) -> bool {
        self.0.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }
    pub fn insert(&mut self, node: NodeIx) {
        let at = node as usize / 64;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (node % 64);
    }
    pub fn remove(&mut self, node: NodeIx) {
        if let Some(word) = self.0.get_mut(node as usize / 64) {
            *word &= !(1 << (node % 64));
        }
    }
    /// One by one, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = NodeIx> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let rest = std::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)));
            rest.take_while(|word| *word != 0).map(move |word| at as NodeIx * 64 + word.trailing_zeros())
        })
    }
    /// Those of either.
    pub fn add(&mut self, nodes: &Nodes) {
        match nodes {
            Nodes::Few(list) => list.iter().for_each(|node| self.insert(*node)),
            Nodes::Many(bits, _) => self.unite(bits),
        }
    }
    /// Without those.
    pub fn take(&mut self, nodes: &Nodes) {
        match nodes {
            Nodes::Few(list) => list.iter().for_each(|node| self.remove(*node)),
            Nodes::Many(bits, _) => self.subtract(bits),
        }
    }
    pub fn unite(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }
    /// Those of both.
    pub fn intersect(&mut self, other: &Bits) {
        self.0.truncate(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }
    /// Without those of the other.
    pub fn subtract(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }
    /// Those that are not in it, up to the width; some may be no nodes.
    pub fn invert(&mut self, width: usize) {
        self.0.resize(width.div_ceil(64), 0);
        self.0.iter_mut().for_each(|word| *word = !*word);
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes::Few(Vec::new())
    }
}

impl Nodes {
    pub fn insert(&mut self, node: NodeIx) {
        match self {
            Nodes::Few(list) => {
                list.push(node);
                if list.len() > FEW {
                    let mut bits = Bits::default();
                    list.iter().for_each(|node| bits.insert(*node));
                    *self = Nodes::Many(bits, FEW + 1);
                }
            }
            Nodes::Many(bits, count) => {
                bits.insert(node);
                *count += 1;
            }
        }
    }
    pub fn remove(&mut self, node: NodeIx) {
        match self {
            Nodes::Few(list) => list.retain(|other| *other != node),
            Nodes::Many(bits, count) => {
                bits.remove(node);
                *count -= 1;
            }
        }
    }
    pub fn is_empty(&self) -> bool {
        match self {
            Nodes::Few(list) => list.is_empty(),
            Nodes::Many(_, count) => *count == 0,
        }
    }
    pub fn bits(&self, width: usize) -> Bits {
        let mut bits = Bits::none(width);
        bits.add(self);
        bits
    }
}
