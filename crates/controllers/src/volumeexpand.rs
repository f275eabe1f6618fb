//! Expansion of claims: nothing in this program makes a volume larger, so people are told who is waited for.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use futures_util::future::BoxFuture;
use kinds::persistentvolumeclaim::view::ClaimPhase;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::volumes::claim_view;
use plan::{ClaimId, Plan, grew, plan};

pub const NAME: &str = "persistentvolume-expander-controller";

struct Expand {
    client: Arc<dyn Client>,
    recorder: Recorder,
    claims: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller("expand-controller");
    let (recorder, task) =
        Recorder::start(&context.env, client.clone(), "volume_expand", context.stop.clone());
    let claims = context.informers.of(&PERSISTENT_VOLUME_CLAIMS);
    let controller = Controller::new(&context.env, NAME).workers(10).max_retries(None);
    let controller = controller.watches(&claims, |event| {
        let concerns = match event {
            InformerEvent::Added { .. } => true,
            InformerEvent::Updated { old, new, .. } => grew(&claim_view(old), &claim_view(new)),
            InformerEvent::Deleted { .. } => false,
        };
        let bound = || claim_view(event.obj()).phase == ClaimPhase::Bound;
        if concerns && bound() { vec![Key::of(event.obj())] } else { Vec::new() }
    });
    let expand = Arc::new(Expand { client, recorder, claims });
    let mut tasks = controller.start(&context.controllers, expand, context.stop.clone());
    tasks.push(task);
    tasks
}

impl Reconcile for Expand {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(claim) = self.claims.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            let view = claim_view(&claim);
            let volume =
                self.client.get(PERSISTENT_VOLUMES.at("", &view.volume)).await.map_err(|status| {
                    Failure::Other(format!("failed to get PV \"{}\": {}", view.volume, status.message))
                })?;
            let id = ClaimId { namespace: claim.namespace(), uid: claim.uid() };
            match plan(id, &view, &tree(&volume)) {
                Plan::Nothing => {}
                Plan::NotBound => {
                    let why = "persistent Volume is not bound to PVC being updated";
                    return Err(Failure::Other(format!("{why} : {}", request.key)));
                }
                Plan::AwaitOthers => {
                    request.plan(|| "wait for somebody who can".to_owned());
                    let why = "waiting for an external controller to expand this PVC";
                    let (resource, severity) = (&PERSISTENT_VOLUME_CLAIMS, Severity::Normal);
                    self.recorder.event(resource, &claim, severity, "ExternalExpanding", why);
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}
