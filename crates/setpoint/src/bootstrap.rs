//! The objects a cluster begins with: created at the start, and where some cannot be, tried again while the server serves.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use apiserver::{Api, Bootstrap};
use env::Env;
use store::Engine;

/// What is missing is tried again after this time, then less and less often.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Initial objects that are refused again and again are tried so often; who has deleted the webhook waits no longer for a ready server.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A bootstrap that lacks something while the server serves.
pub struct Incomplete {
    pub why: String,
    pub completing: tokio::task::JoinHandle<()>,
}

/// Creates the initial objects. On a full disk, or where a webhook or policy refuses some, it goes on in the background while the
/// server serves: who makes space, or deletes the webhook, needs it.
pub async fn run(env: &Env, api: &Arc<Api>, engine: &Arc<dyn Engine>) -> Result<Option<Incomplete>> {
    let refused = |why: String| anyhow!("bootstrap failed: cannot create the initial objects: {why}");
    let mut bootstrap = Bootstrap::new(api).map_err(|status| refused(status.message))?;
    let Err(status) = bootstrap.attempt().await else { return Ok(None) };
    match (engine.health(), engine.full()) {
        (Err(why), _) => return Err(anyhow!("{why}")),
        (Ok(()), Some(why)) => {
            tracing::error!(reason = %why, "bootstrap is incomplete: some initial objects are missing");
        }
        (Ok(()), None) if bootstrap.can_serve_incomplete() => {
            // A webhook that is down, say. It can be deleted only where somebody serves.
            tracing::error!(
                reason = status.message,
                "bootstrap is incomplete: initial objects were refused; it goes on while this server serves"
            );
        }
        (Ok(()), None) => return Err(refused(status.message)),
    }
    let later = complete(env.clone(), bootstrap, engine.clone(), status.message.clone());
    Ok(Some(Incomplete { why: status.message, completing: env.spawn("bootstrap", later) }))
}

/// Retries until nothing is missing. `said`: why something was at first.
async fn complete(env: Env, mut bootstrap: Bootstrap, engine: Arc<dyn Engine>, mut said: String) {
    let mut wait = FIRST_WAIT;
    loop {
        env.sleep(wait).await;
        let Err(status) = bootstrap.attempt().await else {
            tracing::info!("bootstrap is complete");
            return;
        };
        wait = next_wait(wait, engine.full().is_some());
        if status.message != said {
            said = status.message;
            tracing::warn!(reason = said, "bootstrap is incomplete");
            // Something happens.
            wait = FIRST_WAIT;
        }
    }
}

/// Whoever refuses objects is asked about them again, each time. A full disk may have space again at any time.
fn next_wait(wait: Duration, full: bool) -> Duration {
    if full { FIRST_WAIT } else { (2 * wait).min(MAX_WAIT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_objects_that_are_refused_are_tried_less_and_less_often() {
        let waits = |full| {
            let next = |wait: &Duration| Some(next_wait(*wait, full));
            let waits = std::iter::successors(Some(FIRST_WAIT), next).take(7);
            waits.map(|wait| wait.as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(waits(false), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(waits(true), [1; 7]);
    }
}
