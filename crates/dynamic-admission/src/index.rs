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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::testing::{World, value};

    struct One {
        name: &'static str,
        criteria: MatchCriteria,
        /// How often its rules were looked at.
        looked: AtomicUsize,
    }

    impl Ruled for One {
        fn criteria(&self) -> &MatchCriteria {
            self.looked.fetch_add(1, Ordering::Relaxed);
            &self.criteria
        }
        fn describe(&self) -> String {
            self.name.to_owned()
        }
    }

    fn one(name: &'static str, operation: &str, group: &str, resource: &str) -> Arc<One> {
        let rules = format!(
            r#"{{"rules":[{{"operations":["{operation}"],"apiGroups":["{group}"],"apiVersions":["v1"],"resources":["{resource}"]}}]}}"#
        );
        let criteria = MatchCriteria::from_value(&value(&rules), "rules");
        Arc::new(One { name, criteria, looked: AtomicUsize::new(0) })
    }

    fn found(
        world: &World,
        index: &Index<One>,
        operation: Operation,
        about: (&str, &str, Option<&str>),
    ) -> String {
        world.with(operation, about, Duration::from_secs(60), |attempt| {
            let names: Vec<String> =
                index.candidates(attempt).map(|(place, one)| format!("{place} {}", one.name)).collect();
            names.join(", ")
        })
    }

    #[test]
    fn those_with_a_rule_about_the_resource_and_the_operation_are_found_in_their_order() {
        let world = World::new();
        let index = Index::new(vec![
            one("any", "*", "*", "*"),
            one("scales", "UPDATE", "apps", "deployments/scale"),
            one("pods", "CREATE", "", "pods"),
            one("whole", "CREATE", "", "*/*"),
        ]);
        let found = |operation, about| found(&world, &index, operation, about);
        assert_eq!(found(Operation::Create, ("", "pods", None)), "0 any, 2 pods, 3 whole");
        assert_eq!(found(Operation::Update, ("", "pods", None)), "0 any");
        assert_eq!(found(Operation::Create, ("", "pods", Some("status"))), "3 whole");
        assert_eq!(found(Operation::Update, ("apps", "deployments", Some("scale"))), "1 scales");
        let others = world.with(Operation::Update, ("", "pods", None), Duration::from_secs(60), |attempt| {
            index.unmatched(attempt)
        });
        assert_eq!(others, ["scales", "pods", "whole"]);
    }

    #[test]
    fn rules_are_looked_at_once_for_each_kind_of_request() {
        let world = World::new();
        let secrets = one("secrets", "CREATE", "", "secrets");
        let index = Index::new(vec![secrets.clone()]);
        for _ in 0..3 {
            assert_eq!(found(&world, &index, Operation::Create, ("", "pods", None)), "");
        }
        assert_eq!(secrets.looked.load(Ordering::Relaxed), 1);
        found(&world, &index, Operation::Update, ("", "pods", None));
        assert_eq!(secrets.looked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_request_that_nothing_concerns_allocates_nothing() {
        let world = World::new();
        let some = Index::new((0..50).map(|_| one("secrets", "CREATE", "", "secrets")).collect());
        for index in [Index::default(), some] {
            world.with(Operation::Create, ("", "pods", None), Duration::from_secs(60), |attempt| {
                // The first of its kind is remembered.
                assert_eq!(index.candidates(attempt).count(), 0);
                let (count, used) = fuzz::measure(|| index.candidates(attempt).count());
                assert_eq!((count, used.allocated), (0, 0));
            });
        }
    }
}
