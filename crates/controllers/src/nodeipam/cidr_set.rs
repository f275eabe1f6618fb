//! The blocks of one cluster CIDR: which are taken, and the next free one.
//!
//! Taken blocks are kept as ranges of their numbers, so a step costs the logarithm of the gaps between them, however large the CIDR.

use std::collections::BTreeMap;

use super::cidr::{Cidr, bits};

pub struct CidrSet {
    cluster: Cidr,
    /// The prefix length of a block.
    block_size: u8,
    /// First to last number of blocks that are taken; ranges neither touch nor overlap.
    taken: BTreeMap<u64, u64>,
    taken_count: u64,
    /// Blocks are given in turn: one that was given back is not given again at once.
    next: u64,
}

impl CidrSet {
    /// `block_size` is at least the cluster's, by no more than 32 ([`super::NodeIpam`] checks it).
    pub fn new(cluster: Cidr, block_size: u8) -> CidrSet {
        CidrSet { cluster, block_size, taken: BTreeMap::new(), taken_count: 0, next: 0 }
    }

    fn count(&self) -> u64 {
        1 << self.block_size.saturating_sub(self.cluster.size).min(32)
    }

    /// Takes the next free block; `None`: all are taken.
    pub fn allocate(&mut self) -> Option<Cidr> {
        if self.taken_count == self.count() {
            return None;
        }
        let number = self.free_from(self.next).or_else(|| self.free_from(0))?;
        self.take(number, number);
        self.next = (number + 1) % self.count();
        let first = self.cluster.first | (u128::from(number) << self.host_bits());
        Some(Cidr::new(self.cluster.is_v6, first, self.block_size))
    }

    /// Takes every block the range touches; taken ones stay so.
    pub fn occupy(&mut self, cidr: &Cidr) -> Result<(), String> {
        let (first, last) = self.numbers(cidr)?;
        self.take(first, last);
        Ok(())
    }

    pub fn release(&mut self, cidr: &Cidr) -> Result<(), String> {
        let (first, last) = self.numbers(cidr)?;
        for (start, end) in self.touching(first, last) {
            self.taken.remove(&start);
            self.taken_count -= end - start + 1;
            if start < first {
                self.insert(start, first - 1);
            }
            if end > last {
                self.insert(last + 1, end);
            }
        }
        Ok(())
    }

    /// A range and the rest of the block it lies in; `None`: of another family.
    pub fn blocks_around(&self, cidr: &Cidr) -> Option<Cidr> {
        let of_family = cidr.is_v6 == self.cluster.is_v6;
        of_family.then(|| Cidr::new(cidr.is_v6, cidr.first, cidr.size.min(self.block_size)))
    }

    fn free_from(&self, number: u64) -> Option<u64> {
        let before = self.taken.range(..=number).next_back();
        let free = before.map_or(number, |(_, &last)| if last >= number { last + 1 } else { number });
        (free < self.count()).then_some(free)
    }

    fn take(&mut self, mut first: u64, mut last: u64) {
        // Neighbours join.
        for (start, end) in self.touching(first.saturating_sub(1), last.saturating_add(1)) {
            self.taken.remove(&start);
            self.taken_count -= end - start + 1;
            (first, last) = (first.min(start), last.max(end));
        }
        self.insert(first, last);
    }

    fn insert(&mut self, first: u64, last: u64) {
        self.taken.insert(first, last);
        self.taken_count += last - first + 1;
    }

    /// The taken ranges that have a number in common with this one.
    fn touching(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let before = self.taken.range(..first).next_back().filter(|(_, end)| **end >= first);
        before.into_iter().chain(self.taken.range(first..=last)).map(|(start, end)| (*start, *end)).collect()
    }

    /// The numbers of the blocks a range touches.
    fn numbers(&self, cidr: &Cidr) -> Result<(u64, u64), String> {
        if !self.cluster.overlaps(cidr) {
            return Err(format!("cidr {cidr} is out the range of cluster cidr {}", self.cluster));
        }
        let number = |address: u128| {
            let address = address.clamp(self.cluster.first, self.cluster.last());
            u64::try_from((address - self.cluster.first) >> self.host_bits()).unwrap_or(u64::MAX)
        };
        Ok((number(cidr.first), number(cidr.last())))
    }

    fn host_bits(&self) -> u8 {
        // A block of a /0 cut into /0s is everything; no shift is as wide as an address.
        (bits(self.cluster.is_v6) - self.block_size).min(127)
    }
}
