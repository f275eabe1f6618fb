//! Protection of volumes: one that is bound to a claim is not deleted before the claim.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::PERSISTENT_VOLUMES;
use futures_util::future::BoxFuture;
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest};
use tokio::task::JoinHandle;

use crate::Context;
use crate::volumes::{in_use, volume_view};
use plan::{FINALIZER, plan};

pub const NAME: &str = "persistentvolume-protection-controller";

struct Protect {
    client: Arc<dyn Client>,
    volumes: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let volumes = context.informers.of(&PERSISTENT_VOLUMES);
    let controller = Controller::new(&context.env, NAME).workers(1).max_retries(None);
    let controller = controller.watches(&volumes, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if !in_use::is_concern(event.obj(), FINALIZER) => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    let client = context.clients.controller("pv-protection-controller");
    controller.start(&context.controllers, Arc::new(Protect { client, volumes }), context.stop.clone())
}

impl Reconcile for Protect {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let volume = self.volumes.store().get_key(request.key);
            let volume = volume.filter(|volume| in_use::is_concern(volume, FINALIZER));
            let Some(volume) = volume else { return Ok(Action::AwaitChange) };
            let what = plan(volume.deleting(), volume_view(&volume).phase);
            request.plan(|| format!("{what:?} the finalizer"));
            in_use::apply(&*self.client, &PERSISTENT_VOLUMES, &volume, FINALIZER, what).await?;
            Ok(Action::AwaitChange)
        })
    }
}
