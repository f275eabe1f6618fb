//! Returns memory to the operating system after many connections have closed or much watch history was dropped.
//!
//! mimalloc keeps what a thread has freed until that thread allocates again, and a parked thread does not: after a burst,
//! gigabytes could stay with an idle server.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use apiserver::{Api, Pools};

/// Closed connections that make a burst: each may have had a thousand watches.
const BURST_CONNECTIONS: u64 = 5;
/// Seconds between two checks, and between the collections after a burst (mimalloc delays purging what was just freed).
const CHECK_SECONDS: u64 = 5;
/// Dropped bytes of watch history that make a burst.
const BURST_HISTORY_BYTES: usize = 4 << 20;
/// Minimum seconds between two bursts.
const BURST_SECONDS: u64 = 30;
const COLLECTIONS_PER_BURST: u32 = 4;

/// Incremented when every thread should collect. Global because the allocator is, however many servers the process runs.
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COLLECTED: Cell<u64> = const { Cell::new(0) };
}

#[allow(
    unsafe_code,
    reason = "mimalloc has no safe binding for it; it takes no pointer and may be called at any time"
)]
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Called before a thread of the ordinary pool parks. Takes about 50 ms for a heap of 400 MB.
pub fn collect_all() {
    if is_due() {
        mi_collect(true);
    }
}

/// Called before other threads park; cheap, because these must not delay a request: takes back what other threads freed.
pub fn collect_own() {
    if is_due() {
        mi_collect(false);
    }
}

fn is_due() -> bool {
    let generation = GENERATION.load(Ordering::Relaxed);
    COLLECTED.replace(generation) != generation
}

/// Decides when the threads of a server collect.
#[derive(Default)]
pub struct Collector {
    seconds: u64,
    closed: u64,
    /// Peak bytes of history since the last burst.
    history: usize,
    /// When the last burst was.
    burst_at: u64,
    collections: u32,
}

impl Collector {
    /// Called every second.
    #[allow(
        clippy::disallowed_methods,
        reason = "wakes the threads of both pools; no task depends on the clock"
    )]
    pub fn tick(&mut self, api: &Api, pools: &Pools) {
        self.seconds += 1;
        if !self.seconds.is_multiple_of(CHECK_SECONDS) {
            return;
        }
        let (closed, history) = (api.connections_closed(), api.registry().table().history_bytes());
        self.history = self.history.max(history);
        let dropped = history + BURST_HISTORY_BYTES.max(self.history / 4) <= self.history;
        let disconnected = closed - self.closed >= BURST_CONNECTIONS;
        if (dropped || disconnected) && (self.burst_at == 0 || self.seconds >= self.burst_at + BURST_SECONDS)
        {
            self.burst_at = self.seconds;
            (self.closed, self.history) = (closed, history);
            self.collections = COLLECTIONS_PER_BURST;
        }
        if self.collections == 0 {
            return;
        }
        self.collections -= 1;
        GENERATION.fetch_add(1, Ordering::Relaxed);
        // More tasks than threads, so that parked threads wake up.
        for pool in [&pools.ordinary, &pools.priority] {
            for _ in 0..2 * pool.metrics().num_workers() {
                pool.spawn(async {});
            }
        }
    }
}
