//! Sets of fields: a trie of path elements, each level sorted.
//!
//! A set says of every path whether it is a *member*. That a field is a member says nothing about those above or below it:
//! who owns `.spec.replicas` need not own `.spec`. Subsets are shared, so that what an operation leaves as it is costs nothing.

mod algebra;
mod filter;
mod json;
mod text;

use std::sync::Arc;

use object::deep;

use crate::path::{PathElement, path_text};

pub use filter::{Filter, Matcher};
pub use json::FieldsError;

/// A set of fields.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Sorted by element, and each either a member or with members below; `None` is the empty set.
    entries: Option<Arc<Vec<Entry>>>,
}

/// One element of a set: whether it is a member, and what is below it.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub element: PathElement,
    pub member: bool,
    pub children: Set,
}

impl Entry {
    fn is_vain(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

static NOTHING: Set = Set::EMPTY;

impl Set {
    pub const EMPTY: Set = Set { entries: None };

    pub fn new() -> Set {
        Set::default()
    }

    /// Of paths, such as `[["spec"], ["metadata", "name"]]`: each is a member.
    pub fn of_fields(paths: &[&[&str]]) -> Set {
        let mut set = Set::new();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Of entries that are sorted, each element once; those without members are left out.
    pub(crate) fn of_sorted(mut entries: Vec<Entry>) -> Set {
        entries.retain(|entry| !entry.is_vain());
        debug_assert!(entries.is_sorted_by(|a, b| a.element < b.element));
        Set { entries: (!entries.is_empty()).then(|| Arc::new(entries)) }
    }

    pub fn entries(&self) -> &[Entry] {
        self.entries.as_ref().map_or(&[], |entries| entries)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_none()
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        let below = |entry: &Entry| usize::from(entry.member) + deep(|| entry.children.len());
        self.entries().iter().map(below).sum()
    }

    /// Whether the two are one and the same in memory.
    pub fn is_same(&self, other: &Set) -> bool {
        match (&self.entries, &other.entries) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    pub fn find(&self, element: &PathElement) -> Option<&Entry> {
        let entries = self.entries();
        entries.binary_search_by(|entry| entry.element.cmp(element)).ok().map(|at| &entries[at])
    }

    /// As [`Set::find`], of a field.
    pub fn find_field(&self, name: &str) -> Option<&Entry> {
        use std::cmp::Ordering;
        let entries = self.entries();
        let order = |entry: &Entry| match &entry.element {
            PathElement::Field(own) => own.as_bytes().cmp(name.as_bytes()),
            _ => Ordering::Greater,
        };
        entries.binary_search_by(order).ok().map(|at| &entries[at])
    }

    /// Whether the path is a member; nobody owns the object as a whole.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, before)) = path.split_last() else { return false };
        let parent = before.iter().try_fold(self, |set, element| Some(&set.find(element)?.children));
        parent.and_then(|set| set.find(last)).is_some_and(|entry| entry.member)
    }

    /// What is below an element.
    pub fn below(&self, element: &PathElement) -> &Set {
        self.find(element).map_or(&NOTHING, |entry| &entry.children)
    }

    /// Makes the path a member, not those above it.
    pub fn insert(&mut self, path: &[PathElement]) {
        let mut set = self;
        for (i, element) in path.iter().enumerate() {
            let entries = Arc::make_mut(set.entries.get_or_insert_default());
            let at = match entries.binary_search_by(|entry| entry.element.cmp(element)) {
                Ok(at) => at,
                Err(at) => {
                    let entry = Entry { element: element.clone(), member: false, children: Set::new() };
                    entries.insert(at, entry);
                    at
                }
            };
            entries[at].member |= i + 1 == path.len();
            set = &mut entries[at].children;
        }
    }

    /// Calls `f` with every member; at each level first the members, then those below each element.
    pub fn for_each(&self, f: &mut dyn FnMut(&[PathElement])) {
        self.for_each_below(&mut Vec::new(), f);
    }

    fn for_each_below(&self, prefix: &mut Vec<PathElement>, f: &mut dyn FnMut(&[PathElement])) {
        for entry in self.entries().iter().filter(|entry| entry.member) {
            prefix.push(entry.element.clone());
            f(prefix);
            prefix.pop();
        }
        for entry in self.entries().iter().filter(|entry| !entry.children.is_empty()) {
            prefix.push(entry.element.clone());
            deep(|| entry.children.for_each_below(prefix, f));
            prefix.pop();
        }
    }

    /// The members as text, one a path.
    pub fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.for_each(&mut |path| out.push(path_text(path)));
        out
    }

    /// The members that have no members below.
    pub fn leaves(&self) -> Set {
        let leaf = |entry: &Entry| Entry {
            element: entry.element.clone(),
            member: entry.member && entry.children.is_empty(),
            children: deep(|| entry.children.leaves()),
        };
        Set::of_sorted(self.entries().iter().map(leaf).collect())
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.paths()).finish()
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        if let Some(entries) = self.entries.take()
            && let Ok(entries) = Arc::try_unwrap(entries)
        {
            // As deep as a client's `FieldsV1`.
            deep(|| drop(entries));
        }
    }
}

#[cfg(test)]
mod tests;
