//! What must happen now and then, without anybody asking: history forgotten, events expired, etcd compacted.

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
    // What was current at the last compaction is older than the history by the next one.
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
            tracing::warn!(%error, "could not delete what has expired");
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
