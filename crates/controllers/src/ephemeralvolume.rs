//! Ephemeral volumes: a pod that brings a template of a claim gets the claim, which is the pod's own and goes with it.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::{PERSISTENT_VOLUME_CLAIMS, PODS};
use client::{Client, WriteOptions};
use futures_util::future::BoxFuture;
use object::Obj;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, owners, tree,
};
use tokio::task::JoinHandle;

use crate::volumes::pods;
use crate::{Context, namespace_is_going};
use plan::{Plan, plan};

pub const NAME: &str = "ephemeral-volume-controller";

struct Ephemeral {
    client: Arc<dyn Client>,
    recorder: Recorder,
    pods: Arc<Informer>,
    claims: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller(NAME);
    let (recorder, task) =
        Recorder::start(&context.env, client.clone(), "ephemeral_volume", context.stop.clone());
    let (pods, claims) = (context.informers.of(&PODS), context.informers.of(&PERSISTENT_VOLUME_CLAIMS));
    pods::index_by_claim(&pods);
    let of_claim = pods.clone();
    let controller = Controller::new(&context.env, NAME)
        .workers(context.settings.workers("concurrent-ephemeralvolume-syncs"))
        .max_retries(None);
    let controller = controller.watches(&pods, |event| match event {
        // What a pod wants never changes.
        InformerEvent::Updated { sync: false, .. } | InformerEvent::Deleted { .. } => Vec::new(),
        _ => concerned(event.obj()),
    });
    let controller = controller.watches(&claims, move |event| match event {
        InformerEvent::Deleted { obj, .. } => {
            pods::of_claim(&of_claim, &Key::of(obj)).iter().flat_map(|pod| concerned(pod)).collect()
        }
        _ => Vec::new(),
    });
    let ephemeral = Arc::new(Ephemeral { client, recorder, pods, claims });
    let mut tasks = controller.start(&context.controllers, ephemeral, context.stop.clone());
    tasks.push(task);
    tasks
}

fn concerned(pod: &Obj) -> Vec<Key> {
    if pod.deleting() || !pods::has_ephemeral(pod) { Vec::new() } else { vec![Key::of(pod)] }
}

impl Reconcile for Ephemeral {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let pod = self.pods.store().get_key(request.key).filter(|pod| !pod.deleting());
            let Some(pod) = pod else { return Ok(Action::AwaitChange) };
            let namespace = pod.namespace();
            let owner = |claim: &str| {
                let claim = self.claims.store().get(namespace, claim)?;
                Some(owners::controller_of(&claim).map(|owner| owner.uid))
            };
            for (volume, planned) in plan(&tree(&pod), pod.uid(), &owner) {
                request.plan(|| format!("{} for volume {volume}", planned.describe()));
                let failed = match planned {
                    Plan::Foreign(why) => why,
                    Plan::Create { claim, body } => {
                        let target = PERSISTENT_VOLUME_CLAIMS.within(namespace);
                        match self.client.create(target, body, WriteOptions::default()).await {
                            Ok(_) => continue,
                            Err(status) if namespace_is_going(&status) => return Ok(Action::AwaitChange),
                            Err(status) => format!("create PVC {claim}: {}", status.message),
                        }
                    }
                };
                let told = format!("ephemeral volume {volume}: {failed}");
                self.recorder.event(&PODS, &pod, Severity::Warning, "FailedBinding", &*told);
                return Err(Failure::Other(format!("pod {}, {told}", request.key)));
            }
            Ok(Action::AwaitChange)
        })
    }
}
