//! Labels and taints of the nodes as numbers: each text is kept once, and what pods ask for is compared as numbers.
//!
//! ```text
//! node ── labels ──> [(key, value)]                  selector of a pod ── once ──> the set of nodes it holds for
//!          └──> the nodes that have a pair, or a key
//!      ── taints ──> the number of a set of taints   tolerations ── each set judged once ──> [tolerated, not, ...]
//! ```
//! Words are counted by the nodes that use them and their numbers given again when none does, so that labels that come
//! and go take no more room than those that are there. What was compiled holds while [`Words::epoch`] stays the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use crate::cluster::NodeIx;
use crate::cluster::bits::{Bits, Nodes};
use crate::node::Node;
use crate::read::Labels;
use crate::taint::Taint;

/// The number of a text.
pub type Word = u32;
/// The number of a set of taints.
pub type TaintSet = u32;

#[derive(Default)]
pub struct Words {
    keys: Interned<str>,
    values: Interned<str>,
    taints: Interned<[Taint]>,
    nodes: Vec<Option<Coded>>,
    /// The nodes with a label, with a key, and with a name.
    with_pair: HashMap<(Word, Word), Nodes>,
    with_key: HashMap<Word, Nodes>,
    with_name: HashMap<Word, NodeIx>,
    with_taints: Vec<Nodes>,
    there: Bits,
    cordoned: Bits,
    /// Of each node; [`NONE`] while it is not there.
    taint_set: Vec<TaintSet>,
    epoch: u64,
}

/// A node in numbers.
struct Coded {
    name: Word,
    /// Keys and values, sorted.
    labels: Box<[(Word, Word)]>,
    taints: TaintSet,
}

const NONE: TaintSet = TaintSet::MAX;

