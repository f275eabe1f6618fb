//! The expressions of a policy are evaluated without a pause, and policies may be many: between them others run, and a request ends in its time.

use std::time::Duration;

use admission::Attempt;
use object::Status;
use tokio::time::Instant;

/// So long a request evaluates before others get their turn.
const SLICE: Duration = Duration::from_millis(2);

/// Of one request.
pub(crate) struct Turn<'a> {
    attempt: &'a Attempt<'a>,
    since: Instant,
}

impl<'a> Turn<'a> {
    pub fn begin(attempt: &'a Attempt<'a>) -> Turn<'a> {
        Turn { attempt, since: attempt.env.monotonic() }
    }

    /// An evaluation is over, and another may follow.
    pub async fn end_evaluation(&mut self) -> Result<(), Status> {
        let now = self.attempt.env.monotonic();
        if now >= self.attempt.deadline {
            return Err(timed_out());
        }
        if now - self.since >= SLICE {
            tokio::task::yield_now().await;
            self.since = self.attempt.env.monotonic();
        }
        Ok(())
    }
}

/// Upstream's word for a request whose time is up.
pub(crate) fn timed_out() -> Status {
    Status::timeout("request did not complete within requested timeout")
}

/// Whether the request's time is up: nobody waits for what is evaluated then.
pub(crate) fn is_over(attempt: &Attempt<'_>) -> bool {
    attempt.env.monotonic() >= attempt.deadline
}
