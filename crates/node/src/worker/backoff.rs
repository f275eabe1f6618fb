//! How long a container that keeps ending waits before it is started again: not at all, then 10 s, doubled up to 5 min or what the node
//! is configured with.

use object::Value;

use crate::container_runtime::{Container, Millis, Running, StartError};
use crate::pod::Pod;

const FIRST_SECONDS: u32 = 10;
const MOST_SECONDS: u32 = 300;
/// The longest wait, unless the node is configured with another.
pub const LONGEST_MILLIS: Millis = MOST_SECONDS as Millis * 1000;

/// Of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct BackOff {
    /// The container's image and resources.
    of: Option<Box<(String, Option<Value>)>>,
    /// 0: none so far.
    millis: Millis,
    longest: Millis,
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
    pub fn new(longest: Millis) -> BackOff {
        BackOff { of: None, millis: 0, longest, updated: 0, told: false }
    }

    /// With another image or other resources it begins anew, as kubelet's does: the change may be the remedy.
    pub fn keep_for(&mut self, image: &str, resources: Option<&Value>) {
        if self.of.as_deref().is_some_and(|of| of.0 == image && of.1.as_ref() == resources) {
            return;
        }
        let of = Some(Box::new((image.to_owned(), resources.cloned())));
        *self = BackOff { of, ..BackOff::new(self.longest) };
    }

    /// When the wait of a container that ended begins. `None`: it is started at once, and nothing is lengthened.
    ///
    /// Kubelet ends a container that failed a probe and starts it in one go, so that the run before that one is what counts. If it
    /// may not be started then, the next look finds the run that was ended, and counts from its end.
    pub fn begins(&self, container: &Running) -> Option<Millis> {
        let Container::Exited(exit) = &container.state else { return None };
        if !container.replaced {
            return Some(exit.finished);
        }
        let before = container.last.as_ref()?.finished;
        Some(self.waits_until(before, exit.finished).map_or(before, |_| exit.finished))
    }

    /// A container that was ended because a probe failed did not have to wait then: it is ended and started in one go.
    fn lets_replace(&self, container: &Running) -> bool {
        let Container::Exited(exit) = &container.state else { return false };
        let before = container.last.as_ref().map(|before| before.finished);
        before.is_none_or(|before| self.waits_until(before, exit.finished).is_none())
    }

    /// For a container whose wait begins at `from`.
    pub fn try_restart(&mut self, from: Millis, now: Millis) -> Verdict {
        if let Some(until) = self.waits_until(from, now) {
            let new = !std::mem::replace(&mut self.told, true);
            return Verdict::Wait { until, new };
        }
        let fresh = self.millis == 0 || now > self.forgotten_after();
        let millis = if fresh { Millis::from(FIRST_SECONDS) * 1000 } else { self.millis * 2 };
        (self.millis, self.updated, self.told) = (millis.min(self.longest), now, false);
        Verdict::Now
    }

    /// Until when a container has to wait whose wait begins at `from`.
    pub fn waits_until(&self, from: Millis, now: Millis) -> Option<Millis> {
        let until = (from + self.millis).min(self.forgotten_after() + 1);
        (self.millis > 0 && now < until).then_some(until)
    }

    /// One that was not lengthened for so long is forgotten, as kubelet's is.
    fn forgotten_after(&self) -> Millis {
        self.updated + 2 * self.longest
    }

    pub fn millis(&self) -> Millis {
        self.millis
    }
}

/// A container that was ended because a probe failed, and is started anew whatever its code: kubelet, which does both at once, does
/// not look at it.
pub fn in_one_go(pod: &Pod<'_>, index: usize, run: &Running, backoffs: &[BackOff]) -> bool {
    run.replaced
        && pod.restarts_by_policy(&pod.containers[index])
        && backoffs.get(index).is_none_or(|backoff| backoff.lets_replace(run))
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
    use crate::container_runtime::Exit;

    #[test]
    fn the_first_restart_is_at_once_and_later_ones_wait_twice_as_long_each_time() {
        let mut backoff = BackOff::new(LONGEST_MILLIS);
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
    fn the_longest_wait_is_the_nodes() {
        for (longest, waits) in [(15_000, [10_000, 15_000, 15_000]), (1500, [1500, 1500, 1500])] {
            let mut backoff = BackOff::new(longest);
            let mut now = 1_000_000;
            assert_eq!(backoff.try_restart(now, now), Verdict::Now);
            for wait in waits {
                let until = now + wait;
                assert_eq!(backoff.try_restart(now, now), Verdict::Wait { until, new: true });
                assert_eq!(backoff.try_restart(now, until), Verdict::Now);
                now = until;
            }
            // Twice as long without a restart, and it begins anew.
            assert_eq!(backoff.waits_until(now + 2 * longest + 1, now + 2 * longest + 1), None);
        }
    }

    #[test]
    fn a_long_run_resets_the_backoff() {
        let mut backoff = BackOff::new(LONGEST_MILLIS);
        assert_eq!(backoff.try_restart(0, 0), Verdict::Now);
        let finished = 601_000;
        assert_eq!(backoff.try_restart(finished, finished), Verdict::Now);
        assert_eq!(backoff.millis(), 10_000);
    }

    #[test]
    fn a_wait_ends_when_the_backoff_is_forgotten() {
        let mut backoff = BackOff { millis: 300_000, updated: 0, ..BackOff::new(LONGEST_MILLIS) };
        let until = 600_001;
        assert_eq!(backoff.try_restart(590_000, 600_000), Verdict::Wait { until, new: true });
        assert_eq!(backoff.try_restart(590_000, until), Verdict::Now);
        assert_eq!(backoff.millis(), 10_000);
    }

    fn ended_by_a_probe(before: Option<Millis>, finished: Millis) -> Running {
        let exit = |finished| Exit::new(137, 0, finished, String::new());
        Running {
            id: String::new(),
            image_id: String::new(),
            image: String::new(),
            outdated: false,
            needs_restart: false,
            user: None,
            attempt: 1,
            state: Container::Exited(exit(finished)),
            last: before.map(exit),
            replaced: true,
            hook_error: None,
        }
    }

    #[test]
    fn a_container_that_failed_a_probe_too_soon_waits_from_its_own_end() {
        let backoff = BackOff { millis: 20_000, updated: 2000, ..BackOff::new(LONGEST_MILLIS) };
        assert_eq!(backoff.begins(&ended_by_a_probe(None, 3000)), None);
        assert_eq!(backoff.begins(&ended_by_a_probe(Some(1000), 20_999)), Some(20_999));
        assert_eq!(backoff.begins(&ended_by_a_probe(Some(1000), 21_000)), Some(1000));
    }

    #[test]
    fn a_container_that_failed_a_probe_after_a_long_run_begins_anew() {
        let mut backoff = BackOff { millis: 300_000, updated: 2000, ..BackOff::new(LONGEST_MILLIS) };
        let from = backoff.begins(&ended_by_a_probe(Some(1000), 700_000)).unwrap();
        assert_eq!(backoff.try_restart(from, 700_000), Verdict::Now);
        assert_eq!(backoff.millis(), 10_000);
    }
}
