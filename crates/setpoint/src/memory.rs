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
/// A rush counts only so many seconds after the last one.
const RUSH_EVERY: u64 = 30;
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

/// Called by the threads of the ordinary pool before they wait. It takes some 50 ms of a heap of 400 MB.
pub fn give_back_all() {
    if is_asked() {
        mi_collect(true);
    }
}

/// Called by other threads before they wait, which must not keep anybody waiting: what others freed of theirs becomes free.
pub fn give_back_own() {
    if is_asked() {
        mi_collect(false);
    }
}

fn is_asked() -> bool {
    let round = ROUND.load(Ordering::Relaxed);
    DONE.replace(round) != round
}

/// Follows the connections of a server.
#[derive(Default)]
pub struct GiveBack {
    seconds: u64,
    closed: u64,
    /// The most there was since memory was given back.
    history: usize,
    /// When the last rush was.
    rush_at: u64,
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
        let (closed, history) = (api.connections_closed(), api.registry().table().history_bytes());
        self.history = self.history.max(history);
        let forgot = history + MUCH.max(self.history / 4) <= self.history;
        let left = closed - self.closed >= MANY;
        if (forgot || left) && (self.rush_at == 0 || self.seconds >= self.rush_at + RUSH_EVERY) {
            self.rush_at = self.seconds;
            (self.closed, self.history) = (closed, history);
            self.rounds = TIMES;
        }
        if self.rounds == 0 {
            return;
        }
        self.rounds -= 1;
        ROUND.fetch_add(1, Ordering::Relaxed);
        // More tasks than threads, so that those that wait are woken.
        for pool in [&pools.ordinary, &pools.priority] {
            for _ in 0..2 * pool.metrics().num_workers() {
                pool.spawn(async {});
            }
        }
    }
}
