//! Mirrors Endpoints people write by hand, for Services without a selector, into EndpointSlices.

mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::{ENDPOINT_SLICES, ENDPOINTS, SERVICES};
use client::{Client, DeleteOptions, WriteOptions};
use futures_util::future::BoxFuture;
use object::{Obj, Status, Value};
use runtime::queue::Limits;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, owners,
};
use tokio::task::JoinHandle;

use self::plan::{CONTROLLER, EndpointsView, Mirror, Notes, Plan, SKIP};
use crate::Context;
use crate::endpointslice::Draft;
use crate::namespace_is_going;
use crate::services::{Slices, service_view};

pub const NAME: &str = "endpointslice-mirroring-controller";

/// As with slices of pods: a change may be a lot of work for everybody.
const LIMITS: Limits =
    Limits { first: Duration::from_secs(1), most: Duration::from_secs(100), per_second: 10.0, burst: 100.0 };

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller("endpointslicemirroring-controller");
    let (recorder, task) = Recorder::start(
        &context.env,
        client.clone(),
        "endpoint-slice-mirroring-controller",
        context.stop.clone(),
    );
    let mut tasks = vec![task];
    let (informers, settings) = (&context.informers, &context.settings.endpoints);
    let wait = settings.mirroring_updates_batch_period;
    let (services, endpoints) = (informers.of(&SERVICES), informers.of(&ENDPOINTS));
    let slices = informers.of(&ENDPOINT_SLICES);
    let controller = Controller::new(&context.env, NAME)
        .workers(context.settings.workers("mirroring-concurrent-service-endpoint-syncs"))
        .limits(LIMITS)
        // The annotation is looked at in the reconcile only: Endpoints are large, and most are somebody else's.
        .watches(&endpoints, |event| keys(event, |endpoints| endpoints.label(SKIP) != Some("true")))
        .batched(wait)
        .watches(&services, |event| match event {
            // Of a service only this matters: whether it selects its endpoints itself.
            InformerEvent::Updated { old, new, .. } if has_selector(old) == has_selector(new) => Vec::new(),
            _ => keys(event, |service| !has_selector(service)),
        })
        .batched(wait)
        .reads(&slices);
    let slices = Arc::new(Slices::new(&context.env, slices, CONTROLLER));
    slices.follow(controller.queue(), wait, |_| {});
    let most = settings.mirroring_max_per_subset;
    let mirror = MirrorReconciler { client, recorder, services, endpoints, slices, most };
    tasks.extend(controller.start(&context.controllers, Arc::new(mirror), context.stop.clone()));
    tasks
}

/// The key, if the object concerns this controller now or did before.
fn keys(event: &InformerEvent<'_>, concerns: impl Fn(&Obj) -> bool) -> Vec<Key> {
    let concerned = match event {
        InformerEvent::Updated { old, new, .. } => concerns(new) || concerns(old),
        InformerEvent::Added { obj, .. } | InformerEvent::Deleted { obj, .. } => concerns(obj),
    };
    concerned.then(|| Key::of(event.obj())).into_iter().collect()
}

fn has_selector(service: &Obj) -> bool {
    service_view(service).selector.is_some()
}

struct MirrorReconciler {
    client: Arc<dyn Client>,
    recorder: Recorder,
    services: Arc<Informer>,
    endpoints: Arc<Informer>,
    slices: Arc<Slices>,
    /// Addresses of one subset.
    most: usize,
}

impl Reconcile for MirrorReconciler {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let unselective =
                self.services.store().get_key(request.key).is_some_and(|service| !has_selector(&service));
            let endpoints = self.endpoints.store().get_key(request.key).filter(|_| unselective);
            let tree = endpoints.as_deref().map(runtime::tree).filter(plan::is_mirrored);
            match (endpoints, tree) {
                (Some(endpoints), Some(tree)) => self.hold(&request, &endpoints, &tree).await?,
                _ => self.clean_up(request.key).await?,
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl MirrorReconciler {
    async fn hold(
        &self,
        request: &ReconcileRequest<'_>,
        endpoints: &Obj,
        tree: &Value,
    ) -> Result<(), Failure> {
        self.slices.see_own_writes(request.key).await?;
        let there = self.slices.of(request.key);
        let mirrors: Vec<Mirror> = there.iter().map(|slice| Mirror::read(&runtime::tree(slice))).collect();
        let view = EndpointsView::read(tree);
        let plan = plan::plan(&view, &mirrors, self.most);
        request.plan(|| plan.describe());
        self.tell(endpoints, &plan);
        self.apply(request.key, endpoints, &there, plan).await
    }

    fn tell(&self, endpoints: &Obj, plan: &Plan) {
        let warn = |reason: &str, message: String| {
            self.recorder.event(&ENDPOINTS, endpoints, Severity::Warning, reason, message);
        };
        let Notes { invalid, skipped } = &plan.notes;
        if *invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            warn("InvalidIPAddress", message);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped",
                self.most
            );
            warn("TooManyAddressesToMirror", message);
        }
    }

