//! Which node has which range. Ranges of nodes may overlap: nodes may choose for themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::cidr::Cidr;

#[derive(Default)]
pub struct Held {
    by_name: BTreeMap<String, Vec<Cidr>>,
    /// Family, first address, last address, node.
    by_first: BTreeSet<(bool, u128, u128, String)>,
    /// No range is wider than so many addresses: how far before an address one may begin that reaches it.
    widest: u128,
}

impl Held {
    pub fn of(&self, name: &str) -> &[Cidr] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// In place of what the node had.
    pub fn set(&mut self, name: &str, cidrs: Vec<Cidr>) {
        self.remove(name);
        for cidr in &cidrs {
            self.widest = self.widest.max(cidr.last() - cidr.first);
            self.by_first.insert((cidr.is_v6, cidr.first, cidr.last(), name.to_owned()));
        }
        self.by_name.insert(name.to_owned(), cidrs);
    }

    pub fn remove(&mut self, name: &str) -> Vec<Cidr> {
        let cidrs = self.by_name.remove(name).unwrap_or_default();
        for cidr in &cidrs {
            self.by_first.remove(&(cidr.is_v6, cidr.first, cidr.last(), name.to_owned()));
        }
        cidrs
    }

    /// The nodes with an address of this range.
    pub fn overlapping(&self, cidr: &Cidr) -> impl Iterator<Item = &str> {
        let (is_v6, first, last) = (cidr.is_v6, cidr.first, cidr.last());
        let from = (is_v6, first.saturating_sub(self.widest), 0, String::new());
        let begins_before = move |entry: &&(bool, u128, u128, String)| entry.0 == is_v6 && entry.1 <= last;
        let all = self.by_first.range(from..).take_while(begins_before);
        all.filter(move |entry| entry.2 >= first).map(|entry| entry.3.as_str())
    }
}
