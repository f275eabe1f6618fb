//! Namespaces that are being deleted: their content goes, pods first; then the namespace itself.
//!
//! ```text
//! deletionTimestamp ── 5 s ──> pods gone? ── everything else gone? ── PUT finalize without "kubernetes" ──> gone
//!                                  └── no: conditions, and again after a while, or when the last pod goes
//! ```

mod apply;
mod conditions;
mod content;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{NAMESPACES, PODS};
use client::{Client, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use runtime::queue::{Limits, NORMAL};
use runtime::{
    Action, Cause, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, WorkQueue,
    tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use apply::Emptying;
use content::{aggregated_contents, contents};
use plan::{After, Required};

/// Other servers, and writers they already let through, get this long to notice that a namespace is going.
const GRACE: Duration = Duration::from_secs(5);
const RESYNC: Duration = Duration::from_secs(5 * 60);
/// Writers of one namespace are few; more conflicts than this in a row are tried again later.
const CONFLICTS: usize = 10;
/// Retries come at least once a minute.
const LIMITS: Limits =
    Limits { first: Duration::from_millis(5), most: Duration::from_secs(60), per_second: 10.0, burst: 100.0 };

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller("namespace-controller");
    let namespaces = context.informers.of(&NAMESPACES);
    let pods = context.informers.of(&PODS);
    let controller = Controller::new(&context.env, "namespace")
        .limits(LIMITS)
        .workers(context.settings.workers("concurrent-namespace-syncs"))
        .max_retries(None);
    let queue = controller.queue();
    let told = queue.clone();
    let begun = Arc::new(Begun::default());
    let forgets = begun.clone();
    namespaces.add_handler(
        Some(RESYNC),
        Box::new(move |event| {
            if let InformerEvent::Deleted { obj, .. } = event {
                forgets.lock().remove(obj.name());
            }
            if !matches!(event, InformerEvent::Deleted { .. }) && event.obj().deleting() {
                let cause = Cause::new(&NAMESPACES, event.obj(), "deleting");
                told.add_after(Key::of(event.obj()), GRACE, Some(cause));
            }
        }),
    );
    wake_after_last_pod(&pods, namespaces.clone(), begun.clone(), queue);
    let reconcile =
        Arc::new(Namespaces { env: context.env.clone(), namespaces: namespaces.clone(), begun, client });
    controller.reads(&namespaces).start(&context.controllers, reconcile, context.stop.clone())
}

/// Namespaces whose grace is over, with their uid: they had a first reconcile. Locked for one look or one change.
type Begun = Mutex<BTreeMap<String, String>>;

/// The last pod of a namespace that is going went: the rest may follow now. Not within the grace, which the first reconcile waits for.
/// Differs from upstream, which comes back after half of the pods' grace period, however fast they ended.
fn wake_after_last_pod(
    pods: &Informer,
    namespaces: Arc<Informer>,
    begun: Arc<Begun>,
    queue: Arc<WorkQueue<Key>>,
) {
    // Guards how many pods a namespace has; touched when one comes or goes.
    let counts: Mutex<BTreeMap<String, usize>> = Mutex::default();
    pods.add_handler(
        None,
        Box::new(move |event| {
            let namespace = event.obj().namespace();
            match event {
                InformerEvent::Added { .. } => {
                    *counts.lock().entry(namespace.to_owned()).or_default() += 1;
                }
                InformerEvent::Deleted { obj, .. } => {
                    let mut counts = counts.lock();
                    let Some(count) = counts.get_mut(namespace) else { return };
                    *count -= 1;
                    if *count > 0 {
                        return;
                    }
                    counts.remove(namespace);
                    let going = namespaces.store().get("", namespace).filter(|ns| ns.deleting());
                    let begun = |ns: &Obj| begun.lock().get(namespace).is_some_and(|uid| uid == ns.uid());
                    if going.is_some_and(|ns| begun(&ns)) {
                        queue.add(Key::new("", namespace), NORMAL, Some(Cause::new(&PODS, obj, "deleted")));
                    }
                }
                InformerEvent::Updated { .. } => {}
            }
        }),
    );
}

struct Namespaces {
    env: Env,
    client: Arc<dyn Client>,
    namespaces: Arc<Informer>,
    begun: Arc<Begun>,
}

impl Reconcile for Namespaces {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            {
                // Locked before the store is read: whoever takes the namespace from there comes here next.
                let mut begun = self.begun.lock();
                let Some(known) = self.namespaces.store().get_key(request.key) else {
                    return Ok(Action::AwaitChange);
                };
                // Before its pods are listed: one that goes afterwards wakes it.
                begun.insert(known.name().to_owned(), known.uid().to_owned());
            }
            match self.delete(&request).await {
                // Gone meanwhile: that is what was wanted.
                Err(Failure::Api(status)) if status.code == 404 => Ok(Action::AwaitChange),
                answer => answer,
            }
        })
    }
}

