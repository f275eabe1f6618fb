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

impl Set {
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
        let both = |pair| {
            let (Some(a), Some(b)): (Option<&Entry>, Option<&Entry>) = pair else { return None };
            Some(Entry {
                element: a.element.clone(),
                member: a.member && b.member,
                children: deep(|| a.children.intersection(&b.children)),
            })
        };
        Set::of_sorted(zip(self.entries(), other.entries()).filter_map(both).collect())
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

    fn without(&self, other: &Set, left: &dyn Fn(&Entry, &Entry) -> Option<(bool, Set)>) -> Set {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let mut changed = false;
        let mut entries = Vec::new();
        for pair in zip(self.entries(), other.entries()) {
            match pair {
                (Some(a), Some(b)) => {
                    let Some((member, children)) = deep(|| left(a, b)) else {
                        changed = true;
                        continue;
                    };
                    changed |= member != a.member || !children.is_same(&a.children);
                    entries.push(Entry { element: a.element.clone(), member, children });
                }
                (Some(a), None) => entries.push(a.clone()),
                _ => {}
            }
        }
        // So that who asks can see that nothing has changed.
        if changed { Set::of_sorted(entries) } else { self.clone() }
    }
}
