//! The classes of the placed pods: where each is, by what labels it is found, and what terms about others it brings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Question;
use super::by_label::{Labelled, Selectors, must_have};
use crate::cluster::NodeIx;
use crate::pod::{Class, Held};
use crate::read::Labels;

#[derive(Default)]
pub struct Classes {
    all: BTreeMap<u64, ClassCount>,
    /// Their ids by their pods' labels.
    labelled: Labelled<u64>,
    /// The terms about others, and the classes that hold each.
    held: HashMap<Arc<Held>, BTreeSet<u64>>,
    held_by_label: Selectors<Arc<Held>>,
}

pub struct ClassCount {
    pub class: Arc<Class>,
    /// Live and terminating pods by node.
    pub on: BTreeMap<NodeIx, [u32; 2]>,
    /// The questions whose pods these are among.
    pub matched: Vec<usize>,
}

impl Classes {
    pub fn get_mut(&mut self, id: u64) -> Option<&mut ClassCount> {
        self.all.get_mut(&id)
    }

    /// A class is placed for the first time; the answer is whether terms came with it that nobody held.
    pub fn insert(&mut self, class: &Arc<Class>, matched: Vec<usize>) -> bool {
        self.all.insert(class.id, ClassCount { class: class.clone(), on: BTreeMap::new(), matched });
        self.labelled.add(&class.labels, class.id);
        let mut news = false;
        for held in &class.held {
            let classes = self.held.entry(held.clone()).or_default();
            if classes.is_empty() {
                self.held_by_label.add(must_have(&held.term.selector), held.clone());
                news = true;
            }
            classes.insert(class.id);
        }
        news
    }

    /// None of a class is placed any more; the answer is whether terms went with it.
    pub fn remove(&mut self, class: &Class) -> bool {
        self.all.remove(&class.id);
        self.labelled.remove(&class.labels, &class.id);
        let mut news = false;
        for held in &class.held {
            let Some(classes) = self.held.get_mut(held) else { continue };
            classes.remove(&class.id);
            if classes.is_empty() {
                self.held_by_label.remove(must_have(&held.term.selector), held);
                self.held.remove(held);
                news = true;
            }
        }
        news
    }

    /// The terms that mean pods with these labels, or may.
    pub fn held_about<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a Arc<Held>> {
        self.held_by_label.candidates(labels)
    }

    /// The classes a question may be about; the others it is not.
    pub fn candidates(&self, question: &Question) -> Vec<u64> {
        match question {
            Question::Holders(held) => {
                self.held.get(held).map(|classes| classes.iter().copied().collect()).unwrap_or_default()
            }
            _ => match question.must_have() {
                Some(pair) => self.labelled.having(&pair).to_vec(),
                None => self.all.keys().copied().collect(),
            },
        }
    }
}
