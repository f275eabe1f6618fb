//! Token controller: Secrets of type `kubernetes.io/service-account-token` are filled when their account is there and
//! deleted when it is gone; an account does not speak of a token that is gone.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use client::resources::{SECRETS, SERVICE_ACCOUNTS};
use client::{Client, DeleteOptions, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Status};
use parking_lot::Mutex;
use runtime::queue::NORMAL;
use runtime::{
    Action, Cause, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Scope,
    retry, tree,
};
use tokio::task::JoinHandle;

use crate::{Context, SignToken};
use plan::{Plan, TYPE, TokenOf, fill, without_reference};

pub const NAME: &str = "serviceaccount-token-controller";
/// Secrets by `namespace/name` of their account.
const BY_ACCOUNT: &str = "account";
const TRIES: u32 = 10;

struct Tokens {
    env: Env,
    client: Arc<dyn Client>,
    secrets: Arc<Informer>,
    accounts: Arc<Informer>,
    root_ca: Option<Arc<str>>,
    sign: SignToken,
    gone: Arc<Gone>,
}

/// Guards whose tokens the Secrets were that are gone: nobody can be asked any more. Taken by the reconcile the deletion made.
type Gone = Mutex<BTreeMap<Key, Vec<TokenOf>>>;

/// Without a key nothing can be signed.
pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let Some(sign) = context.trust.sign.clone() else { return Vec::new() };
    let accounts = context.informers.of(&SERVICE_ACCOUNTS);
    // Only tokens: nobody's other Secrets are held, or wake anyone.
    let of_type = Scope { field_selector: format!("type={TYPE}"), ..Scope::all(&SECRETS) };
    let secrets = context.informers.scoped(of_type);
    secrets.store().add_index(BY_ACCOUNT, |secret| {
        TokenOf::read(&tree(secret))
            .map(|of| account_key(secret.namespace(), &of.account))
            .into_iter()
            .collect()
    });
    let controller = Controller::new(&context.env, "serviceaccount-token")
        .workers(context.settings.workers("concurrent-serviceaccount-token-syncs"))
        .max_retries(Some(TRIES));
    let (queue, gone) = (controller.queue(), Arc::<Gone>::default());
    let (told, remembered) = (queue, gone.clone());
    // By hand: what is remembered of a Secret must be there before its turn.
    secrets.add_resyncing_handler(Box::new(move |event| {
        let key = Key::of(event.obj());
        if let InformerEvent::Deleted { obj, .. } = event
            && let Some(of) = TokenOf::read(&tree(obj))
        {
            remembered.lock().entry(key.clone()).or_default().push(of);
        }
        told.add(key, NORMAL, Some(Cause::new(&SECRETS, event.obj(), "changed")));
    }));
    let held = secrets.clone();
    let controller = controller.reads(&secrets).watches(&accounts, move |event| {
        let InformerEvent::Deleted { obj: lost, .. } = event else { return Vec::new() };
        let its = held.store().by_index(BY_ACCOUNT, &account_key(lost.namespace(), lost.name()));
        its.iter().map(|secret| Key::of(secret)).collect()
    });
    // Upstream's token controller is the one that acts as the controller manager itself.
    let client = context.clients.user("system:kube-controller-manager", &[]);
    let root_ca = context.trust.root_ca.clone();
    let tokens = Tokens { env: context.env.clone(), client, secrets, accounts, root_ca, sign, gone };
    controller.start(&context.controllers, Arc::new(tokens), context.stop.clone())
}

fn account_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Reconcile for Tokens {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let gone = self.gone.lock().remove(request.key);
            for of in gone.unwrap_or_default() {
                self.forget(request.key, &of).await;
            }
            if let Some(secret) = self.secrets.store().get_key(request.key) {
                self.hold(&request, &secret).await?;
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl Tokens {
    async fn hold(&self, request: &ReconcileRequest<'_>, secret: &Obj) -> Result<(), Failure> {
        let mut body = tree(secret);
        let Some(of) = TokenOf::read(&body) else { return Ok(()) };
        let account = self.account(secret.namespace(), &of).await?;
        let step = plan::plan(&body, account.is_some(), self.root_ca.as_deref());
        request.plan(|| format!("{step:?} for the account {}", of.account));
        let result = match (step, account) {
            (Plan::Fill(lacks), Some(account)) => {
                let token = if lacks.token { Some((self.sign)(&account, secret)?) } else { None };
                let ca = self.root_ca.as_deref().filter(|_| lacks.ca);
                fill(&mut body, &account, ca, secret.namespace(), token.as_deref());
                self.client.update(SECRETS.of(secret), body, WriteOptions::default()).await.map(drop)
            }
            (Plan::Delete, _) => self.client.delete(SECRETS.of(secret), DeleteOptions::exactly(secret)).await,
            _ => return Ok(()),
        };
        match result {
            // Gone meanwhile. Differs from upstream in a conflict: it is tried again, not only after the next event.
            Err(status) if status.code == 404 => Ok(()),
            result => Ok(result?),
        }
    }

    /// From the server, if it is not known here: a Secret may be seen before its account.
    async fn account(&self, namespace: &str, of: &TokenOf) -> Result<Option<Arc<Obj>>, Status> {
        let is_it = |account: &Arc<Obj>| of.uid.is_empty() || account.uid() == of.uid;
        if let Some(account) = self.accounts.store().get(namespace, &of.account).filter(is_it) {
            return Ok(Some(account));
        }
        match self.client.get(SERVICE_ACCOUNTS.at(namespace, &of.account)).await {
            Err(status) if status.code == 404 => Ok(None),
            answer => Ok(Some(answer?).filter(is_it)),
        }
    }

    /// Takes the reference to a Secret that is gone off its account.
    async fn forget(&self, secret: &Key, of: &TokenOf) {
        let attempt = || async {
            let target = SERVICE_ACCOUNTS.at(secret.namespace(), &of.account);
            let account = self.client.get(target).await?;
            if !of.uid.is_empty() && account.uid() != of.uid {
                return Ok(());
            }
            match without_reference(tree(&account), secret.name()) {
                None => Ok(()),
                Some(body) => self.client.update(target, body, WriteOptions::default()).await.map(drop),
            }
        };
        match retry::on_conflict(&self.env, retry::FEW_WRITERS, attempt).await {
            Err(status) if status.code != 404 => {
                let (account, error) = (&of.account, status.message);
                tracing::warn!(
                    account,
                    error,
                    "failed to remove the reference to a deleted secret from its service account"
                );
            }
            _ => {}
        }
    }
}
