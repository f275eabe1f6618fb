//! How long superseded versions and log entries stay: five minutes, and at most 64 MiB.

use std::collections::VecDeque;

use catalog::StorageId;
use store::Revision;

/// A watcher that was away this long can resume.
pub const HISTORY_SECONDS: u64 = 300;
/// Superseded versions and log entries together never weigh more.
pub const HISTORY_BYTES: usize = 64 << 20;

/// What one log entry costs by itself: the event, its place here, its share of the chain.
const ENTRY_BYTES: usize = 112;

/// All log entries of all shards, oldest first: who goes next when room is needed.
#[derive(Default)]
pub(crate) struct History {
    entries: VecDeque<Past>,
    bytes: usize,
}

struct Past {
    revision: Revision,
    /// Seconds of the table's clock.
    at: u32,
    bytes: u32,
    storage: StorageId,
}

impl History {
    pub fn push(&mut self, revision: Revision, storage: StorageId, at: u32, superseded_bytes: usize) {
        let bytes = (superseded_bytes + ENTRY_BYTES).min(u32::MAX as usize) as u32;
        self.bytes += bytes as usize;
        self.entries.push_back(Past { revision, at, bytes, storage });
    }

    /// The next entry that is too old or too much, if any.
    pub fn pop_due(&mut self, now: u32, max_bytes: usize) -> Option<(Revision, StorageId)> {
        let oldest = self.entries.front()?;
        let due = self.bytes > max_bytes || u64::from(now.saturating_sub(oldest.at)) > HISTORY_SECONDS;
        if !due {
            return None;
        }
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.bytes as usize;
        if self.entries.len() * 4 < self.entries.capacity() && self.entries.capacity() > 4096 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        Some((oldest.revision, oldest.storage))
    }

    /// The oldest entry at or below `upto`, whatever its age.
    pub fn pop_upto(&mut self, upto: Revision) -> Option<(Revision, StorageId)> {
        if self.entries.front()?.revision > upto {
            return None;
        }
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.bytes as usize;
        Some((oldest.revision, oldest.storage))
    }

    pub fn clear(&mut self) {
        *self = History::default();
    }
}
