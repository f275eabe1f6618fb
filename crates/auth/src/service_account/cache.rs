//! A cache of recently verified tokens, by the hash of the token.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Verified;

/// Two generations of at most this many: when the young one is full, the old one is dropped. So tokens in use
/// stay, and the size is bounded whatever clients send. Only valid tokens are cached.
const GENERATION: usize = 2048;

#[derive(Default)]
pub struct Cache {
    /// Guards both generations; held for a look-up.
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<[u8; 32], Arc<Verified>>,
    old: HashMap<[u8; 32], Arc<Verified>>,
}

impl Cache {
    pub fn get(&self, key: &[u8; 32]) -> Option<Arc<Verified>> {
        let mut generations = self.generations.lock();
        if let Some(known) = generations.young.get(key) {
            return Some(known.clone());
        }
        let known = generations.old.remove(key)?;
        generations.put(*key, known.clone());
        Some(known)
    }

    pub fn put(&self, key: [u8; 32], verified: Arc<Verified>) {
        self.generations.lock().put(key, verified);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        let generations = self.generations.lock();
        generations.young.len() + generations.old.len()
    }
}

impl Generations {
    fn put(&mut self, key: [u8; 32], verified: Arc<Verified>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, verified);
    }
}
