//! When the files of a pod's volumes are brought up to date though no object changed: a token is due, or the last attempt failed.
//!
//! Differs from kubelet, which looks at every pod once a minute: a pod sleeps until there is something to do.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use tokio::task::JoinHandle;

use super::{PodTask, Shared};

/// Until the next attempt after one that failed: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MOST_PAUSE: Duration = Duration::from_secs(120);
/// The wall clock is looked at so often: it may be set, and does not stand still while the machine sleeps.
const LOOK: Duration = Duration::from_secs(600);
/// So that the pods of a node that started together do not ask together.
const JITTER_SECONDS: u64 = 10;

/// The next time a pod's volumes are refreshed, if there is one.
#[derive(Default)]
pub struct Refresh {
    timer: Option<JoinHandle<()>>,
    failures: u32,
}

impl Refresh {
    fn set(&mut self, timer: Option<JoinHandle<()>>) {
        if let Some(before) = std::mem::replace(&mut self.timer, timer) {
            before.abort();
        }
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.set(None);
    }
}

/// To be called after every attempt; the timer of the one before is replaced.
pub fn schedule(shared: &Arc<Shared>, task: &Arc<PodTask>, failed: bool) {
    let env = &shared.parts.env;
    let due = shared.parts.objects.token_due(&task.uid);
    // One that could not be renewed is used on while it is valid.
    let failed = failed || due.is_some_and(|due| due <= now(env));
    let mut cache = task.cache.lock();
    let refresh = &mut cache.refresh;
    if failed {
        let pause = (FIRST_PAUSE * 2_u32.saturating_pow(refresh.failures.min(16))).min(MOST_PAUSE);
        refresh.failures = refresh.failures.saturating_add(1);
        let env_too = env.clone();
        refresh.set(Some(timer(env, task, async move { env_too.sleep(pause).await })));
    } else {
        refresh.failures = 0;
        let later = i64::try_from(env.random_below(JITTER_SECONDS)).unwrap_or(0);
        let until = due.map(|due| at(env.clone(), due.saturating_add(later)));
        refresh.set(until.map(|until| timer(env, task, until)));
    }
}

fn timer(env: &Env, task: &Arc<PodTask>, until: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let task = Arc::downgrade(task);
    env.spawn("volume refresh", async move {
        until.await;
        if let Some(task) = task.upgrade() {
            task.refresh();
        }
    })
}

/// Returns when the wall clock shows so many Unix seconds.
async fn at(env: Env, seconds: i64) {
    loop {
        let left = u64::try_from(seconds.saturating_sub(now(&env))).unwrap_or(0);
        if left == 0 {
            return;
        }
        env.sleep(Duration::from_secs(left).min(LOOK)).await;
    }
}

fn now(env: &Env) -> i64 {
    i64::try_from(env.now_seconds()).unwrap_or(i64::MAX)
}
