//! Returns memory to the operating system after the start, after many connections have closed and after much watch history was
//! dropped.
//!
//! mimalloc keeps what a thread has freed until that thread allocates again, and a parked thread does not: after a burst,
//! gigabytes could stay with an idle server. And the code that ran only then stays mapped: a quarter of the
//! program after the start, 7 MB.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apiserver::{Api, Pools};
use env::Env;
use tokio::runtime::Handle;

/// Closed connections that make a burst: each may have had a thousand watches.
const BURST_CONNECTIONS: u64 = 5;
/// Seconds between two checks, and between the collections after a burst (mimalloc delays purging what was just freed).
const CHECK_SECONDS: u64 = 5;
/// Dropped bytes of watch history that make a burst.
const BURST_HISTORY_BYTES: usize = 4 << 20;
/// Minimum seconds between two bursts.
const BURST_SECONDS: u64 = 30;
const COLLECTIONS_PER_BURST: u32 = 4;
/// Between two collections of a node's agent: pods come and go there, and it costs milliseconds.
const AGENT_INTERVAL: Duration = Duration::from_secs(30);

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

/// Unmaps the pages of program code; those in use come back from the page cache when they run next.
fn release_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (start, len) in maps.lines().filter_map(code) {
        #[allow(
            unsafe_code,
            reason = "pages that cannot be written are what their file has, and are read from it again"
        )]
        // SAFETY: the range is a private mapping of a file, executable and not writable: it has no content of its own.
        let released = unsafe {
            let start = std::ptr::with_exposed_provenance_mut(start);
            rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxDontNeed)
        };
        if let Err(error) = released {
            tracing::debug!(%error, "cannot release the pages of the program's code");
        }
    }
}

/// Start and length of a mapping of code, from a line of `/proc/self/maps`.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    if fields.next()? != "r-xp" || !fields.nth(3)?.starts_with('/') {
        return None;
    }
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some((start, end.checked_sub(start)?))
}

/// Decides when the threads of a server collect.
pub struct Collector {
    seconds: u64,
    closed: u64,
    /// Peak bytes of history since the last burst.
    history: usize,
    /// When the last burst was.
    burst_at: u64,
    collections: u32,
}

impl Default for Collector {
    /// The start is a burst.
    fn default() -> Collector {
        Collector { seconds: 0, closed: 0, history: 0, burst_at: 0, collections: COLLECTIONS_PER_BURST }
    }
}

impl Collector {
    /// Called every second.
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
        if self.collections == 0 {
            release_code();
        }
        collect([&pools.ordinary, &pools.priority]);
    }
}

/// Makes the threads of these pools collect.
#[allow(clippy::disallowed_methods, reason = "wakes the threads of the pools; no task depends on the clock")]
fn collect<const N: usize>(pools: [&Handle; N]) {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // More tasks than threads, so that parked threads wake up.
    for pool in pools {
        for _ in 0..2 * pool.metrics().num_workers() {
            pool.spawn(async {});
        }
    }
}

/// Gives back what a node's agent does not use, from time to time.
pub async fn collect_regularly(env: &Env, pool: &Handle) -> Infallible {
    env.sleep(AGENT_INTERVAL).await;
    release_code();
    loop {
        collect([pool]);
        env.sleep(AGENT_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_released() {
        let of = |permissions: &str, path: &str| {
            code(&format!("55d0a000-55d0c000 {permissions} 00001000 08:01 4242                       {path}"))
        };
        assert_eq!(of("r-xp", "/usr/bin/setpoint"), Some((0x55d0_a000, 0x2000)));
        assert_eq!(of("r-xp", "[vdso]"), None);
        assert_eq!(of("r-xp", ""), None);
        assert_eq!(of("r--p", "/usr/bin/setpoint"), None, "what was relocated is not in the file");
        assert_eq!(of("rwxp", "/usr/bin/setpoint"), None);
    }

    #[test]
    fn a_program_whose_code_was_released_goes_on() {
        release_code();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        assert!(maps.lines().filter_map(code).count() > 0);
    }
}
