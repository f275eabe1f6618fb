//! Signs approved requests of the signers of `kubernetes.io`.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use auth::pki::Issuer;
use client::Client;
use client::resources::CERTIFICATE_SIGNING_REQUESTS;
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{Action, Failure, Informer, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, csr};
use plan::Plan;

pub const NAME: &str = "certificatesigningrequest-signing-controller";

struct Signing {
    env: Env,
    client: Arc<dyn Client>,
    requests: Arc<Informer>,
    issuer: Issuer,
}

/// Runs only where there is a key to sign with; somebody else may have one elsewhere.
pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let Some(issuer) = context.trust.issuer.clone() else { return Vec::new() };
    let requests = context.informers.of(&CERTIFICATE_SIGNING_REQUESTS);
    let (env, client) = (context.env.clone(), context.clients.controller(csr::IDENTITY));
    let controller = csr::controller(context, NAME, &requests);
    let signing = Arc::new(Signing { env, client, requests, issuer });
    controller.start(&context.controllers, signing, context.stop.clone())
}

impl Reconcile for Signing {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(obj) = self.requests.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            let csr = tree(&obj);
            let now = self.env.now_seconds();
            let written = match plan::plan(&csr) {
                Plan::Nothing => return Ok(Action::AwaitChange),
                Plan::Refuse(why) => {
                    request.plan(|| format!("refuse it: {why}"));
                    plan::failed(&csr, &why, now as i64)
                }
                Plan::Sign { signed, lifetime_seconds } => {
                    request.plan(|| format!("sign it for {lifetime_seconds} seconds"));
                    match self.issuer.issue(&signed, &csr::usages(&csr), lifetime_seconds, now) {
                        Ok(pem) => plan::issued(&csr, &pem),
                        // Differs from kube-controller-manager, which tries for ever: what cannot be signed now never can.
                        Err(error) => plan::failed(&csr, &error.to_string(), now as i64),
                    }
                }
            };
            csr::write(&*self.client, "status", written).await?;
            Ok(Action::AwaitChange)
        })
    }
}
