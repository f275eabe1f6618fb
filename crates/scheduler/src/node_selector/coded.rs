//! Node selectors as sets of nodes: made once from the labels there are, then a bit is looked at for each node.

use object::selector::{LabelOperator, LabelRequirement, NodeSelectorTerm};

use super::{Preferred, Required, Terms};
use crate::cluster::NodeIx;
use crate::cluster::bits::Bits;
use crate::cluster::words::Words;

/// The nodes a [`Required`] or [`Terms`] hold for; `None` is all.
#[derive(Debug, Default)]
pub struct Chosen(Option<Bits>);

/// The nodes each of the [`Preferred`] terms holds for, with its weight.
#[derive(Debug, Default)]
pub struct Weighed(Vec<(i64, Chosen)>);

impl Chosen {
    #[inline]
    pub fn has(&self, node: NodeIx) -> bool {
        self.0.as_ref().is_none_or(|bits| bits.has(node))
    }

    /// Leaves only those of them that are chosen.
    pub fn keep(&self, nodes: &mut Bits) {
        if let Some(chosen) = &self.0 {
            nodes.intersect(chosen);
        }
    }

    fn and(&mut self, bits: Bits) {
        match &mut self.0 {
            Some(chosen) => chosen.intersect(&bits),
            None => self.0 = Some(bits),
        }
    }
}

impl Required {
    pub fn choose(&self, words: &Words) -> Chosen {
        let mut chosen = Chosen::default();
        for (key, value) in &self.labels {
            chosen.and(words.having(key, value));
        }
        if let Some(terms) = &self.affinity {
            chosen.and(terms.any(words));
        }
        chosen
    }
}

impl Terms {
    pub fn choose(&self, words: &Words) -> Chosen {
        Chosen(Some(self.any(words)))
    }

    fn any(&self, words: &Words) -> Bits {
        let mut any = Bits::none(words.width());
        for term in &self.0.0 {
            match choose(term, words).0 {
                Some(bits) => any.unite(&bits),
                // A term that holds for all nodes; only live ones are ever asked about.
                None => {
                    any = Bits::none(words.width());
                    any.invert(words.width());
                }
            }
        }
        any
    }
}

impl Preferred {
    pub fn choose(&self, words: &Words) -> Weighed {
        Weighed(self.0.iter().map(|(weight, term)| (*weight, choose(term, words))).collect())
    }
}

impl Weighed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    #[inline]
    pub fn score(&self, node: NodeIx) -> i64 {
        self.0.iter().filter(|(_, chosen)| chosen.has(node)).map(|(weight, _)| weight).sum()
    }
}

fn choose(term: &NodeSelectorTerm, words: &Words) -> Chosen {
    if term.broken {
        return Chosen(Some(Bits::none(words.width())));
    }
    let mut chosen = Chosen::default();
    for requirement in &term.labels {
        chosen.and(nodes_of(requirement, words));
    }
    for wanted in &term.names {
        let mut named = Bits::none(words.width());
        words.named(&wanted.name).into_iter().for_each(|node| named.insert(node));
        if !wanted.equal {
            named.invert(words.width());
        }
        chosen.and(named);
    }
    chosen
}

fn nodes_of(requirement: &LabelRequirement, words: &Words) -> Bits {
    use LabelOperator::*;
    let LabelRequirement { key, operator, values } = requirement;
    let any_value = || {
        let mut any = Bits::none(words.width());
        values.iter().for_each(|value| any.unite(&words.having(key, value)));
        any
    };
    let not = |mut bits: Bits| {
        bits.invert(words.width());
        bits
    };
    match operator {
        In | Equals | DoubleEquals => any_value(),
        NotIn | NotEquals => not(any_value()),
        Exists => words.having_key(key),
        DoesNotExist => not(words.having_key(key)),
        // Numbers are compared as such: the texts are looked at.
        GreaterThan | LessThan => {
            let there = words.having_key(key);
            let mut bits = Bits::none(words.width());
            for node in (0..words.width() as NodeIx).filter(|node| there.has(*node)) {
                if requirement.matches(words.label_text(node, key)) {
                    bits.insert(node);
                }
            }
            bits
        }
    }
}
