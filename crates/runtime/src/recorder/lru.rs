//! A bounded memory that forgets what was not asked for longest.

use std::collections::BTreeMap;

pub struct Lru<V> {
    most: usize,
    /// By a hash of what it is about; with when it was last used.
    entries: BTreeMap<u128, (u64, V)>,
    used: BTreeMap<u64, u128>,
    next: u64,
}

impl<V> Lru<V> {
    pub fn new(most: usize) -> Lru<V> {
        Lru { most, entries: BTreeMap::new(), used: BTreeMap::new(), next: 0 }
    }

    /// The value of a key, made if it was not there; it is now the one used last.
    pub fn entry(&mut self, key: u128, make: impl FnOnce() -> V) -> &mut V {
        if let Some((used, _)) = self.entries.get(&key) {
            self.used.remove(used);
        } else if self.entries.len() == self.most
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.next += 1;
        self.used.insert(self.next, key);
        let entry = self.entries.entry(key).or_insert_with(|| (0, make()));
        entry.0 = self.next;
        &mut entry.1
    }

    pub fn get(&self, key: u128) -> Option<&V> {
        self.entries.get(&key).map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: u128) {
        if let Some((used, _)) = self.entries.remove(&key) {
            self.used.remove(&used);
        }
    }

    /// All keys, the one not asked for longest first.
    pub fn keys(&self) -> Vec<u128> {
        self.used.values().copied().collect()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.used.len());
        self.entries.len()
    }
}