impl Words {
    /// Larger after a label, a taint or a node came or went, or a node was closed or opened.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    pub fn key(&self, text: &str) -> Option<Word> {
        self.keys.number(text)
    }
    pub fn label_text(&self, node: NodeIx, key: &str) -> Option<&str> {
        Some(self.values.get(self.label(node, self.key(key)?)?))
    }
    /// The nodes with this label.
    pub fn having(&self, key: &str, value: &str) -> Bits {
        let pair = self.keys.number(key).zip(self.values.number(value));
        let nodes = pair.and_then(|pair| self.with_pair.get(&pair));
        nodes.map_or_else(|| Bits::none(self.width()), |nodes| nodes.bits(self.width()))
    }
    /// The nodes with this label, whatever its value.
    pub fn having_key(&self, key: &str) -> Bits {
        let nodes = self.keys.number(key).and_then(|key| self.with_key.get(&key));
        nodes.map_or_else(|| Bits::none(self.width()), |nodes| nodes.bits(self.width()))
    }
    /// The nodes with the same value of a key as this one.
    pub fn nodes_with_same_label(&self, node: NodeIx, key: &str) -> Option<&Nodes> {
        let key = self.key(key)?;
        self.with_pair.get(&(key, self.label(node, key)?))
    }
    pub fn named(&self, name: &str) -> Option<NodeIx> {
        self.with_name.get(&self.values.number(name)?).copied()
    }
    pub fn taints(&self, set: TaintSet) -> &[Taint] {
        self.taints.get(set)
    }
    pub fn with_taints(&self, set: TaintSet) -> &Nodes {
        &self.with_taints[set as usize]
    }
    /// One more than the largest number of a set of taints.
    pub fn taint_sets(&self) -> usize {
        self.taints.all.len()
    }
    /// One more than the largest index of a node.
    pub fn width(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes there are.
    pub fn there(&self) -> &Bits {
        &self.there
    }
    /// The value a node has for a key.
    #[inline]
    pub fn label(&self, node: NodeIx, key: Word) -> Option<Word> {
        let labels = &self.nodes[node as usize].as_ref()?.labels;
        labels.binary_search_by_key(&key, |(key, _)| *key).ok().map(|at| labels[at].1)
    }
    #[inline]
    pub fn taint_set(&self, node: NodeIx) -> Option<TaintSet> {
        Some(self.taint_set[node as usize]).filter(|set| *set != NONE)
    }
    pub fn cordoned(&self) -> &Bits {
        &self.cordoned
    }
    pub fn unschedulable(&self, node: NodeIx) -> bool {
        self.cordoned.has(node)
    }

    pub(super) fn grow(&mut self) {
        self.nodes.push(None);
        self.taint_set.push(NONE);
    }

    /// A node came, changed or went; the answer is whether its labels or taints are others.
    pub(super) fn set_node(&mut self, ix: NodeIx, node: Option<&Node>) -> bool {
        let was_cordoned = self.cordoned.has(ix);
        let cordoned = node.is_some_and(|node| node.unschedulable);
        match cordoned {
            true => self.cordoned.insert(ix),
            false => self.cordoned.remove(ix),
        }
        let new = node.map(|node| self.code(node));
        self.taint_set[ix as usize] = new.as_ref().map_or(NONE, |new| new.taints);
        // After the new one was coded: a word both have does not go and come.
        let old = std::mem::replace(&mut self.nodes[ix as usize], new);
        let new = self.nodes[ix as usize].as_ref();
        let same = match (&old, new) {
            (None, None) => true,
            (Some(old), Some(new)) => old.labels == new.labels && old.taints == new.taints,
            _ => false,
        };
        if let Some(old) = old {
            if !same {
                self.list(ix, &old, false);
            }
            self.let_go(&old);
        }
        if !same && let Some(new) = self.nodes[ix as usize].take() {
            self.list(ix, &new, true);
            self.nodes[ix as usize] = Some(new);
        }
        self.epoch += u64::from(!same || cordoned != was_cordoned);
        !same
    }

    /// The same labels, made of the texts that are kept.
    pub fn shared(&self, labels: &Labels) -> Labels {
        let text = |interned: &Interned<str>, text: &Arc<str>| match interned.number(text) {
            Some(number) => interned.all[number as usize].0.clone(),
            None => text.clone(),
        };
        labels.iter().map(|(key, value)| (text(&self.keys, key), text(&self.values, value))).collect()
    }

    /// Puts a node on the lists of its labels, or takes it off.
    fn list(&mut self, ix: NodeIx, node: &Coded, here: bool) {
        for pair in &node.labels {
            change(&mut self.with_pair, *pair, ix, here);
            change(&mut self.with_key, pair.0, ix, here);
        }
        self.with_taints.resize_with(self.taints.all.len(), Nodes::default);
        let tainted = &mut self.with_taints[node.taints as usize];
        if here {
            tainted.insert(ix);
            self.with_name.insert(node.name, ix);
            self.there.insert(ix);
        } else {
            tainted.remove(ix);
            self.with_name.remove(&node.name);
            self.there.remove(ix);
        }
    }

    fn code(&mut self, node: &Node) -> Coded {
        let words = node.labels.iter().map(|(key, value)| (self.keys.add(key), self.values.add(value)));
        let mut labels: Box<[(Word, Word)]> = words.collect();
        labels.sort_unstable();
        let taints: Arc<[Taint]> = Arc::from(&*node.taints);
        Coded { name: self.values.add(&node.name), labels, taints: self.taints.add(&taints) }
    }

    fn let_go(&mut self, node: &Coded) {
        for (key, value) in &node.labels {
            self.keys.remove(*key);
            self.values.remove(*value);
        }
        self.values.remove(node.name);
        self.taints.remove(node.taints);
    }

    /// How many keys, values and sets of taints are kept, and how many places there are for them.
    #[cfg(test)]
    pub fn sizes(&self) -> ([usize; 3], [usize; 3]) {
        let used = [self.keys.numbers.len(), self.values.numbers.len(), self.taints.numbers.len()];
        (used, [self.keys.all.len(), self.values.all.len(), self.taints.all.len()])
    }
}

fn change<K: Eq + Hash>(lists: &mut HashMap<K, Nodes>, key: K, node: NodeIx, here: bool) {
    let mut entry = match lists.entry(key) {
        Entry::Occupied(entry) => entry,
        Entry::Vacant(entry) => entry.insert_entry(Nodes::default()),
    };
    if here {
        entry.get_mut().insert(node);
    } else {
        entry.get_mut().remove(node);
        if entry.get().is_empty() {
            entry.remove();
        }
    }
}

/// Each thing once, with how many use it.
struct Interned<T: ?Sized> {
    numbers: HashMap<Arc<T>, u32>,
    all: Vec<(Arc<T>, u32)>,
    free: Vec<u32>,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Interned { numbers: HashMap::new(), all: Vec::new(), free: Vec::new() }
    }
}

impl<T: ?Sized + Hash + Eq> Interned<T> {
    fn number(&self, thing: &T) -> Option<u32> {
        self.numbers.get(thing).copied()
    }
    fn get(&self, number: u32) -> &T {
        &self.all[number as usize].0
    }

    fn add(&mut self, thing: &Arc<T>) -> u32 {
        if let Some(number) = self.numbers.get(thing) {
            self.all[*number as usize].1 += 1;
            return *number;
        }
        let entry = (thing.clone(), 1);
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = entry;
                number
            }
            None => {
                self.all.push(entry);
                (self.all.len() - 1) as u32
            }
        };
        self.numbers.insert(thing.clone(), number);
        number
    }

    fn remove(&mut self, number: u32) {
        let (thing, uses) = &mut self.all[number as usize];
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(thing);
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests;