impl Namespaces {
    async fn delete(&self, request: &ReconcileRequest<'_>) -> Result<Action, Failure> {
        let mut namespace = self.client.get(NAMESPACES.at("", request.key.name())).await?;
        if plan::next(&tree(&namespace)) == Required::MarkTerminating {
            namespace = self.change(namespace, "status", plan::terminating).await?;
        }
        let mut body = tree(&namespace);
        if plan::next(&body) != Required::Empty {
            return Ok(Action::AwaitChange);
        }
        let now = self.env.now_seconds() as i64;
        let emptying = Emptying {
            client: &*self.client,
            namespace: namespace.name(),
            since_seconds: plan::age(&body, now),
        };
        // What is served now: a resource that came since the last reconcile has objects here too.
        let mut contents = contents(&*self.client.discover().await?);
        let aggregated = self.client.aggregated();
        contents.extend(aggregated_contents(&aggregated));
        let (mut found, wait_seconds) = emptying.run(&contents).await;
        found.stale = aggregated.stale;
        let after = plan::after(&found, wait_seconds);
        request.plan(|| format!("{after:?}: {found:?}"));
        if found.update(&mut body, self.env.now_seconds() as i64) {
            match self
                .client
                .update(NAMESPACES.of(&namespace).sub("status"), body, WriteOptions::default())
                .await
            {
                Ok(updated) => namespace = updated,
                Err(status) => {
                    tracing::debug!(
                        namespace = request.key.name(),
                        error = status.message,
                        "failed to update conditions"
                    );
                }
            }
        }
        match after {
            After::Fail(why) => Err(Failure::Other(why)),
            After::Wait(wait) => Ok(Action::Requeue(wait)),
            After::Finalize => {
                self.change(namespace, "finalize", plan::finalized).await?;
                Ok(Action::AwaitChange)
            }
        }
    }

    /// Writes a change of the very namespace to a subresource, again after conflicts; `change` tells whether there is one.
    async fn change(
        &self,
        mut namespace: Arc<Obj>,
        subresource: &str,
        change: impl Fn(&mut Value) -> bool,
    ) -> Result<Arc<Obj>, Failure> {
        for _ in 0..CONFLICTS {
            let mut body = tree(&namespace);
            if !change(&mut body) {
                return Ok(namespace);
            }
            match self
                .client
                .update(NAMESPACES.of(&namespace).sub(subresource), body, WriteOptions::default())
                .await
            {
                Ok(updated) => return Ok(updated),
                Err(Status { code: 409, .. }) => {}
                Err(status) => return Err(status.into()),
            }
            let now = self.client.get(NAMESPACES.of(&namespace)).await?;
            if now.uid() != namespace.uid() {
                return Err(Failure::Other("namespace uid has changed across retries".to_owned()));
            }
            namespace = now;
        }
        Err(Failure::Other(format!("the namespace is written too often to change its {subresource}")))
    }
}
