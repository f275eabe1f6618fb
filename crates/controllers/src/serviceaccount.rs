//! Service accounts: every namespace in use has one called `default`, which pods run as that name none.

use std::sync::Arc;

use client::Client;
use client::resources::{NAMESPACES, SERVICE_ACCOUNTS};
use futures_util::future::BoxFuture;
use object::Value;
use runtime::{Controller, Failure, Informer, Key, Next, Notice, Reconcile, Turn, tree};
use table::Obj;
use tokio::task::JoinHandle;

use crate::{Context, namespace_is_going};

pub const NAME: &str = "serviceaccount-controller";
const ACCOUNT: &str = "default";

struct Accounts {
    client: Arc<dyn Client>,
    namespaces: Arc<Informer>,
    accounts: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let namespaces = context.informers.of(NAMESPACES);
    let accounts = context.informers.of(SERVICE_ACCOUNTS);
    let controller = Controller::new(&context.env, "serviceaccount").workers(1).max_retries(None);
    let controller = controller.watches(&namespaces, |notice| match notice {
        Notice::Deleted { .. } => Vec::new(),
        _ => vec![Key::of(notice.obj())],
    });
    let controller = controller.watches(&accounts, |notice| match notice {
        Notice::Deleted { obj, .. } if obj.name() == ACCOUNT => vec![Key::new("", obj.namespace())],
        _ => Vec::new(),
    });
    let client = context.clients.controller("service-account-controller");
    let reconcile = Arc::new(Accounts { client, namespaces, accounts });
    controller.start(&context.board, reconcile, context.stop.clone())
}

impl Reconcile for Accounts {
    fn reconcile<'a>(&'a self, turn: Turn<'a>) -> BoxFuture<'a, Result<Next, Failure>> {
        Box::pin(async move {
            let namespace = turn.key.name();
            let there = self.accounts.store().get(namespace, ACCOUNT);
            let Some(account) = plan(self.namespaces.store().get_key(turn.key).as_deref(), there.as_deref())
            else {
                return Ok(Next::Done);
            };
            turn.plan(|| "create the default account".to_owned());
            match self.client.create(SERVICE_ACCOUNTS.within(namespace), account).await {
                Err(status) if status.reason == "AlreadyExists" || namespace_is_going(&status) => {
                    Ok(Next::Done)
                }
                Err(status) => Err(status.into()),
                Ok(_) => Ok(Next::Done),
            }
        })
    }
}

/// The account to make. What people make of one that is there is theirs.
fn plan(namespace: Option<&Obj>, account: Option<&Obj>) -> Option<Value> {
    let active = |namespace: &Obj| tree(namespace).str_at(&["status", "phase"]) == Some("Active");
    if account.is_some() || !namespace.is_some_and(active) {
        return None;
    }
    let mut account = Value::map();
    account.map_at(&["metadata"]).set("name", ACCOUNT);
    Some(account)
}
