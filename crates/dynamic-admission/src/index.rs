//! Which of many configurations have rules about a kind of request: found once for each resource, subresource and operation.

use std::collections::HashMap;
use std::sync::Arc;

use admission::{Attempt, Operation};
use catalog::ResourceId;
use parking_lot::RwLock;

use crate::criteria::MatchCriteria;

/// Kinds of requests that are remembered; beyond them all is forgotten and found again.
const MAX_KINDS: usize = 4096;

/// Something with rules.
pub trait Ruled {
    fn criteria(&self) -> &MatchCriteria;
    /// For people.
    fn describe(&self) -> String;
}

/// Configurations in the order they are asked. A change of one of them makes another index.
pub struct Index<T> {
    all: Vec<Arc<T>>,
    /// Guards what was found so far; held to look one up.
    found: RwLock<Found>,
}

/// Places in `all`.
type Candidates = Arc<[usize]>;
/// A resource and an operation have few subresources.
type BySubresource = Vec<(Box<str>, Candidates)>;

#[derive(Default)]
struct Found {
    /// Of the catalogue: equivalent resources come and go with custom resources.
    generation: u64,
    candidates: HashMap<(ResourceId, Operation), BySubresource>,
    kinds: usize,
}

impl<T> Default for Index<T> {
    fn default() -> Index<T> {
        Index { all: Vec::new(), found: RwLock::default() }
    }
}

impl<T: Ruled> Index<T> {
    pub fn new(all: Vec<Arc<T>>) -> Index<T> {
        Index { all, found: RwLock::default() }
    }

    /// Those that may be about the request by operation, resource and subresource, with their places among all.
    pub fn candidates(&self, attempt: &Attempt<'_>) -> impl Iterator<Item = (usize, &Arc<T>)> {
        // Nothing to be shared where nothing is configured.
        let places = if self.all.is_empty() { None } else { Some(self.places(attempt)) };
        let count = places.as_ref().map_or(0, |places| places.len());
        (0..count).filter_map(move |at| {
            let place = *places.as_ref()?.get(at)?;
            Some((place, self.all.get(place)?))
        })
    }

    /// The others, for people.
    pub fn unmatched(&self, attempt: &Attempt<'_>) -> Vec<String> {
        let matched: Vec<usize> = self.candidates(attempt).map(|(place, _)| place).collect();
        let others = self.all.iter().enumerate().filter(|(place, _)| !matched.contains(place));
        others.map(|(_, one)| one.describe()).collect()
    }

    fn places(&self, attempt: &Attempt<'_>) -> Candidates {
        let key = (attempt.resource.id, attempt.operation);
        let subresource = attempt.subresource.unwrap_or_default();
        let generation = attempt.request.catalog.generation();
        {
            let found = self.found.read();
            let known = found.candidates.get(&key).filter(|_| found.generation == generation);
            if let Some((_, known)) =
                known.and_then(|known| known.iter().find(|(sub, _)| **sub == *subresource))
            {
                return known.clone();
            }
        }
        let may = self.all.iter().enumerate().filter(|(_, one)| one.criteria().may_concern(attempt));
        let candidates: Candidates = may.map(|(place, _)| place).collect();
        let mut found = self.found.write();
        if found.generation != generation || found.kinds >= MAX_KINDS {
            *found = Found { generation, ..Found::default() };
        }
        found.kinds += 1;
        found.candidates.entry(key).or_default().push((subresource.into(), candidates.clone()));
        candidates
    }
}
