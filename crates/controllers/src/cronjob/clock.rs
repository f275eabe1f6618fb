//! The wall clock is set, or the machine slept: waits are counted by a clock that did neither, so every CronJob looks again.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use runtime::queue::LOW;
use runtime::{Key, Stop, WorkQueue};

use super::CronJobs;

const PERIOD: Duration = Duration::from_secs(10);
/// Clocks that differ by less are only being corrected.
const TOLERANCE_NANOS: u128 = 1_000_000_000;

pub(super) async fn watch(state: Arc<CronJobs>, queue: Arc<WorkQueue<Key>>, stop: Stop) {
    let mut drift = Drift::new(&state.env);
    loop {
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = state.env.sleep(PERIOD) => {}
        }
        if drift.has_jumped(&state.env) {
            for key in state.cron_jobs.store().keys() {
                queue.add(key, LOW, None);
            }
        }
    }
}

/// How far the wall clock is ahead of the one that only counts.
struct Drift {
    begun: tokio::time::Instant,
    ahead: i128,
}

impl Drift {
    fn new(env: &Env) -> Drift {
        Drift { begun: env.monotonic(), ahead: env.now_nanos() as i128 }
    }

    fn has_jumped(&mut self, env: &Env) -> bool {
        let counted = (env.monotonic() - self.begun).as_nanos() as i128;
        let ahead = env.now_nanos() as i128 - counted;
        let jumped = ahead.abs_diff(self.ahead) > TOLERANCE_NANOS;
        self.ahead = ahead;
        jumped
    }
}
