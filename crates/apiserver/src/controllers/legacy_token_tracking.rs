//! Legacy service account tokens: since when their uses are tracked (a ConfigMap in kube-system), and when each was last used (a label
//! of its Secret). The legacy token cleaner goes by both.

use std::sync::Arc;
use std::time::Duration;

use object::{Status, Value, time};
use tokio::time::Instant;

use super::cluster_authentication_trust::typed;
use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;
use crate::token_authenticator::UsedToken;

const CONFIG_MAPS: GroupResource = ("", "configmaps");
const SECRETS: GroupResource = ("", "secrets");
const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
/// At most one ConfigMap is created in this time: servers that track and others that do not must not fight.
const BETWEEN_CREATIONS: Duration = Duration::from_secs(30 * 60);
/// Upstream's resync.
const EVERY: Duration = Duration::from_secs(12 * 3600);
/// A failed write is retried after this.
const RETRY: Duration = Duration::from_secs(5);

/// Runs until shutdown: keeps the ConfigMap.
pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::new(&api);
    let env = api.registry().env().clone();
    let mut watcher = TableWatcher::new(&api, &[CONFIG_MAPS]).named(NAME);
    let (mut may_create, mut wait) = (env.monotonic(), Duration::ZERO);
    while watcher.next_events(Some(wait)).await.is_some() {
        wait = match sync(&client, &mut may_create, env.monotonic()).await {
            Ok(wait) => wait,
            Err(status) => {
                tracing::warn!(error = status.message, "could not record that legacy tokens are tracked");
                RETRY
            }
        };
    }
}

/// How long to wait before the next look.
async fn sync(
    client: &LoopbackClient<'_>,
    may_create: &mut Instant,
    now: Instant,
) -> Result<Duration, Status> {
    let today = date(client.api().registry().env().now_seconds());
    let written = match client.get(CONFIG_MAPS, NAMESPACE, NAME) {
        Some(map) if map.str_at(&["data", SINCE]).is_some_and(is_date) => return Ok(EVERY),
        Some(mut map) => {
            map.map_at(&["data"]).set(SINCE, today);
            client.update(CONFIG_MAPS, map).await
        }
        None if now < *may_create => return Ok(*may_create - now),
        None => {
            let mut map = Value::map();
            map.map_at(&["metadata"]).set("name", NAME);
            map.map_at(&["data"]).set(SINCE, today);
            let created = client.create(CONFIG_MAPS, NAMESPACE, typed(map, "v1", "ConfigMap")).await;
            if created.is_ok() {
                *may_create = now + BETWEEN_CREATIONS;
            }
            created
        }
    };
    match written {
        Err(status) if lost_race(&status) => Ok(RETRY),
        written => written.map(|()| EVERY),
    }
}

/// Runs until shutdown: labels the Secrets of tokens that were used, once a day each.
// Differs from kube-apiserver: the request that uses a token does not wait for the label.
pub async fn record_uses(api: Arc<Api>) {
    let client = LoopbackClient::new(&api);
    let mut shutdown = api.shutdown();
    loop {
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = api.token_authenticator.uses().changed() => {}
        }
        for used in api.token_authenticator.uses().take() {
            let UsedToken { namespace, secret, uid } = &used;
            let mut patch = Value::map();
            patch.map_at(&["metadata"]).set("uid", uid.clone());
            let today = date(api.registry().env().now_seconds());
            patch.map_at(&["metadata", "labels"]).set(auth::service_account::LAST_USED, today);
            if let Err(status) = client.merge_in(SECRETS, namespace, secret, patch).await {
                let error = status.message;
                tracing::warn!(namespace, secret, error, "could not label a legacy token with its last use");
            }
        }
    }
}

fn date(seconds: u64) -> String {
    time::format_seconds(i64::try_from(seconds).unwrap_or(i64::MAX)).chars().take(10).collect()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && time::parse(&format!("{text}T00:00:00Z")).is_some()
}
