//! How many placed pods a selector matches, on each node and in each domain of a topology, kept up to date.
//!
//! ```text
//! Question (which pods)  ──>  per node: [2, 0, 1, ...]  ──>  per domain of "zone": [3, 0]   over all nodes, or over those
//!                             changed with every pod          the same                      a spread constraint counts
//! ```
//! A question is asked for the first time when a pod with such a term is evaluated; its counts are then made from the
//! classes of the placed pods, and changed with them from there on. The least recently asked are forgotten.

mod by_label;
mod classes;
mod domains;
mod question;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::NodeIx;
use crate::cluster::words::Words;
use crate::node::Node;
use crate::pod::{Class, Held};
use crate::read::Labels;
use by_label::Selectors;
use classes::Classes;
pub use domains::{Domains, Places};
use domains::{PlaceSet, Topology};
use question::Keyed;
pub use question::Question;
pub use tally::Tally;

/// No domain: the node has no such label.
pub const NOWHERE: u32 = u32::MAX;
/// Counts by node kept in all, four bytes each at most: 32 MiB.
const MAX_CELLS: usize = 8 << 20;
/// So many sets of places one question is kept for; pods that differ in anything ask over places of their own.
const MAX_DOMAINS: usize = 64;
const MIN_QUESTIONS: usize = 64;
/// So many sets of places are kept while no node changes, a byte for each node.
const MAX_PLACE_SETS: usize = 256;
/// With more topology keys than this, all are forgotten and heard of anew; few clusters have ten.
const MAX_TOPOLOGIES: usize = 128;

/// In place of domains, for what is only read by node.
const BY_NODE: usize = usize::MAX;

/// A counter that was asked for; it can be read until the next question is asked.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    question: usize,
    serial: u64,
    domains: usize,
}

#[derive(Default)]
pub struct Counters {
    topologies: Vec<Topology>,
    /// Labels and taints of the nodes, for domains and places that are asked for later too.
    words: Words,
    questions: Vec<Option<Asked>>,
    free: Vec<usize>,
    by_question: HashMap<Arc<Keyed>, usize>,
    /// Questions by a label the pods they are about must have; not those about holders.
    by_label: Selectors<usize>,
    classes: Classes,
    /// Places as they are in this epoch.
    place_sets: HashMap<(usize, Option<Places>), Arc<PlaceSet>>,
    namespaces: HashMap<Arc<str>, Labels>,
    no_labels: Labels,
    /// Grows when a node's labels or taints change: counts by domain are then made anew when read.
    epoch: u64,
    /// Grows when the terms of placed pods do, or a namespace's labels.
    terms_version: u64,
    tick: u64,
    last_serial: u64,
}

struct Asked {
    keyed: Arc<Keyed>,
    serial: u64,
    used: u64,
    per_node: Tally,
    domains: Vec<Domains>,
}

impl Counters {
    /// A topology key's number, made when first heard of.
    pub fn topology(&mut self, key: &str) -> usize {
        if let Some(at) = self.topologies.iter().position(|t| t.key == key) {
            return at;
        }
        let mut topology = Topology { key: key.to_owned(), domain: Vec::new(), values: HashMap::new() };
        for ix in 0..self.words.width() as NodeIx {
            let domain = topology.domain_of(&self.words, ix);
            topology.domain.push(domain);
        }
        self.topologies.push(topology);
        self.topologies.len() - 1
    }

    /// The domain of each node, [`NOWHERE`] without the label.
    pub fn domain(&self, topology: usize) -> &[u32] {
        &self.topologies[topology].domain
    }
    pub fn domains_of(&self, topology: usize) -> usize {
        self.topologies[topology].values.len()
    }
    pub fn is_topology(&self, topology: usize, key: &str) -> bool {
        self.topologies[topology].key == key
    }
    #[cfg(test)]
    pub fn topologies(&self) -> usize {
        self.topologies.len()
    }
    pub fn words(&self) -> &Words {
        &self.words
    }
    pub fn terms_version(&self) -> u64 {
        self.terms_version
    }
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    pub fn namespace_labels(&self, namespace: &str) -> &Labels {
        self.namespaces.get(namespace).unwrap_or(&self.no_labels)
    }

    /// The terms of placed pods about others that mean this class.
    pub fn held_about(&self, class: &Class) -> Vec<Arc<Held>> {
        let labels = self.namespace_labels(&class.namespace);
        let means = |held: &&Arc<Held>| held.term.matches(&class.namespace, labels, &class.labels);
        self.classes.held_about(&class.labels).filter(means).cloned().collect()
    }

    /// A new decision begins: what is asked from here on is not forgotten before it ends.
    pub fn begin(&mut self) {
        self.tick += 1;
    }

