//! Filters over sets: what a strategy resets is owned by nobody.

use super::{Entry, Set};
use crate::path::PathElement;

/// Which fields of a set remain.
#[derive(Clone, Debug)]
pub enum Filter {
    /// All but these and those below them.
    Exclude(Set),
    /// Only these.
    Include(Matcher),
}

impl Filter {
    pub fn apply(&self, set: &Set) -> Set {
        match self {
            Filter::Exclude(excluded) => set.recursive_difference(excluded),
            Filter::Include(matcher) => matcher.filter(set),
        }
    }
}

/// A set with wildcards.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// Matches every set.
    everything: bool,
    /// Elements and what is matched below them; `None` is any element, and comes first.
    members: Vec<(Option<PathElement>, Matcher)>,
}

impl Matcher {
    pub fn everything() -> Matcher {
        Matcher { everything: true, members: Vec::new() }
    }

    /// All paths that begin with these elements; `None` is any element.
    pub fn prefix(elements: impl DoubleEndedIterator<Item = Option<PathElement>>) -> Matcher {
        elements.rev().fold(Matcher::everything(), |below, element| Matcher {
            everything: false,
            members: vec![(element, below)],
        })
    }

    /// What either matches.
    pub fn or(mut self, other: Matcher) -> Matcher {
        if self.everything || other.everything {
            return Matcher::everything();
        }
        for (element, below) in other.members {
            match self.members.iter().position(|(own, _)| *own == element) {
                Some(at) => {
                    let own = std::mem::take(&mut self.members[at].1);
                    self.members[at].1 = own.or(below);
                }
                None => self.members.push((element, below)),
            }
        }
        // `None` is before `Some`.
        self.members.sort_by(|a, b| a.0.cmp(&b.0));
        self
    }

    fn filter(&self, set: &Set) -> Set {
        if self.everything {
            return set.clone();
        }
        let matched = |entry: &Entry| {
            let matches = |(own, _): &&(Option<PathElement>, Matcher)| {
                own.as_ref().is_none_or(|own| *own == entry.element)
            };
            let (_, below) = self.members.iter().find(matches)?;
            Some(Entry {
                element: entry.element.clone(),
                member: entry.member,
                // As deep as the matcher.
                children: below.filter(&entry.children),
            })
        };
        Set::of_sorted(set.entries().iter().filter_map(matched).collect())
    }
}
