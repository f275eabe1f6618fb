//! Approves requests for certificates of kubelets that may have them.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::{CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS};
use futures_util::future::BoxFuture;
use runtime::{Action, Failure, Informer, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, csr};

pub const NAME: &str = "certificatesigningrequest-approving-controller";

struct Approving {
    client: Arc<dyn Client>,
    requests: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let requests = context.informers.of(&CERTIFICATE_SIGNING_REQUESTS);
    let client = context.clients.controller(csr::IDENTITY);
    let controller = csr::controller(context, NAME, &requests);
    let approving = Arc::new(Approving { client, requests });
    controller.start(&context.controllers, approving, context.stop.clone())
}

impl Reconcile for Approving {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(obj) = self.requests.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            let csr = tree(&obj);
            let recognized = plan::recognized(&csr);
            for permission in &recognized {
                let review = self.client.review(SUBJECT_ACCESS_REVIEWS.everywhere(), permission.review(&csr));
                let allowed =
                    review.await?.at(&["status", "allowed"]).is_some_and(|v| v.as_bool() == Some(true));
                if allowed {
                    request.plan(|| permission.message.to_owned());
                    csr::write(&*self.client, "approval", permission.approved(&csr)).await?;
                    return Ok(Action::AwaitChange);
                }
            }
            if recognized.is_empty() {
                return Ok(Action::AwaitChange);
            }
            // It may be granted after the request.
            let tried: Vec<&str> = recognized.iter().map(|permission| permission.subresource).collect();
            Err(Failure::Other(format!(
                "recognized csr {:?} as [{}] but subject access review was not approved",
                obj.name(),
                tried.join(" ")
            )))
        })
    }
}
