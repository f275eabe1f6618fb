//! Things found by a label, where what is looked for must have it: selectors by what they select, and the other way round.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use object::selector::{LabelOperator, LabelSelector};

use crate::read::Labels;

/// A key and a value.
type Pair = (Arc<str>, Arc<str>);

/// Selectors under the label whatever they select must have; those without such a label stand apart.
pub struct Selectors<T> {
    by_label: HashMap<Pair, Vec<T>>,
    others: Vec<T>,
}

/// Things that have labels, under each of them.
pub struct Labelled<T> {
    by_label: HashMap<Pair, Vec<T>>,
}

/// The label that everything selected must have, if there is one: the first that is asked for by one value.
pub fn must_have(selector: &LabelSelector) -> Option<Pair> {
    let exact = |operator: LabelOperator| {
        matches!(operator, LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals)
    };
    selector.requirements().iter().find_map(|requirement| match &requirement.values[..] {
        [only] if exact(requirement.operator) => {
            Some((requirement.key.as_str().into(), only.as_str().into()))
        }
        _ => None,
    })
}

impl<T> Default for Selectors<T> {
    fn default() -> Self {
        Selectors { by_label: HashMap::new(), others: Vec::new() }
    }
}

impl<T> Default for Labelled<T> {
    fn default() -> Self {
        Labelled { by_label: HashMap::new() }
    }
}

impl<T: Clone + PartialEq> Selectors<T> {
    pub fn add(&mut self, must_have: Option<Pair>, thing: T) {
        match must_have {
            Some(pair) => self.by_label.entry(pair).or_default().push(thing),
            None => self.others.push(thing),
        }
    }

    pub fn remove(&mut self, must_have: Option<Pair>, thing: &T) {
        match must_have {
            Some(pair) => remove(&mut self.by_label, &pair, thing),
            None => self.others.retain(|other| other != thing),
        }
    }

    /// Those that may select something with these labels; the others do not.
    pub fn candidates<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a T> {
        let having = labels.iter().filter_map(|pair| self.by_label.get(pair)).flatten();
        having.chain(&self.others)
    }
}

impl<T: Clone + PartialEq> Labelled<T> {
    pub fn add(&mut self, labels: &Labels, thing: T) {
        for pair in labels.iter() {
            self.by_label.entry(pair.clone()).or_default().push(thing.clone());
        }
    }

    pub fn remove(&mut self, labels: &Labels, thing: &T) {
        labels.iter().for_each(|pair| remove(&mut self.by_label, pair, thing));
    }

    pub fn having(&self, pair: &Pair) -> &[T] {
        self.by_label.get(pair).map(Vec::as_slice).unwrap_or_default()
    }
}

fn remove<K: Eq + Hash, T: PartialEq>(map: &mut HashMap<K, Vec<T>>, key: &K, thing: &T) {
    if let Some(list) = map.get_mut(key) {
        if let Some(at) = list.iter().position(|other| other == thing) {
            list.swap_remove(at);
        }
        if list.is_empty() {
            map.remove(key);
        }
    }
}
