//! Tokens whose signatures were verified lately, found by the hash of their text.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Verified;

/// Two generations of at most this many: when the young one is full, the old one is forgotten. So what is used
/// stays, and the size is bounded whatever clients send. Only good tokens get in.
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
