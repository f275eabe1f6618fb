//! How long to wait after trouble.

use std::time::Duration;

use env::Env;
use tokio::time::Instant;

/// Doubles from `first` to `most`; forgets trouble that is long past.
pub struct Backoff {
    first: Duration,
    most: Duration,
    jitter: f64,
    reset_after: Option<Duration>,
    next: Duration,
    last: Instant,
}

impl Backoff {
    pub fn new(env: &Env, first: Duration, most: Duration) -> Backoff {
        Backoff { first, most, jitter: 0.0, reset_after: None, next: first, last: env.monotonic() }
    }
    /// Up to that part longer, by chance.
    pub fn jitter(mut self, jitter: f64) -> Backoff {
        self.jitter = jitter;
        self
    }
    pub fn reset_after(mut self, quiet: Duration) -> Backoff {
        self.reset_after = Some(quiet);
        self
    }

    pub fn next(&mut self, env: &Env) -> Duration {
        let now = env.monotonic();
        if self.reset_after.is_some_and(|quiet| now - self.last > quiet) {
            self.next = self.first;
        }
        self.last = now;
        let wait = jittered(env, self.next, self.jitter);
        self.next = (self.next * 2).min(self.most);
        wait
    }

    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// `base`, up to `jitter` times itself longer.
pub fn jittered(env: &Env, base: Duration, jitter: f64) -> Duration {
    if jitter <= 0.0 {
        return base;
    }
    let part = env.random_below(1 << 20) as f64 / (1u64 << 20) as f64;
    base + base.mul_f64(jitter * part)
}
