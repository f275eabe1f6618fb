//! Legacy service account tokens: since when their uses are tracked (a ConfigMap in kube-system), and when each was last used (a label
//! of its Secret). The legacy token cleaner goes by both.

use std::sync::Arc;
use std::time::Duration;

use client::resources;
use object::{Status, Value, time};
use parking_lot::Mutex;
use runtime::{Action, BoxFuture, Failure, JoinHandle, Key, Reconcile, ReconcileRequest, Scope};
use tokio::time::Instant;

use super::Context;
use super::cluster_authentication_trust::typed;
use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
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
/// Another server wrote first: it is looked at again after this.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps the ConfigMap.
pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let field_selector = format!("metadata.name={NAME}");
    let namespace = NAMESPACE.to_owned();
    let one = Scope { namespace, field_selector, ..Scope::all(&resources::CONFIG_MAPS) };
    let maps = context.informers.scoped(one);
    let key = || Key::new(NAMESPACE, NAME);
    let controller = context.controller("legacy-token-tracking").watches(&maps, move |_| vec![key()]);
    controller.queue().add(key(), runtime::queue::NORMAL, None);
    let may_create = Mutex::new(context.api.registry().env().monotonic());
    context.start(controller, Tracking { api: context.api.clone(), may_create })
}

struct Tracking {
    api: Arc<Api>,
    /// Guards when a ConfigMap may be created next.
    may_create: Mutex<Instant>,
}

impl Reconcile for Tracking {
    fn reconcile<'a>(&'a self, _: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let client = LoopbackClient::new(&self.api);
            let (mut may_create, now) = (*self.may_create.lock(), self.api.registry().env().monotonic());
            let wait = sync(&client, &mut may_create, now).await?;
            *self.may_create.lock() = may_create;
            Ok(Action::Requeue(wait))
        })
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
