//! Open watches, to estimate how many a write notifies.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

/// Open watches of every resource, by resource id.
#[derive(Debug, Default)]
pub struct WatchCounts {
    /// Guards the set of watched resources.
    resources: RwLock<HashMap<u32, Arc<OfResource>>>,
}

#[derive(Debug, Default)]
struct OfResource {
    /// The total: most resources have no watch, and then nothing more is looked up.
    all: AtomicUsize,
    /// Guards the counts by selection.
    selected: Mutex<HashMap<Selected, usize>>,
}

/// The hash of namespace and name (empty: all). A collision only distorts the estimate.
type Selected = u64;

/// An open watch; closed on drop.
#[derive(Debug)]
pub struct WatchGuard {
    counts: Arc<WatchCounts>,
    resource: u32,
    of: Arc<OfResource>,
    selected: Selected,
}

impl WatchCounts {
    pub fn open(self: &Arc<WatchCounts>, resource: u32, namespace: &str, name: &str) -> WatchGuard {
        let selected = selected(namespace, name);
        // Counted under the lock: the last one to go removes the entry.
        let mut resources = self.resources.write();
        let of = resources.entry(resource).or_default().clone();
        of.all.fetch_add(1, Ordering::AcqRel);
        drop(resources);
        *of.selected.lock().entry(selected).or_default() += 1;
        WatchGuard { counts: self.clone(), resource, of, selected }
    }

    /// How many watches a write of that object may notify.
    pub fn interested(&self, resource: u32, namespace: &str, name: &str) -> usize {
        let resources = self.resources.read();
        let of = resources.get(&resource).filter(|of| of.all.load(Ordering::Acquire) > 0);
        let Some(of) = of else { return 0 };
        let counts = of.selected.lock();
        let count =
            |namespace: &str, name: &str| counts.get(&selected(namespace, name)).copied().unwrap_or(0);
        let mut concerned = count("", "");
        if !namespace.is_empty() {
            concerned += count(namespace, "");
        }
        if !name.is_empty() {
            concerned += count(namespace, name);
        }
        concerned
    }
}

fn selected(namespace: &str, name: &str) -> Selected {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    hasher.finish()
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let mut resources = self.counts.resources.write();
        if self.of.all.fetch_sub(1, Ordering::AcqRel) == 1 {
            resources.remove(&self.resource);
        }
        drop(resources);
        let mut selected = self.of.selected.lock();
        if let Some(count) = selected.get_mut(&self.selected) {
            *count -= 1;
            if *count == 0 {
                selected.remove(&self.selected);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_notifies_watches_of_all_of_its_namespace_and_of_its_name() {
        let counts = Arc::new(WatchCounts::default());
        let open: Vec<_> = [("", ""), ("", ""), ("a", ""), ("b", ""), ("a", "x")]
            .into_iter()
            .map(|(namespace, name)| counts.open(1, namespace, name))
            .collect();
        assert_eq!(counts.interested(1, "a", "x"), 4);
        assert_eq!(counts.interested(1, "a", ""), 3);
        assert_eq!(counts.interested(0, "a", "x"), 0);
        drop(open);
        assert_eq!(counts.interested(1, "a", "x"), 0);
        assert!(counts.resources.read().is_empty());
    }
}
