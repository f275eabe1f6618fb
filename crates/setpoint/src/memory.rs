//! Memory goes back to the system after many connections have closed, or much history was forgotten.
//!
//! The allocator keeps what a thread has freed until that thread allocates again, and a thread that waits does not: after a
//! rush, gigabytes could stay with a server that has nothing to do.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use apiserver::{Api, Pools};

/// So many connections make a rush: each may have had a thousand watches.
const MANY: u64 = 5;
/// In seconds: how often it is looked, and how often after a rush everything is given back (what was freed a moment ago is kept).
const EVERY: u64 = 5;
/// So many bytes of history make a rush too.
const MUCH: usize = 4 << 20;
/// But not more often than this, in seconds.
const FORGETTING_EVERY: u64 = 30;
const TIMES: u32 = 4;

/// Raised when every thread is to give back what it has; the threads of this process are one, however many worlds run on them.
static ROUND: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static DONE: Cell<u64> = const { Cell::new(0) };
}

#[allow(
    unsafe_code,
    reason = "mimalloc has no safe binding for it; it takes no pointer and may be called at any time"
)]
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Called by each thread before it waits.
pub fn before_waiting() {
    let round = ROUND.load(Ordering::Relaxed);
    if DONE.replace(round) != round {
        mi_collect(true);
    }
}

/// Follows the connections of a server.
#[derive(Default)]
pub struct GiveBack {
    seconds: u64,
    closed: u64,
    /// The most there was since memory was given back.
    history: usize,
    forgot_at: u64,
    rounds: u32,
}

impl GiveBack {
    /// Called every second.
    #[allow(clippy::disallowed_methods, reason = "the threads of both pools are meant, not a world")]
    pub fn look(&mut self, api: &Api, pools: &Pools) {
        self.seconds += 1;
        if !self.seconds.is_multiple_of(EVERY) {
            return;
        }
        let closed = api.connections_closed();
        if closed - self.closed >= MANY {
            self.closed = closed;
            self.rounds = TIMES;
        }
        let history = api.registry().table().history_bytes();
        self.history = self.history.max(history);
        let much = MUCH.max(self.history / 4);
        if history + much <= self.history && self.seconds >= self.forgot_at + FORGETTING_EVERY {
            self.history = history;
            self.forgot_at = self.seconds;
            self.rounds = self.rounds.max(1);
        }
        if self.rounds == 0 {
            return;
        }
        self.rounds -= 1;
        ROUND.fetch_add(1, Ordering::Relaxed);
        // More tasks than threads, so that those that wait are woken.
        for pool in [&pools.ordinary, &pools.priority] {
            for _ in 0..2 * pool.metrics().num_workers() {
                pool.spawn(async { before_waiting() });
            }
        }
    }
}
