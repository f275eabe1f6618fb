//! Expiry: etcd deletes the keys of a lease when it ends. One lease serves all keys that expire together.
//!
//! The contract's log tells each key's `expires_at`, to the second and the same on every server. etcd's log
//! tells only a lease's number. But the number is ours to choose, so it *is* the second:
//!
//! ```text
//!  bits 62..42   41..8                       7..0
//!  TAG           expires_at, unix seconds    shard
//! ```
//!
//! All servers so share one lease per second of expiry, and none has to be asked when it ends. Differs from
//! kube-apiserver, which lets keys of about a minute share a lease, and so lets them live up to a minute longer:
//! that is one more grant per second at most, but here a key expires when it was told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use grpc::CallError;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::Client;

/// Marks the leases of our servers. etcd's own numbers begin with 15 bits of a member's id: a clash would only
/// make us tell a wrong `expires_at`, etcd would still expire the key in time.
const TAG: i64 = 0x0b5e7 << 42;
const TAG_MASK: i64 = 0x1f_ffff << 42;
const SECONDS_BITS: u32 = 34;
/// Ending a lease is one commit over all its keys: this many of one server are in one.
const KEYS_PER_SHARD: u32 = 1000;
const SHARDS: u32 = 256;
/// etcd grants no longer leases.
const MAX_TTL_SECONDS: u64 = 9_000_000_000;
/// Leases remembered of each sort. Forgetting one costs a call, nothing else.
const MAX_LEASES: usize = 4096;
/// Asking about a lease of another program holds up the log; after a failure we do without for a while.
const ASK_LIMIT: Duration = Duration::from_secs(2);
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

pub struct Leases {
    env: Env,
    client: Arc<Client>,
    /// By the second they end: how many keys we have put on our leases. Held while one is granted, on purpose:
    /// those who wait will use it too.
    granted: Mutex<BTreeMap<u64, u32>>,
    /// Held for a few instructions.
    foreign: parking_lot::Mutex<Foreign>,
}

/// Leases of other programs, such as kube-apiserver.
#[derive(Default)]
struct Foreign {
    ends: BTreeMap<i64, u64>,
    do_not_ask_before: Option<Instant>,
}

impl Leases {
    pub fn new(env: Env, client: Arc<Client>) -> Leases {
        Leases { env, client, granted: Mutex::default(), foreign: parking_lot::Mutex::default() }
    }

    /// A lease that ends at `expires_at`, or within the next seconds if that is past.
    pub async fn get(&self, expires_at: u64) -> Result<i64, CallError> {
        let mut granted = self.granted.lock().await;
        let now = self.env.now_seconds();
        // One that ends in this second could be gone before the key arrives.
        let end = expires_at.max(now + 1).min(now + MAX_TTL_SECONDS).min((1 << SECONDS_BITS) - 1);
        *granted = granted.split_off(&(now + 1));
        let keys = granted.get(&end).copied().unwrap_or(0);
        let id = id_of(end, keys / KEYS_PER_SHARD);
        if keys % KEYS_PER_SHARD == 0 {
            self.client.lease_grant(id, end.saturating_sub(now).max(1)).await?;
        }
        if granted.len() >= MAX_LEASES && !granted.contains_key(&end) {
            granted.pop_last();
        }
        granted.insert(end, keys.saturating_add(1));
        Ok(id)
    }

    /// etcd does not know some lease of ours (any more): grant all anew.
    pub async fn forget_all(&self) {
        self.granted.lock().await.clear();
    }

    /// When a key with this lease expires. Asks etcd once for a lease of another program.
    pub async fn expires_at(&self, id: i64) -> Option<u64> {
        if id == 0 {
            return None;
        }
        if let Some(end) = end_of(id) {
            return Some(end);
        }
        {
            let foreign = self.foreign.lock();
            if let Some(end) = foreign.ends.get(&id) {
                return Some(*end);
            }
            if foreign.do_not_ask_before.is_some_and(|until| self.env.monotonic() < until) {
                return None;
            }
        }
        let answer = self.env.timeout(ASK_LIMIT, self.client.lease_seconds_left(id)).await;
        let now = self.env.now_seconds();
        let mut foreign = self.foreign.lock();
        let Ok(Ok(left)) = answer else {
            // The key still expires: etcd does that. Only our readers do not know when.
            tracing::warn!(lease = id, "cannot learn from etcd when a lease ends");
            foreign.do_not_ask_before = Some(self.env.monotonic() + ASK_AGAIN_AFTER);
            return None;
        };
        let end = now.saturating_add(left.unwrap_or(0));
        if foreign.ends.len() >= MAX_LEASES {
            foreign.ends.retain(|_, end| *end > now);
        }
        if foreign.ends.len() >= MAX_LEASES {
            foreign.ends.clear();
        }
        foreign.ends.insert(id, end);
        Some(end)
    }
}

fn id_of(end: u64, shard: u32) -> i64 {
    TAG | (end.cast_signed() << 8) | i64::from(shard.min(SHARDS - 1))
}

fn end_of(id: i64) -> Option<u64> {
    (id & TAG_MASK == TAG).then_some(((id & !TAG_MASK) >> 8).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_encodes_its_expiry() {
        for end in [0, 1, 1_767_225_600, 4_000_000_199, (1 << SECONDS_BITS) - 1] {
            for shard in [0, 255, 9999] {
                let id = id_of(end, shard);
                assert!(id > 0);
                assert_eq!(end_of(id), Some(end), "{id:x}");
            }
        }
    }

    #[test]
    fn leases_of_others_are_not_read_as_ours() {
        for id in [1, 0x694d_8c2f_1a4b_2c07, i64::MAX, -5] {
            assert_eq!(end_of(id), None, "{id:x}");
        }
    }
}
