//! How long a container that keeps ending waits before it is started again: not at all, then 10 s, doubled up to 5 min.

use crate::container_runtime::{Millis, StartError};

const FIRST_SECONDS: u32 = 10;
const MOST_SECONDS: u32 = 300;
/// A run longer than this is forgiven.
const FORGOTTEN_MILLIS: Millis = 2 * MOST_SECONDS as Millis * 1000;

/// Of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    /// 0: none so far.
    seconds: u32,
    /// When it was last lengthened.
    updated: Millis,
    /// People know of this wait.
    told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Now,
    Wait {
        until: Millis,
        /// The wait just began.
        new: bool,
    },
}

impl BackOff {
    /// For a container whose last run ended at `finished`.
    pub fn try_restart(&mut self, finished: Millis, now: Millis) -> Verdict {
        if let Some(until) = self.waits_until(finished, now) {
            let new = !std::mem::replace(&mut self.told, true);
            return Verdict::Wait { until, new };
        }
        let fresh = self.seconds == 0 || finished - self.updated > FORGOTTEN_MILLIS;
        let seconds = if fresh { FIRST_SECONDS } else { (self.seconds * 2).min(MOST_SECONDS) };
        *self = BackOff { seconds, updated: now, told: false };
        Verdict::Now
    }

    /// Until when a container that ended then has to wait.
    pub fn waits_until(&self, finished: Millis, now: Millis) -> Option<Millis> {
        let until = finished + Millis::from(self.seconds) * 1000;
        let counts = self.seconds > 0 && finished - self.updated <= FORGOTTEN_MILLIS;
        (counts && now < until).then_some(until)
    }

    pub fn seconds(&self) -> u32 {
        self.seconds
    }
}

/// A container that could not be started is tried again after 10 s; one whose image could not be pulled after twice as long each
/// time, up to 5 min.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartBackOff {
    pub image: String,
    pub error: StartError,
    seconds: u32,
    /// People know of this wait.
    pub told: bool,
}

/// A failed pull itself is shown for so long, then that it is waited for.
const SHOWN_MILLIS: Millis = 1000;

impl StartBackOff {
    pub fn after(before: Option<&StartBackOff>, image: &str, error: StartError) -> StartBackOff {
        let before =
            before.filter(|before| before.image == image && before.error.is_pull() && error.is_pull());
        let seconds = before.map_or(FIRST_SECONDS, |before| (before.seconds * 2).min(MOST_SECONDS));
        StartBackOff { image: image.to_owned(), error, seconds, told: false }
    }

    /// What is waited for.
    pub fn missing_image(&self) -> &str {
        self.error.volume_image.as_deref().unwrap_or(&self.image)
    }

    /// When it is tried again.
    pub fn until(&self) -> Millis {
        self.error.at + Millis::from(self.seconds) * 1000
    }

    /// Whether people are told that it is waited for, instead of the failure itself.
    pub fn is_pull_back_off(&self, now: Millis) -> bool {
        self.error.is_pull() && now >= self.error.at + SHOWN_MILLIS
    }

    /// When something else is to be done or said.
    pub fn next(&self, now: Millis) -> Millis {
        if self.error.is_pull() && !self.is_pull_back_off(now) {
            self.error.at + SHOWN_MILLIS
        } else {
            self.until()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_and_later_ones_wait_twice_as_long_each_time() {
        let mut backoff = BackOff::default();
        let mut now = 1_000_000;
        assert_eq!(backoff.try_restart(now, now), Verdict::Now);
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            let until = now + seconds * 1000;
            assert_eq!(backoff.try_restart(now, now), Verdict::Wait { until, new: true });
            assert_eq!(backoff.try_restart(now, until - 1), Verdict::Wait { until, new: false });
            assert_eq!(backoff.try_restart(now, until), Verdict::Now);
            now = until;
        }
    }

    #[test]
    fn a_long_run_resets_the_backoff() {
        let mut backoff = BackOff::default();
        assert_eq!(backoff.try_restart(0, 0), Verdict::Now);
        let finished = 601_000;
        assert_eq!(backoff.try_restart(finished, finished), Verdict::Now);
        assert_eq!(backoff.seconds(), 10);
    }
}