    /// Between decisions: pods may name as many keys as they like, so those once heard of must not stay for ever.
    /// Questions hold their numbers and go with them; whoever asked finds out when renewing.
    pub(super) fn compact(&mut self) {
        if self.topologies.len() > MAX_TOPOLOGIES {
            (0..self.questions.len()).for_each(|at| self.forget(at));
            self.topologies.clear();
            self.place_sets.clear();
        }
    }

    /// The counter of a question over a topology (and the places that count), made or brought up to date.
    pub fn ask(&mut self, question: Question, topology: usize, places: Option<Places>) -> Handle {
        let at = self.asked_for(question);
        let asked = self.questions[at].as_mut().expect("just asked for");
        let found = |d: &Domains| d.topology == topology && d.places == places;
        let domains = match asked.domains.iter().position(found) {
            Some(domains) => domains,
            None => {
                // Most questions are asked over one topology only.
                asked.domains.reserve_exact(1);
                asked.domains.push(Domains::new(topology, places));
                asked.domains.len() - 1
            }
        };
        let handle = Handle { question: at, serial: asked.serial, domains };
        self.renew(handle);
        handle
    }

    /// The same where only the counts by node will be read.
    pub fn ask_by_node(&mut self, question: Question) -> Handle {
        let at = self.asked_for(question);
        let asked = self.questions[at].as_ref().expect("just asked for");
        let handle = Handle { question: at, serial: asked.serial, domains: BY_NODE };
        self.renew(handle);
        handle
    }

    fn asked_for(&mut self, question: Question) -> usize {
        let keyed = Keyed::from(question);
        let Some(at) = self.by_question.get(&keyed).copied() else { return self.add_question(keyed) };
        let asked = self.questions[at].as_mut().expect("listed questions are there");
        // One that many different pods ask over places of their own forgets these now and then.
        if asked.domains.len() >= MAX_DOMAINS && asked.used != self.tick {
            asked.domains.clear();
            self.last_serial += 1;
            asked.serial = self.last_serial;
        }
        at
    }

    /// Brings a counter asked for earlier up to date; `false` when it was forgotten.
    pub fn renew(&mut self, handle: Handle) -> bool {
        let Some(asked) = self.questions[handle.question].as_mut().filter(|a| a.serial == handle.serial)
        else {
            return false;
        };
        asked.used = self.tick;
        let Asked { per_node, domains, .. } = asked;
        let Some(domains) = domains.get_mut(handle.domains) else { return true };
        if domains.epoch == self.epoch {
            return true;
        }
        let key = (domains.topology, domains.places.clone());
        let set = match self.place_sets.get(&key) {
            Some(set) => set.clone(),
            None => {
                if self.place_sets.len() >= MAX_PLACE_SETS {
                    self.place_sets.clear();
                }
                let set = PlaceSet::new(key.0, key.1.as_ref(), &self.topologies, &self.words);
                let set = Arc::new(set);
                self.place_sets.insert(key, set.clone());
                set
            }
        };
        domains.rebuild(per_node, &self.topologies[domains.topology], &self.words, set);
        domains.epoch = self.epoch;
        true
    }

    pub fn read(&self, handle: Handle) -> &Domains {
        &self.asked(handle).domains[handle.domains]
    }
    pub fn per_node(&self, handle: Handle) -> &Tally {
        &self.asked(handle).per_node
    }
    fn asked(&self, handle: Handle) -> &Asked {
        self.questions[handle.question].as_ref().expect("read in the decision that renewed it")
    }

    pub(super) fn grow(&mut self) {
        self.words.grow();
        for topology in &mut self.topologies {
            topology.domain.push(NOWHERE);
        }
        self.next_epoch();
    }

    pub(super) fn set_node(&mut self, ix: NodeIx, node: Option<&Node>) {
        if !self.words.set_node(ix, node) {
            return;
        }
        let words = &self.words;
        for topology in &mut self.topologies {
            topology.domain[ix as usize] = topology.domain_of(words, ix);
            // Values of nodes long gone are let go when they outnumber the others.
            if topology.values.len() > 2 * words.width() + 64 {
                topology.values.clear();
                for ix in 0..words.width() as NodeIx {
                    topology.domain[ix as usize] = topology.domain_of(words, ix);
                }
            }
        }
        self.next_epoch();
    }

