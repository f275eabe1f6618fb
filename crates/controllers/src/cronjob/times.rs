//! Which time of a schedule is due, and when the next one is.

use std::time::Duration;

use kinds::Schedule;
use object::time::ZERO_SECONDS;

use super::view::CronJob;

/// A turn comes so much after its time: clocks of servers differ a little.
const LATER_NANOS: i128 = 100_000_000;
/// More missed times than this are worth a warning.
const MANY: i64 = 100;
pub const NANOS: i128 = 1_000_000_000;

/// How many times passed without a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    None,
    Few,
    Many,
}

/// Where a CronJob stands in its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The last time there was a Job for, or the beginning.
    pub earliest: i64,
    /// The last time that is not in the future, if one has come since.
    pub most_recent: Option<i64>,
    pub missed: Missed,
}

/// `deadline`: times that are too late to be met do not count.
pub fn place(cron: &CronJob, schedule: &Schedule, now: i64, deadline: bool) -> Result<Place, String> {
    let mut earliest = cron.status.last_schedule.unwrap_or(cron.created);
    if let Some(seconds) = cron.spec.starting_deadline_seconds.filter(|_| deadline) {
        earliest = earliest.max(now.saturating_sub(seconds));
    }
    let none = Place { earliest, most_recent: None, missed: Missed::None };
    let first = schedule.next(earliest);
    let second = schedule.next(first);
    if now < first {
        return Ok(none);
    }
    if now < second {
        return Ok(Place { most_recent: Some(first), ..none });
    }
    let between = second.saturating_sub(first);
    if between < 1 {
        // As of 31 February: there is no next time, which is before every other.
        return Err("time difference between two schedules is less than 1 second".to_owned());
    }
    // A guess, as if all times were so far apart; the search begins one of them earlier, since they need not be.
    let missed = (now - first) / between + 1;
    let from = first.saturating_add((missed - 2).saturating_mul(between));
    let mut most_recent = None;
    let mut at = schedule.next(from);
    // Differs from kube-controller-manager: there, a schedule whose last time has come is searched for ever.
    while at <= now && at != ZERO_SECONDS {
        most_recent = Some(at);
        at = schedule.next(at);
    }
    Ok(Place { earliest, most_recent, missed: if missed > MANY { Missed::Many } else { Missed::Few } })
}

/// How long until the next time, and a moment more.
pub fn until_next(cron: &CronJob, schedule: &Schedule, now_nanos: i128) -> Duration {
    let now = seconds(now_nanos);
    let last = match place(cron, schedule, now, false) {
        Ok(Place { most_recent: Some(at), .. }) => at,
        Ok(Place { earliest, missed: Missed::None, .. }) => earliest,
        Ok(_) | Err(_) => now,
    };
    let wait = i128::from(schedule.next(last)) * NANOS + LATER_NANOS - now_nanos;
    Duration::from_nanos(u64::try_from(wait.max(0)).unwrap_or(u64::MAX))
}

pub fn seconds(nanos: i128) -> i64 {
    (nanos / NANOS) as i64
}
