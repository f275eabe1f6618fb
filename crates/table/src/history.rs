//! How long superseded versions and log entries stay: in proportion to what lives, by resource.
//!
//! ```text
//!  younger than 30 s:    8 MiB a resource, or half of what lives of it
//!  younger than 5 min:   2 MiB a resource, or an eighth of what lives of it
//!  all together:        64 MiB, or half of what lives; then the oldest go first
//! ```

use std::collections::VecDeque;

use catalog::StorageId;
use store::Revision;

/// A watcher that was away this long can resume, unless much happened.
pub const HISTORY_SECONDS: u64 = 300;
/// One that was away this long can, even if much happened: a client that connects again needs as much.
const RECENT_SECONDS: u64 = 30;
/// Superseded versions and log entries of a resource together never weigh more, unless much of it lives.
pub const HISTORY_BYTES: usize = 8 << 20;

/// What one log entry costs by itself: the event, and its share of the chain.
const ENTRY_BYTES: usize = 64;
/// A segment is forgotten as a whole, so it must stay small beside the bounds.
const SEGMENT_ENTRIES: u32 = 256;

/// So many bytes, or this part of what lives.
#[derive(Clone, Copy)]
struct Bound {
    bytes: usize,
    /// One byte for so many living ones; 0: none.
    of_live: u64,
}

impl Bound {
    fn of(self, live: u64) -> usize {
        self.bytes.max(live.checked_div(self.of_live).unwrap_or(0) as usize)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    recent: Bound,
    old: Bound,
    all: Bound,
}

impl Bounds {
    pub const DEFAULT: Bounds = Bounds {
        recent: Bound { bytes: HISTORY_BYTES, of_live: 2 },
        old: Bound { bytes: HISTORY_BYTES / 4, of_live: 8 },
        all: Bound { bytes: 8 * HISTORY_BYTES, of_live: 2 },
    };

    /// The same for all ages, whatever lives.
    pub const fn fixed(bytes: usize) -> Bounds {
        let bound = Bound { bytes, of_live: 0 };
        Bounds { recent: bound, old: bound, all: bound }
    }
}

/// What can be forgotten, by resource, oldest first.
pub(crate) struct History {
    bounds: Bounds,
    /// By the number of the storage; gone ones are empty.
    shards: Vec<ShardHistory>,
    bytes: usize,
    live: u64,
}

/// The log entries of one shard. Those that follow each other within a second are one segment.
#[derive(Default)]
struct ShardHistory {
    segments: VecDeque<Segment>,
    bytes: usize,
    /// Bytes of the objects that live.
    live: u64,
}

struct Segment {
    /// Of its last entry.
    revision: Revision,
    bytes: u64,
    /// Seconds of the table's clock.
    at: u32,
    entries: u32,
}

/// All entries of one shard up to a revision, to be forgotten together. Said so and not as a number of them, it does not matter
/// who comes first when two forget at a time, nor that the shard was loaded anew meanwhile.
pub(crate) struct Due {
    pub revision: Revision,
    pub storage: StorageId,
}

impl History {
    pub fn new(bounds: Bounds) -> History {
        History { bounds, shards: Vec::new(), bytes: 0, live: 0 }
    }

    /// One storage more, or one of which nothing is shard any more.
    pub fn renew(&mut self, storage: StorageId) {
        let at = storage.0 as usize;
        if self.shards.len() <= at {
            self.shards.resize_with(at + 1, ShardHistory::default);
        }
        let shard = std::mem::take(&mut self.shards[at]);
        self.bytes -= shard.bytes;
        self.live -= shard.live;
    }

    pub fn push(&mut self, revision: Revision, storage: StorageId, at: u32, superseded_bytes: usize) {
        let bytes = superseded_bytes + ENTRY_BYTES;
        let shard = &mut self.shards[storage.0 as usize];
        self.bytes += bytes;
        shard.bytes += bytes;
        if let Some(last) = shard.segments.back_mut()
            && last.at == at
            && last.entries < SEGMENT_ENTRIES
        {
            last.revision = revision;
            last.bytes += bytes as u64;
            last.entries += 1;
            return;
        }
        shard.segments.push_back(Segment { revision, bytes: bytes as u64, at, entries: 1 });
    }

