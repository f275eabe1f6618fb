//! Union, intersection and the two differences.

use std::cmp::Ordering;

use object::deep;

use super::{Entry, Set};

/// Walks two sorted lists: entries of either, or of both with the same element.
fn zip<'a>(a: &'a [Entry], b: &'a [Entry]) -> impl Iterator<Item = (Option<&'a Entry>, Option<&'a Entry>)> {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        let pair = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => match x.element.cmp(&y.element) {
                Ordering::Less => (Some(x), None),
                Ordering::Greater => (None, Some(y)),
                Ordering::Equal => (Some(x), Some(y)),
            },
            (None, None) => return None,
            rest => rest,
        };
        i += usize::from(pair.0.is_some());
        j += usize::from(pair.1.is_some());
        Some(pair)
    })
}

/// What is left of an entry that the other set has, too: whether it is a member, and what is below; `None` for nothing.
type Left = dyn Fn(&Entry, &Entry) -> Option<(bool, Set)>;

/// Beyond this ratio of lengths each of the few is looked for among the many.
const FEW: usize = 8;

impl Set {
    /// What is in any of them.
    pub(crate) fn union_all(mut sets: Vec<Set>) -> Set {
        // In pairs, so that many small ones do not each copy what is there before them.
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|pair| pair[1..].iter().fold(pair[0].clone(), |a, b| a.union(b)))
                .collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// What is in either.
    pub fn union(&self, other: &Set) -> Set {
        if other.is_empty() || self.is_same(other) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let both = |pair| match pair {
            (Some(a), Some(b)) => {
                let (a, b): (&Entry, &Entry) = (a, b);
                Some(Entry {
                    // Equal elements may be an integer and a float; upstream keeps the second's as a member.
                    element: if b.member { b.element.clone() } else { a.element.clone() },
                    member: a.member || b.member,
                    children: deep(|| a.children.union(&b.children)),
                })
            }
            (one, other) => one.or(other).cloned(),
        };
        Set::of_sorted(zip(self.entries(), other.entries()).filter_map(both).collect())
    }

    /// What is in both.
    pub fn intersection(&self, other: &Set) -> Set {
        if self.is_empty() || other.is_empty() {
            return Set::new();
        }
        let both = |a: &Entry, b: &Entry| Entry {
            element: a.element.clone(),
            member: a.member && b.member,
            children: deep(|| a.children.intersection(&b.children)),
        };
        let (own, others) = (self.entries(), other.entries());
        let entries = if own.len() * FEW < others.len() {
            own.iter().filter_map(|a| Some(both(a, other.find(&a.element)?))).collect()
        } else if others.len() * FEW < own.len() {
            others.iter().filter_map(|b| Some(both(self.find(&b.element)?, b))).collect()
        } else {
            zip(own, others).filter_map(|pair| Some(both(pair.0?, pair.1?))).collect()
        };
        Set::of_sorted(entries)
    }

    /// What is not in the other: a member there takes away itself, not what is below it.
    pub fn difference(&self, other: &Set) -> Set {
        self.without(other, &|a, b| Some((a.member && !b.member, a.children.difference(&b.children))))
    }

    /// As [`Set::difference`], but a member of the other takes away all that is below it, too.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.without(other, &|a, b| {
            (!b.member).then(|| (a.member, a.children.recursive_difference(&b.children)))
        })
    }

    fn without(&self, other: &Set, left: &Left) -> Set {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let (own, others) = (self.entries(), other.entries());
        let few = own.len() * FEW < others.len();
        if others.len() * FEW < own.len() && others.iter().all(|b| self.find(&b.element).is_none()) {
            return self.clone();
        }
        let mut changed = false;
        let mut entries = Vec::new();
        let mut add = |a: &Entry, b: Option<&Entry>| {
            let Some(b) = b else { return entries.push(a.clone()) };
            let Some((member, children)) = deep(|| left(a, b)) else {
                changed = true;
                return;
            };
            changed |= member != a.member || !children.is_same(&a.children);
            entries.push(Entry { element: a.element.clone(), member, children });
        };
        if few {
            own.iter().for_each(|a| add(a, other.find(&a.element)));
        } else {
            zip(own, others).filter_map(|(a, b)| Some((a?, b))).for_each(|(a, b)| add(a, b));
        }
        // So that who asks can see that nothing has changed.
        if changed { Set::of_sorted(entries) } else { self.clone() }
    }
}
