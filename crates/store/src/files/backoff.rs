//! When an operation that failed for lack of a resource is retried.

use std::time::{Duration, Instant};

/// Exponential, with an upper bound.
pub(super) struct Backoff {
    delay: Duration,
    until: Option<Instant>,
}

const SHORTEST: Duration = Duration::from_millis(100);
/// Writing resumes a few seconds after somebody freed disk space.
const LONGEST: Duration = Duration::from_secs(5);

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { delay: SHORTEST, until: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= now())
    }

    pub(super) fn failed(&mut self) {
        self.until = Some(now() + self.delay);
        self.delay = (self.delay * 2).min(LONGEST);
    }

    pub(super) fn succeeded(&mut self) {
        // Called after each batch, nearly always without a failure before.
        if self.until.is_some() {
            *self = Backoff::new();
        }
    }
}

// The durable layer has no world's clock: a virtual world has no disk that is full.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}