    fn next_epoch(&mut self) {
        self.epoch += 1;
        self.place_sets.clear();
    }

    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let old = self.namespaces.get(name);
        if old == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.into(), labels),
            None => self.namespaces.remove(name),
        };
        self.terms_version += 1;
        // Only questions that choose namespaces by label can change their answer; they are asked anew.
        let chooses =
            |at: &usize| self.questions[*at].as_ref().is_some_and(|a| a.keyed.question.chooses_namespaces());
        let chosen: Vec<usize> = (0..self.questions.len()).filter(chooses).collect();
        chosen.into_iter().for_each(|at| self.forget(at));
    }

    pub(super) fn add_pod(&mut self, node: NodeIx, class: &Arc<Class>, deleting: bool, sign: i64) {
        if self.classes.get_mut(class.id).is_none() {
            let matched = self.matching(class);
            self.terms_version += u64::from(self.classes.insert(class, matched));
        }
        let count = self.classes.get_mut(class.id).expect("inserted above");
        let cell = count.on.entry(node).or_default();
        cell[usize::from(deleting)] = cell[usize::from(deleting)].saturating_add_signed(sign as i32);
        if *cell == [0, 0] {
            count.on.remove(&node);
        }
        for at in &count.matched {
            let asked = self.questions[*at].as_mut().expect("forgotten questions leave the classes");
            if deleting && matches!(asked.keyed.question, Question::Spread { .. }) {
                continue;
            }
            asked.per_node.add(node, sign);
            // What is out of date is made anew when it is read.
            for domains in asked.domains.iter_mut().filter(|domains| domains.epoch == self.epoch) {
                domains.add(node, sign, &self.topologies[domains.topology], &self.words);
            }
        }
        if count.on.is_empty() {
            self.terms_version += u64::from(self.classes.remove(class));
        }
    }

    /// The questions whose pods this class' pods are among.
    fn matching(&self, class: &Class) -> Vec<usize> {
        let labels = self.namespace_labels(&class.namespace);
        let mut matched: Vec<usize> = self.by_label.candidates(&class.labels).copied().collect();
        matched.retain(|at| {
            let asked = self.questions[*at].as_ref().expect("listed questions are there");
            asked.keyed.question.about(class, labels)
        });
        let holders = class.held.iter().map(|held| Keyed::from(Question::Holders(held.clone())));
        matched.extend(holders.filter_map(|keyed| self.by_question.get(&keyed).copied()));
        // A pod may hold a term twice.
        matched.sort_unstable();
        matched.dedup();
        matched
    }

    fn add_question(&mut self, keyed: Keyed) -> usize {
        self.make_room();
        let question = &keyed.question;
        let mut per_node = Tally::new(self.words.width());
        let live_only = matches!(question, Question::Spread { .. });
        let at = self.free.pop().unwrap_or(self.questions.len());
        for id in self.classes.candidates(question) {
            let Some(count) = self.classes.get_mut(id) else { continue };
            let labels = self.namespaces.get(&count.class.namespace).unwrap_or(&self.no_labels);
            if !question.about(&count.class, labels) {
                continue;
            }
            count.matched.push(at);
            for (node, [live, deleting]) in &count.on {
                let pods = live + if live_only { 0 } else { *deleting };
                if pods > 0 {
                    per_node.add(*node, i64::from(pods));
                }
            }
        }
        if !matches!(question, Question::Holders(_)) {
            self.by_label.add(question.must_have(), at);
        }
        self.last_serial += 1;
        let keyed = Arc::new(keyed);
        self.by_question.insert(keyed.clone(), at);
        let (serial, used) = (self.last_serial, self.tick);
        let asked = Asked { keyed, serial, used, per_node, domains: Vec::new() };
        match self.questions.get_mut(at) {
            Some(slot) => *slot = Some(asked),
            None => self.questions.push(Some(asked)),
        }
        at
    }

    fn make_room(&mut self) {
        let room = (MAX_CELLS / self.words.width().max(1)).max(MIN_QUESTIONS);
        if self.by_question.len() < room {
            return;
        }
        // A quarter at once, so that the search is paid for by many questions.
        let mut by_use: Vec<(u64, usize)> = self
            .questions
            .iter()
            .enumerate()
            .filter_map(|(at, asked)| asked.as_ref().map(|a| (a.used, at)))
            .filter(|(used, _)| *used != self.tick)
            .collect();
        by_use.sort_unstable();
        by_use.truncate(room.div_ceil(4));
        let gone: Vec<usize> = by_use.into_iter().map(|(_, at)| at).collect();
        gone.into_iter().for_each(|at| self.forget(at));
    }

    fn forget(&mut self, at: usize) {
        let Some(asked) = self.questions[at].take() else { return };
        self.by_question.remove(&asked.keyed);
        if !matches!(asked.keyed.question, Question::Holders(_)) {
            self.by_label.remove(asked.keyed.question.must_have(), &at);
        }
        for id in self.classes.candidates(&asked.keyed.question) {
            if let Some(count) = self.classes.get_mut(id) {
                count.matched.retain(|other| *other != at);
            }
        }
        self.free.push(at);
    }
}
