//! The environment of a program as a value: clocks, randomness, ids, tasks.
//!
//! `main` creates one [`Env`] and passes it down; a test creates another. Nothing else in the
//! workspace reads the system clock, draws random numbers, or spawns threads (clippy.toml enforces it),
//! so several clusters can run in one process, and a run with a seed is reproducible.
//!
//! Virtual time is tokio's paused clock: an environment made by [`Env::simulated`] belongs on a current-thread
//! runtime with `start_paused`; its wall clock is a fixed start plus the time of that runtime.

pub mod file;
mod rng;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use rng::Rng;

/// Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct Env {
    world: Arc<World>,
}

struct World {
    clock: Clock,
    /// Guards the random stream; held for a few instructions, and occasionally while the operating system fills a block.
    rng: Mutex<Rng>,
    hostname: String,
}

enum Clock {
    Machine,
    /// Unix nanoseconds at `start`.
    Virtual {
        epoch_nanos: u128,
        start: Instant,
        /// Adjustments of the wall clock since.
        set_by_nanos: AtomicI64,
    },
}

impl Env {
    /// The system's clocks and the operating system's randomness.
    pub fn machine() -> Env {
        let (clock, rng) = (Clock::Machine, Mutex::new(Rng::machine()));
        Env { world: Arc::new(World { clock, rng, hostname: machine_name() }) }
    }

    /// A simulated environment with a seed. Call it inside the (paused) runtime whose time it follows.
    #[allow(clippy::disallowed_methods)]
    pub fn simulated(seed: u64) -> Env {
        // 2026-01-01T00:00:00Z: any fixed instant does.
        let clock = Clock::Virtual {
            epoch_nanos: 1_767_225_600_000_000_000,
            start: Instant::now(),
            set_by_nanos: AtomicI64::new(0),
        };
        let hostname = "simulated".to_owned();
        Env { world: Arc::new(World { clock, rng: Mutex::new(Rng::seeded(seed)), hostname }) }
    }

    /// The host name; the same in every simulation.
    pub fn hostname(&self) -> &str {
        &self.world.hostname
    }

    /// Unix nanoseconds of the wall clock.
    #[allow(clippy::disallowed_methods)]
    pub fn now_nanos(&self) -> u128 {
        match &self.world.clock {
            Clock::Machine => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map(|d| d.as_nanos())
                .unwrap_or(0),
            Clock::Virtual { epoch_nanos, start, set_by_nanos } => {
                let set_by = i128::from(set_by_nanos.load(Ordering::Relaxed));
                (epoch_nanos + start.elapsed().as_nanos()).saturating_add_signed(set_by)
            }
        }
    }

    /// Moves a virtual wall clock forward or back, as an administrator or NTP does; the monotonic clock is unaffected.
    pub fn set_clock(&self, by_seconds: i64) {
        if let Clock::Virtual { set_by_nanos, .. } = &self.world.clock {
            set_by_nanos.fetch_add(by_seconds.saturating_mul(1_000_000_000), Ordering::Relaxed);
        }
    }

    /// Unix seconds of the wall clock.
    pub fn now_seconds(&self) -> u64 {
        (self.now_nanos() / 1_000_000_000) as u64
    }

    /// The monotonic clock; virtual in a simulation.
    #[allow(clippy::disallowed_methods)]
    pub fn monotonic(&self) -> Instant {
        Instant::now()
    }

    #[allow(clippy::disallowed_methods)]
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await
    }

    /// A sleep until an instant of the monotonic clock, to be stored, polled and reset.
    #[allow(clippy::disallowed_methods)]
    pub fn sleep_until(&self, deadline: Instant) -> tokio::time::Sleep {
        tokio::time::sleep_until(deadline)
    }

    /// The output of `work`, if it completes within that time; otherwise it is dropped.
    // Not an `async fn`: that would store `work` twice, and nested timeouts would double it again and again.
    #[allow(clippy::disallowed_methods)]
    pub fn timeout<F: Future>(&self, limit: Duration, work: F) -> tokio::time::Timeout<F> {
        tokio::time::timeout(limit, work)
    }

    /// The same, until an instant of [`monotonic`](Env::monotonic).
    #[allow(clippy::disallowed_methods)]
    pub fn timeout_at<F: Future>(&self, deadline: Instant, work: F) -> tokio::time::Timeout<F> {
        tokio::time::timeout_at(deadline, work)
    }

    /// Spawns a task. The caller owns the handle: join or abort it.
    #[allow(clippy::disallowed_methods)]
    pub fn spawn<F>(&self, name: &'static str, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tracing::trace!(name, "task started");
        tokio::spawn(task)
    }

    /// The next random number.
    pub fn random(&self) -> u64 {
        self.world.rng.lock().next()
    }

    /// A random number below `bound` (which must not be 0).
    pub fn random_below(&self, bound: u64) -> u64 {
        ((u128::from(self.random()) * u128::from(bound)) >> 64) as u64
    }

    /// A random (version 4) UUID.
    pub fn uuid(&self) -> String {
        let (hi, lo) = {
            let mut rng = self.world.rng.lock();
            (rng.next(), rng.next())
        };
        let hi = (hi & !0xf000) | 0x4000;
        let lo = (lo & !(0b11 << 62)) | (0b10 << 62);
        // By hand: every object gets one, and formatting takes ten times as long.
        let digits = (u128::from(hi) << 64) | u128::from(lo);
        let mut text = String::with_capacity(36);
        for at in (0..32).rev() {
            let digit = (digits >> (at * 4)) as usize & 0xf;
            text.push(char::from(b"0123456789abcdef"[digit]));
            if matches!(at, 24 | 20 | 16 | 12) {
                text.push('-');
            }
        }
        text
    }

    /// Characters upstream appends to a `generateName`: no vowels, no look-alikes.
    pub fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| ALPHABET[self.random_below(ALPHABET.len() as u64) as usize] as char).collect()
    }
}

/// Read once: the name stays the same for the life of the process.
fn machine_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    // The kernel's name of a host that was given none.
    if name.is_empty() || name == "(none)" { "localhost".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn same_seed_gives_the_same_world() {
        let (a, b) = (Env::simulated(7), Env::simulated(7));
        assert_eq!(a.uuid(), b.uuid());
        assert_eq!(a.name_suffix(), b.name_suffix());
        let before = a.now_seconds();
        a.sleep(Duration::from_secs(3600)).await;
        assert_eq!(a.now_seconds() - before, 3600);
    }

    #[test]
    fn uuids_are_version_four() {
        let id = Env::machine().uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-')));
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
    }
}
