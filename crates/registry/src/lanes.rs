//! Waiting lines for writes that contend for the same side object (a quota, a port range).
//!
//! Writes are optimistic first. One that lost to another over a side object queues up here before it tries
//! again, so that many writers make steady progress instead of losing to each other over and over.

use tokio::sync::{Mutex, MutexGuard};

const LANES: usize = 64;

/// A bounded number of lanes: keys that share one only wait a little longer.
pub(crate) struct Lanes {
    /// Each guards nothing but the turn.
    lanes: [Mutex<()>; LANES],
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes { lanes: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl Lanes {
    /// Waits for the turn to write `key`; it lasts until the guard is dropped.
    pub async fn turn(&self, key: &str) -> MutexGuard<'_, ()> {
        let hash = key.bytes().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte as usize));
        self.lanes[hash % LANES].lock().await
    }
}
