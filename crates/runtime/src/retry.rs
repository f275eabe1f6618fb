//! The same again after a conflict: somebody else wrote first, so read again and decide again.

use std::future::Future;
use std::time::Duration;

use env::Env;
use object::Status;

use crate::backoff::jittered;

/// How often, and how long between.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub tries: u32,
    pub first: Duration,
    pub factor: u32,
    pub jitter: f64,
}

/// Where several clients may write an object now and then.
pub const FEW_WRITERS: Schedule =
    Schedule { tries: 5, first: Duration::from_millis(10), factor: 1, jitter: 0.1 };
/// Where a controller writes often what a client may change too.
pub const BUSY_WRITERS: Schedule =
    Schedule { tries: 4, first: Duration::from_millis(10), factor: 5, jitter: 0.1 };

/// Calls `attempt` until it meets no conflict; the last conflict when the tries are used up. An attempt must read the
/// object anew, or it meets the same conflict again.
pub async fn on_conflict<T, F>(
    env: &Env,
    schedule: Schedule,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut wait = schedule.first;
    for _ in 1..schedule.tries {
        match attempt().await {
            Err(status) if is_conflict(&status) => {}
            other => return other,
        }
        env.sleep(jittered(env, wait, schedule.jitter)).await;
        wait *= schedule.factor;
    }
    attempt().await
}

/// A 409 that a newer read may mend, not one that says the name is taken.
pub fn is_conflict(status: &Status) -> bool {
    status.code == 409 && status.reason == "Conflict"
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use object::About;

    use super::*;

    async fn tries(schedule: Schedule, conflicts: u32) -> (u32, bool, u128) {
        let env = Env::simulated(3);
        let (count, begun) = (Cell::new(0), env.now_nanos());
        let result = on_conflict(&env, schedule, || {
            count.set(count.get() + 1);
            let met = count.get() <= conflicts;
            let about = About { group: "", resource: "pods" };
            async move { if met { Err(Status::modified(about, "a")) } else { Ok(()) } }
        })
        .await;
        (count.get(), result.is_ok(), (env.now_nanos() - begun) / 1_000_000)
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_retried_by_the_schedule() {
        let (count, ok, waited) = tries(FEW_WRITERS, 2).await;
        assert_eq!((count, ok), (3, true));
        assert!((20..=22 + 2).contains(&waited), "{waited}");
        let (count, ok, waited) = tries(FEW_WRITERS, 99).await;
        assert_eq!((count, ok), (5, false));
        assert!((40..=44 + 4).contains(&waited), "{waited}");
        let (count, ok, waited) = tries(BUSY_WRITERS, 99).await;
        assert_eq!((count, ok), (4, false));
        assert!((310..=341 + 3).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_returned_at_once() {
        let env = Env::simulated(3);
        let about = About { group: "", resource: "pods" };
        let result: Result<(), _> =
            on_conflict(&env, FEW_WRITERS, || async move { Err(Status::already_exists(about, "a")) }).await;
        assert_eq!(result.err().map(|s| s.reason), Some("AlreadyExists"));
    }
}
