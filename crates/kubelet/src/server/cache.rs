//! Answers of the API that count for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use tokio::time::Instant;

/// By the hash of what was asked: questions hold tokens, which need not stay in memory.
pub struct Cache<T> {
    /// Guards the entries; held to look one up.
    entries: Mutex<BTreeMap<[u8; 32], (Instant, T)>>,
    capacity: usize,
}

impl<T: Clone> Cache<T> {
    pub fn new(capacity: usize) -> Cache<T> {
        Cache { entries: Mutex::new(BTreeMap::new()), capacity }
    }

    pub fn key(question: &[u8]) -> [u8; 32] {
        let mut key = [0; 32];
        key.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, question).as_ref());
        key
    }

    pub fn get(&self, env: &Env, key: &[u8; 32]) -> Option<T> {
        let now = env.monotonic();
        let entries = self.entries.lock();
        entries.get(key).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    pub fn put(&self, env: &Env, key: [u8; 32], answer: T, lifetime: Duration) {
        let now = env.monotonic();
        let mut entries = self.entries.lock();
        if entries.len() >= self.capacity {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= self.capacity {
            // The one that is over first.
            let oldest = entries.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| *key);
            oldest.and_then(|key| entries.remove(&key));
        }
        entries.insert(key, (now + lifetime, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_count_for_their_lifetime() {
        let env = Env::simulated(1);
        let cache = Cache::new(10);
        let key = Cache::<u8>::key(b"who");
        cache.put(&env, key, 1, Duration::from_secs(2));
        assert_eq!(cache.get(&env, &key), Some(1));
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(cache.get(&env, &key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_cache_forgets_the_one_that_is_over_first() {
        let env = Env::simulated(1);
        let cache = Cache::new(2);
        let keys = [b"a", b"b", b"c"].map(|text| Cache::<u8>::key(text));
        for (at, key) in keys.iter().enumerate() {
            cache.put(&env, *key, at as u8, Duration::from_secs(10 - at as u64));
        }
        assert_eq!(keys.map(|key| cache.get(&env, &key)), [Some(0), None, Some(2)]);
    }
}