    async fn apply(&self, key: &Key, endpoints: &Obj, there: &[Arc<Obj>], plan: Plan) -> Result<(), Failure> {
        let failed = |what: &str, status: Status| {
            let (namespace, name) = (endpoints.namespace(), endpoints.name());
            let message = &status.message;
            Failure::Other(format!(
                "failed to {what} EndpointSlice for Endpoints {namespace}/{name}: {message}"
            ))
        };
        for draft in plan.create {
            let mut body = Value::map();
            let metadata = body.map_at(&["metadata"]);
            metadata.set("generateName", format!("{}-", endpoints.name()));
            metadata.set("namespace", endpoints.namespace().to_owned());
            fill(&mut body, endpoints, draft);
            match self
                .client
                .create(ENDPOINT_SLICES.within(endpoints.namespace()), body, WriteOptions::default())
                .await
            {
                Ok(slice) => self.slices.wrote(key, &slice),
                // It will fail until the namespace is gone.
                Err(status) if namespace_is_going(&status) => return Ok(()),
                Err(status) => return Err(failed("create", status)),
            }
        }
        for (i, draft) in plan.update {
            let mut body = runtime::tree(&there[i]);
            fill(&mut body, endpoints, draft);
            match self.client.update(ENDPOINT_SLICES.of(&there[i]), body, WriteOptions::default()).await {
                Ok(slice) => self.slices.wrote(key, &slice),
                Err(status) => return Err(failed(&format!("update {}", there[i].name()), status)),
            }
        }
        for i in plan.delete {
            if let Err(status) = self.delete(key, &there[i]).await {
                return Err(failed(&format!("delete {}", there[i].name()), status));
            }
        }
        Ok(())
    }

    /// Nobody asks for mirrors any more.
    async fn clean_up(&self, key: &Key) -> Result<(), Failure> {
        let there = self.slices.of(key);
        let mut errors = Vec::new();
        for slice in &there {
            errors.extend(self.delete(key, slice).await.err());
        }
        self.slices.forget(key);
        match errors.first() {
            None => Ok(()),
            Some(first) => Err(Failure::Other(format!(
                "error(s) deleting {}/{} EndpointSlices for {key} Endpoints, including: {}",
                errors.len(),
                there.len(),
                first.message
            ))),
        }
    }

    async fn delete(&self, key: &Key, slice: &Obj) -> Result<(), Status> {
        self.slices.deletes(key, slice);
        match self.client.delete(ENDPOINT_SLICES.of(slice), DeleteOptions::exactly(slice)).await {
            Err(status) if status.code != 404 => {
                self.slices.saw_deletion(slice);
                Err(status)
            }
            _ => Ok(()),
        }
    }
}

fn fill(body: &mut Value, endpoints: &Obj, draft: Draft) {
    let owner = owners::controller_ref("v1", "Endpoints", endpoints);
    let metadata = body.map_at(&["metadata"]);
    metadata.set("ownerReferences", Value::List(vec![owner]));
    metadata.set("labels", plan::texts(draft.labels));
    metadata.set("annotations", plan::texts(draft.annotations.unwrap_or_default()));
    let root = body.make_map();
    root.set("addressType", draft.address_type.as_str());
    root.set("endpoints", Value::List(draft.endpoints.iter().map(|endpoint| endpoint.to_value()).collect()));
    root.set("ports", Value::List(draft.ports.iter().map(|port| port.to_value()).collect()));
}
