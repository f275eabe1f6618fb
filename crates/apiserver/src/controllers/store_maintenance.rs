//! Periodic maintenance: trims the history of the table, expires events, compacts etcd.

use std::sync::Arc;
use std::time::Duration;

use store::Revision;

use crate::api::Api;

const EVERY: Duration = Duration::from_secs(1);
/// Upstream compacts its etcd this often.
const COMPACT_EVERY_SECONDS: u64 = 300;

pub async fn run(api: Arc<Api>) {
    let mut shutdown = api.shutdown();
    let env = api.registry().env().clone();
    let mut compacted_at = env.now_seconds();
    // The revision of the last round: by now it is older than the history.
    let mut upto = Revision(0);
    loop {
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = env.sleep(EVERY) => {}
        }
        api.registry().table().forget_old();
        let now = env.now_seconds();
        if let Err(error) = api.registry().engine().expire(now).await {
            tracing::warn!(%error, "could not delete expired objects");
        }
        if now >= compacted_at + COMPACT_EVERY_SECONDS {
            compacted_at = now;
            if upto.0 > 0
                && let Err(error) = api.registry().engine().compact(upto).await
            {
                tracing::warn!(%error, "could not compact the store");
            }
            upto = api.registry().table().revision();
        }
    }
}
