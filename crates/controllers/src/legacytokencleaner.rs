//! Legacy token cleaner: auto-generated tokens of service accounts that nobody used for a year are marked invalid, and deleted after
//! another one.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use auth::node::secrets_of;
use client::resources::{CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS};
use client::{Client, DeleteOptions, Patch, Preconditions, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Status};
use runtime::{Action, Controller, Failure, Informer, Key, Reconcile, ReconcileRequest, Scope, tree};
use tokio::task::JoinHandle;

use crate::Context;
use plan::{Step, Times};

pub const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// Since when uses are recorded; written by the API server.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

struct Cleaner {
    env: Env,
    client: Arc<dyn Client>,
    secrets: Arc<Informer>,
    accounts: Arc<Informer>,
    pods: Arc<Informer>,
    period: Duration,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let of_type = Scope {
        field_selector: "type=kubernetes.io/service-account-token".to_owned(),
        ..Scope::all(&SECRETS)
    };
    let cleaner = Cleaner {
        env: context.env.clone(),
        client: context.clients.controller("legacy-service-account-token-cleaner"),
        secrets: context.informers.scoped(of_type),
        accounts: context.informers.of(&SERVICE_ACCOUNTS),
        pods: context.informers.of(&PODS),
        period: context.settings.legacy_service_account_token_clean_up_period,
    };
    let controller = Controller::new(&context.env, NAME).workers(1).max_retries(None);
    let controller = controller.reads(&cleaner.secrets).reads(&cleaner.accounts).reads(&cleaner.pods);
    controller.queue().add(Key::new("", "clean"), runtime::queue::NORMAL, None);
    controller.start(&context.controllers, Arc::new(cleaner), context.stop.clone())
}

impl Reconcile for Cleaner {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            // A new server is about to write it: nothing was tracked before.
            if let Err(status) = self.clean(&request).await
                && status.code != 404
            {
                tracing::warn!(error = status.message, "cannot tell since when legacy tokens are tracked");
            }
            Ok(Action::Requeue(EVERY))
        })
    }
}

impl Cleaner {
    async fn clean(&self, request: &ReconcileRequest<'_>) -> Result<(), Status> {
        let tracking = self.client.get(CONFIG_MAPS.at("kube-system", TRACKING)).await?;
        let now = self.env.now_seconds() as i64;
        let Some(times) = Times::new(&tree(&tracking), now, self.period.as_secs() as i64) else {
            return Ok(());
        };
        let mut mounted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for secret in self.secrets.store().list() {
            let body = tree(&secret);
            let is_ours = |of: &plan::Account| {
                let account = self.accounts.store().get(secret.namespace(), &of.name);
                account.is_some_and(|account| of.is(&account, &tree(&account), secret.name()))
            };
            let unused = plan::unused(&body, &times);
            if !unused.as_ref().is_some_and(is_ours) {
                continue;
            }
            let names = mounted
                .entry(secret.namespace().to_owned())
                .or_insert_with(|| self.mounted(secret.namespace()));
            if names.contains(secret.name()) {
                continue;
            }
            let step = plan::step(&body, &times);
            request.plan(|| format!("{}: {step:?}", secret.path()));
            self.apply(&secret, step).await;
        }
        Ok(())
    }

    /// The names of all Secrets that pods of a namespace use.
    fn mounted(&self, namespace: &str) -> BTreeSet<String> {
        let pods = self.pods.store().list_namespace(namespace);
        let names = |pod: &Arc<Obj>| secrets_of(&tree(pod)).map(str::to_owned).collect::<Vec<String>>();
        pods.iter().flat_map(names).collect()
    }

    /// What fails is tried again the next day.
    async fn apply(&self, secret: &Obj, step: Step) {
        let done = match step {
            Step::Keep => return,
            Step::Invalidate(patch) => {
                let patch = Patch::Merge(patch);
                self.client.patch(SECRETS.of(secret), patch, WriteOptions::default()).await.map(drop)
            }
            Step::Delete => {
                let preconditions =
                    Preconditions { uid: None, resource_version: Some(secret.revision().to_string()) };
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                match self.client.delete(SECRETS.of(secret), options).await {
                    Err(status) if matches!(status.code, 404 | 409) => Ok(()),
                    answer => answer,
                }
            }
        };
        if let Err(status) = done {
            tracing::warn!(secret = secret.path(), error = status.message, "cannot clean up a legacy token");
        }
    }
}
