//! The series of each resource, found by its id.

use std::sync::Arc;

use parking_lot::RwLock;

/// An entry for each id in use. A resource whose definition changes gets another id and keeps its entry: to those who read the
/// metrics it is the same resource.
pub struct ById<T> {
    /// Guards the entries, which are added when they are first used.
    entries: RwLock<Vec<Option<Arc<T>>>>,
}

impl<T> Default for ById<T> {
    fn default() -> ById<T> {
        ById { entries: RwLock::default() }
    }
}

impl<T> ById<T> {
    /// The entry of an id; if it has none yet, the one that is `same`, else a new one.
    pub fn get(&self, id: u32, same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(Some(entry)) = self.entries.read().get(id as usize) {
            return entry.clone();
        }
        let mut entries = self.entries.write();
        let found = entries.iter().flatten().find(|entry| same(entry)).cloned();
        let entry = found.unwrap_or_else(|| Arc::new(make()));
        if entries.len() <= id as usize {
            entries.resize(id as usize + 1, None);
        }
        entries[id as usize] = Some(entry.clone());
        entry
    }

    /// The entry of an id, if there is one.
    pub fn find(&self, id: u32) -> Option<Arc<T>> {
        self.entries.read().get(id as usize)?.clone()
    }

    /// Drops all entries but those of `ids`, which are in ascending order.
    pub fn keep(&self, mut ids: impl Iterator<Item = u32>) {
        let mut next = ids.next();
        for (at, entry) in self.entries.write().iter_mut().enumerate() {
            if next == Some(at as u32) {
                next = ids.next();
            } else {
                *entry = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_goes_on_with_its_counters_under_another_number_and_is_forgotten_when_it_is_gone() {
        let entries: ById<&str> = ById::default();
        let first = entries.get(2, |e| *e == "widgets", || "widgets");
        let again = entries.get(7, |e| *e == "widgets", || panic!("there is one"));
        assert!(Arc::ptr_eq(&first, &again));
        entries.get(3, |e| *e == "gadgets", || "gadgets");
        entries.keep([3, 5, 7].into_iter());
        assert!(entries.find(2).is_none() && entries.find(3).is_some() && entries.find(7).is_some());
        assert!(entries.find(100).is_none());
    }
}
