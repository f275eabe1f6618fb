//! How long superseded versions and log entries stay: five minutes, and at most 64 MiB.

use std::collections::VecDeque;

use catalog::StorageId;
use store::Revision;

/// A watcher that was away this long can resume.
pub const HISTORY_SECONDS: u64 = 300;
/// Superseded versions and log entries together never weigh more.
pub const HISTORY_BYTES: usize = 64 << 20;

/// What one log entry costs by itself: the event, and its share of the chain.
const ENTRY_BYTES: usize = 64;

/// All log entries of all shards, oldest first: who goes next when room is needed. Entries that follow each other
/// in one shard within a second are one stretch.
#[derive(Default)]
pub(crate) struct History {
    stretches: VecDeque<Stretch>,
    bytes: usize,
}

struct Stretch {
    /// Of its last entry.
    revision: Revision,
    bytes: u64,
    /// Seconds of the table's clock.
    at: u32,
    entries: u32,
    storage: StorageId,
}

/// All entries of one shard up to a revision, to be forgotten together. Said so and not as a number of them, it does not matter
/// who comes first when two forget at a time, nor that the shard was loaded anew meanwhile.
pub(crate) struct Due {
    pub revision: Revision,
    pub storage: StorageId,
}

/// A stretch is forgotten as a whole, so it must stay small beside the bound.
const STRETCH_ENTRIES: u32 = 256;

impl History {
    pub fn push(&mut self, revision: Revision, storage: StorageId, at: u32, superseded_bytes: usize) {
        let bytes = superseded_bytes + ENTRY_BYTES;
        self.bytes += bytes;
        if let Some(last) = self.stretches.back_mut()
            && (last.storage, last.at) == (storage, at)
            && last.entries < STRETCH_ENTRIES
        {
            last.revision = revision;
            last.bytes += bytes as u64;
            last.entries += 1;
            return;
        }
        self.stretches.push_back(Stretch { revision, bytes: bytes as u64, at, entries: 1, storage });
    }

    /// The next entries that are too old or too much, if any.
    pub fn pop_due(&mut self, now: u32, max_bytes: usize) -> Option<Due> {
        let oldest = self.stretches.front()?;
        let due = self.bytes > max_bytes || u64::from(now.saturating_sub(oldest.at)) > HISTORY_SECONDS;
        if due { self.pop() } else { None }
    }

    /// The oldest entries, whatever their age, while the last of them is at or below `upto`.
    pub fn pop_upto(&mut self, upto: Revision) -> Option<Due> {
        if self.stretches.front()?.revision > upto { None } else { self.pop() }
    }

    pub fn clear(&mut self) {
        *self = History::default();
    }

    fn pop(&mut self) -> Option<Due> {
        let oldest = self.stretches.pop_front()?;
        self.bytes -= oldest.bytes as usize;
        Some(Due { revision: oldest.revision, storage: oldest.storage })
    }
}
