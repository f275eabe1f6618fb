//! How long a pod that failed is not tried again: doubled with each failure, in whole seconds.

use std::time::Duration;

pub struct Backoff {
    pub initial: Duration,
    pub max: Duration,
}

impl Backoff {
    /// Until when; `None` for a pod that never failed. Cut to whole seconds, so that pods of one second are tried by
    /// priority.
    pub fn until(&self, failed: Duration, count: u32) -> Option<Duration> {
        let doubled = count.checked_sub(1)?;
        let factor = 1u32.checked_shl(doubled).unwrap_or(u32::MAX);
        let wait = self.initial.checked_mul(factor).map_or(self.max, |wait| wait.min(self.max));
        Some(whole(failed + wait))
    }

    pub fn is_over(&self, until: Duration, now: Duration) -> bool {
        until < whole(now)
    }

    /// The first instant at which it is over.
    pub fn over_at(&self, until: Duration) -> Duration {
        whole(until) + Duration::from_secs(1)
    }
}

fn whole(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}