    /// So many bytes live in a shard now.
    pub fn set_live(&mut self, storage: StorageId, live: u64) {
        let shard = &mut self.shards[storage.0 as usize];
        self.live = self.live - shard.live + live;
        shard.live = live;
    }

    /// The next entries of a shard that are too old or too much, if any.
    pub fn pop_due(&mut self, storage: StorageId, now: u32) -> Option<Due> {
        let shard = &self.shards[storage.0 as usize];
        let oldest = shard.segments.front()?;
        let age = u64::from(now.saturating_sub(oldest.at));
        let due = age > HISTORY_SECONDS
            || shard.bytes > self.bounds.recent.of(shard.live)
            || age > RECENT_SECONDS && shard.bytes > self.bounds.old.of(shard.live);
        if due { self.pop(storage) } else { None }
    }

    /// The oldest entries of all, while they are too many together.
    pub fn pop_excess(&mut self) -> Option<Due> {
        if self.bytes <= self.bounds.all.of(self.live) {
            return None;
        }
        let fronts =
            self.shards.iter().enumerate().filter_map(|(at, shard)| Some((at, shard.segments.front()?)));
        let (at, _) = fronts.min_by_key(|(_, segment)| segment.revision)?;
        self.pop(StorageId(at as _))
    }

    /// The oldest entries of a shard, whatever their age, while the last of them is at or below `upto`.
    pub fn pop_upto(&mut self, storage: StorageId, upto: Revision) -> Option<Due> {
        let oldest = self.shards[storage.0 as usize].segments.front()?;
        if oldest.revision > upto { None } else { self.pop(storage) }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn pop(&mut self, storage: StorageId) -> Option<Due> {
        let shard = &mut self.shards[storage.0 as usize];
        let oldest = shard.segments.pop_front()?;
        shard.bytes -= oldest.bytes as usize;
        self.bytes -= oldest.bytes as usize;
        Some(Due { revision: oldest.revision, storage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StorageId = StorageId(0);
    const B: StorageId = StorageId(1);
    const MIB: usize = 1 << 20;

    fn new_history(storages: u32) -> History {
        let mut history = History::new(Bounds::DEFAULT);
        (0..storages).for_each(|storage| history.renew(StorageId(storage)));
        history
    }

    /// One entry of a MiB at each revision in turn.
    fn filled(storage: StorageId, entries: std::ops::RangeInclusive<u64>, at: u32, history: &mut History) {
        entries.for_each(|revision| history.push(Revision(revision), storage, at + revision as u32, MIB));
    }

    /// How many segments are left once all that are due are gone.
    fn left(history: &mut History, storage: StorageId, now: u32) -> usize {
        while history.pop_due(storage, now).is_some() {}
        history.shards[storage.0 as usize].segments.len()
    }

    #[test]
    fn a_resource_with_more_live_objects_keeps_more_history() {
        let mut history = new_history(2);
        filled(A, 1..=50, 0, &mut history);
        filled(B, 51..=100, 0, &mut history);
        history.set_live(B, 60 * MIB as u64);
        assert_eq!(left(&mut history, A, 100), 1, "older than 30 s: 2 MiB");
        assert_eq!(left(&mut history, B, 100), 29, "not older: half of what lives");
        assert_eq!(left(&mut history, B, 200), 7, "older: an eighth of it");
        assert_eq!(left(&mut history, B, 401), 0, "too old for all");
    }

    #[test]
    fn all_history_together_is_bounded_and_the_oldest_goes_first() {
        let mut history = new_history(10);
        for storage in 0..10 {
            filled(
                StorageId(storage),
                1 + 10 * u64::from(storage)..=10 + 10 * u64::from(storage),
                0,
                &mut history,
            );
        }
        let mut gone = Vec::new();
        while let Some(due) = history.pop_excess() {
            gone.push(due.revision.0);
        }
        assert_eq!(gone, (1..=37).collect::<Vec<_>>(), "63 of 100 MiB are left");
        history.set_live(B, 1 << 30);
        filled(A, 101..=200, 0, &mut history);
        assert!(history.pop_excess().is_none(), "half of what lives");
    }
}
