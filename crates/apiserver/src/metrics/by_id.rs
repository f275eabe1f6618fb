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

    /// The entries of these ids that were used, in their order; all others are dropped.
    pub fn retain(&self, ids: impl Iterator<Item = u32>) -> Vec<Arc<T>> {
        let mut entries = self.entries.write();
        let mut kept = vec![None; entries.len()];
        let mut used = Vec::new();
        for id in ids {
            if let Some(Some(entry)) = entries.get(id as usize) {
                used.push(entry.clone());
                kept[id as usize] = Some(entry.clone());
            }
        }
        *entries = kept;
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_keeps_its_counters_under_a_new_id_and_loses_them_when_it_is_removed() {
        let entries: ById<&str> = ById::default();
        let first = entries.get(2, |e| *e == "widgets", || "widgets");
        let again = entries.get(7, |e| *e == "widgets", || panic!("there is one"));
        assert!(Arc::ptr_eq(&first, &again));
        entries.get(3, |e| *e == "gadgets", || "gadgets");
        let used: Vec<&str> =
            entries.retain([7, 5, 3, 100].into_iter()).iter().map(|entry| **entry).collect();
        assert_eq!(used, ["widgets", "gadgets"], "in the order asked for");
        let known = |id| entries.entries.read().get(id).is_some_and(Option::is_some);
        assert!(!known(2) && known(3) && known(7));
    }
}
