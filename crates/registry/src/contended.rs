//! Locks for writes that contend for the same side object (a quota, a port range).
//!
//! Writes are optimistic first. One that lost to another over a side object waits here before it tries again, so that many
//! writers make steady progress instead of losing to each other over and over. A lock is held through our own commit, and never
//! while something outside is asked.

use tokio::sync::{Mutex, MutexGuard};

const LOCKS: usize = 64;

/// A bounded number of locks: keys that share one only wait a little longer.
pub(crate) struct ContendedKeys {
    /// Each guards nothing but the order of those who wait.
    locks: [Mutex<()>; LOCKS],
}

impl Default for ContendedKeys {
    fn default() -> ContendedKeys {
        ContendedKeys { locks: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl ContendedKeys {
    /// Waits for those who came before to write `key`.
    pub async fn lock(&self, key: &str) -> MutexGuard<'_, ()> {
        let hash = key.bytes().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte as usize));
        self.locks[hash % LOCKS].lock().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn writers_of_one_key_wait_for_each_other() {
        let keys = ContendedKeys::default();
        let first = keys.lock("/registry/resourcequotas/a/q").await;
        let mut second = Box::pin(keys.lock("/registry/resourcequotas/a/q"));
        assert!((&mut second).now_or_never().is_none());
        let _other = keys.lock("/registry/resourcequotas/a/r").await;
        drop(first);
        drop(second.await);
    }
}
