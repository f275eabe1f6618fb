//! Protection of claims: one that a pod on a node uses is not deleted before the pod is gone.

mod live;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::{PERSISTENT_VOLUME_CLAIMS, PODS};
use futures_util::future::BoxFuture;
use object::Obj;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, owners, tree,
};
use tokio::task::JoinHandle;

use crate::volumes::{in_use, pods};
use crate::{Context, PodFields};
use live::LiveUses;
use plan::{Claim, FINALIZER, frees_claims, uses};

pub const NAME: &str = "persistentvolumeclaim-protection-controller";

struct Protect {
    client: Arc<dyn Client>,
    claims: Arc<Informer>,
    pods: Arc<Informer>,
    live: LiveUses,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let (claims, pods) = (context.informers.of(&PERSISTENT_VOLUME_CLAIMS), context.informers.of(&PODS));
    pods::index_by_claim(&pods);
    let fields = PodFields::of(context);
    let controller = Controller::new(&context.env, NAME).workers(5).max_retries(None);
    let controller = controller.watches(&claims, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if !in_use::is_concern(event.obj(), FINALIZER) => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    let controller = controller.watches(&pods, move |event| pod_changed(event, fields));
    let client = context.clients.controller("pvc-protection-controller");
    let protect = Arc::new(Protect { client, claims, pods, live: LiveUses::default() });
    controller.start(&context.controllers, protect, context.stop.clone())
}

/// Claims that may be free now.
fn pod_changed(event: &InformerEvent<'_>, fields: PodFields) -> Vec<Key> {
    match event {
        InformerEvent::Deleted { obj, .. } => pods::claim_keys(obj),
        _ => freed(event.obj(), fields),
    }
}

fn freed(pod: &Obj, fields: PodFields) -> Vec<Key> {
    // A pod that runs on its node holds what it has: not read.
    let may = fields.node(pod).is_empty() || fields.is_terminal(pod) || pod.deleting();
    if may && pods::may_use_claims(pod) && frees_claims(&tree(pod)) {
        pods::claim_keys(pod)
    } else {
        Vec::new()
    }
}

impl Reconcile for Protect {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let claim = self.claims.store().get_key(request.key);
            let claim = claim.filter(|claim| in_use::is_concern(claim, FINALIZER));
            let Some(claim) = claim else { return Ok(Action::AwaitChange) };
            let used = claim.deleting() && self.is_used(&claim).await?;
            let what = in_use::Protection::of(claim.deleting(), || used);
            request.plan(|| format!("{what:?} the finalizer"));
            in_use::apply(&*self.client, &PERSISTENT_VOLUME_CLAIMS, &claim, FINALIZER, what).await?;
            Ok(Action::AwaitChange)
        })
    }
}

impl Protect {
    async fn is_used(&self, obj: &Obj) -> Result<bool, Failure> {
        let owner = owners::controller_of(obj);
        let claim = Claim { name: obj.name(), owner: owner.as_ref().map(|owner| &*owner.uid) };
        let known = pods::of_claim(&self.pods, &Key::of(obj));
        if known.iter().any(|pod| uses(&tree(pod), &claim)) {
            return Ok(true);
        }
        // A pod may be there that the informer does not show yet: only the server knows.
        Ok(self.live.any(&*self.client, obj, &claim).await?)
    }
}
