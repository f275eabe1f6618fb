//! Node selectors in numbers: compiled once for the words there are, then compared without looking at any text.

use object::selector::{LabelOperator, LabelRequirement};

use super::{Preferred, Required, Term, Terms};
use crate::cluster::NodeIx;
use crate::cluster::words::{Word, Words};

/// A [`Required`], compiled.
#[derive(Debug, Default)]
pub struct Chooser {
    labels: Vec<(Word, Word)>,
    /// It asks for a label no node has.
    never: bool,
    affinity: Option<CodedTerms>,
}

/// [`Terms`], compiled.
#[derive(Debug, Default)]
pub struct CodedTerms(Vec<CodedTerm>);

/// [`Preferred`], compiled.
#[derive(Debug, Default)]
pub struct CodedPreferred(Vec<(i64, CodedTerm)>);

/// What holds for every node is left out; a term that holds for none is not kept.
#[derive(Debug, Default)]
struct CodedTerm {
    labels: Vec<Coded>,
    /// Names, and whether the node must have it or must not.
    names: Vec<(Word, bool)>,
}

#[derive(Debug)]
enum Coded {
    In(Word, Vec<Word>),
    NotIn(Word, Vec<Word>),
    Exists(Word),
    Absent(Word),
    /// Numbers are compared as such: the text is looked at.
    Compare(Word, LabelRequirement),
}

/// What a requirement comes to, given the words there are.
enum Known {
    Always,
    Never,
    Depends(Coded),
}

impl Required {
    pub fn compile(&self, words: &Words) -> Chooser {
        let code = |(key, value): &(String, String)| Some((words.key(key)?, words.value(value)?));
        let labels: Option<Vec<_>> = self.labels.iter().map(code).collect();
        Chooser {
            never: labels.is_none(),
            labels: labels.unwrap_or_default(),
            affinity: self.affinity.as_ref().map(|terms| terms.compile(words)),
        }
    }
}

impl Chooser {
    #[inline]
    pub fn holds(&self, words: &Words, node: NodeIx) -> bool {
        !self.never
            && self.labels.iter().all(|(key, value)| words.label(node, *key) == Some(*value))
            && self.affinity.as_ref().is_none_or(|terms| terms.holds(words, node))
    }
}

impl Terms {
    pub fn compile(&self, words: &Words) -> CodedTerms {
        CodedTerms(self.0.iter().filter_map(|term| term.compile(words)).collect())
    }
}

impl CodedTerms {
    pub fn holds(&self, words: &Words, node: NodeIx) -> bool {
        self.0.iter().any(|term| term.holds(words, node))
    }
}

impl Preferred {
    pub fn compile(&self, words: &Words) -> CodedPreferred {
        let terms = self.0.iter().filter_map(|(weight, term)| Some((*weight, term.compile(words)?)));
        CodedPreferred(terms.collect())
    }
}

impl CodedPreferred {
    #[inline]
    pub fn score(&self, words: &Words, node: NodeIx) -> i64 {
        self.0.iter().filter(|(_, term)| term.holds(words, node)).map(|(weight, _)| weight).sum()
    }
}

impl Term {
    fn compile(&self, words: &Words) -> Option<CodedTerm> {
        if self.broken {
            return None;
        }
        let mut term = CodedTerm::default();
        for requirement in &self.labels {
            match code(requirement, words) {
                Known::Always => {}
                Known::Never => return None,
                Known::Depends(coded) => term.labels.push(coded),
            }
        }
        for field in &self.fields {
            match words.value(&field.name) {
                Some(name) => term.names.push((name, field.equal)),
                None if field.equal => return None,
                None => {}
            }
        }
        Some(term)
    }
}

fn code(requirement: &LabelRequirement, words: &Words) -> Known {
    use LabelOperator::*;
    let values = || requirement.values.iter().filter_map(|value| words.value(value)).collect::<Vec<_>>();
    let Some(key) = words.key(&requirement.key) else {
        return if requirement.matches(None) { Known::Always } else { Known::Never };
    };
    match requirement.operator {
        In | Equals | DoubleEquals => match values() {
            none if none.is_empty() => Known::Never,
            some => Known::Depends(Coded::In(key, some)),
        },
        NotIn | NotEquals => match values() {
            none if none.is_empty() => Known::Always,
            some => Known::Depends(Coded::NotIn(key, some)),
        },
        Exists => Known::Depends(Coded::Exists(key)),
        DoesNotExist => Known::Depends(Coded::Absent(key)),
        GreaterThan | LessThan => Known::Depends(Coded::Compare(key, requirement.clone())),
    }
}

impl CodedTerm {
    fn holds(&self, words: &Words, node: NodeIx) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(words, node))
            && self.names.iter().all(|(name, equal)| (words.name(node) == Some(*name)) == *equal)
    }
}

impl Coded {
    fn holds(&self, words: &Words, node: NodeIx) -> bool {
        match self {
            Coded::In(key, values) => words.label(node, *key).is_some_and(|value| values.contains(&value)),
            Coded::NotIn(key, values) => {
                !words.label(node, *key).is_some_and(|value| values.contains(&value))
            }
            Coded::Exists(key) => words.label(node, *key).is_some(),
            Coded::Absent(key) => words.label(node, *key).is_none(),
            Coded::Compare(key, requirement) => {
                requirement.matches(words.label(node, *key).map(|value| words.text(value)))
            }
        }
    }
}
