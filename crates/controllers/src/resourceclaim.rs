//! Resource claims: makes the claims that pods want from templates, and takes back what no pod uses any more.
//!
//! ```text
//! pod ── wants a claim from a template ──> ResourceClaim (owned by the pod) ──> pod's status names it
//! claim ── reserved for pods that are gone or done ──> released, and not allocated once nobody is left
//! ```
//! Two loops, one over pods and one over claims: allocating is the scheduler's.

mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use client::{Client, DeleteOptions, WriteOptions};
use futures_util::future::BoxFuture;
use object::{Obj, Value};
use runtime::{
    Action, BY_CONTROLLER, Controller, Failure, Informer, InformerEvent, Key, OwnWrites, Reconcile,
    ReconcileRequest, Recorder, Severity, owners, tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::pods::mentions;
use metrics::Metrics;
use plan::Cleanup;

pub(crate) use plan::{Named, entries, named, reservations};

pub const NAME: &str = "resourceclaim-controller";
const FIELD_MANAGER: &str = "ResourceClaimController";
/// Pods by the claims they use, and by the templates they want claims from.
const BY_CLAIM: &str = "resource claim";
const BY_TEMPLATE: &str = "resource claim template";

struct Claims {
    client: Arc<dyn Client>,
    events: Recorder,
    pods: Arc<Informer>,
    claims: Arc<Informer>,
    templates: Arc<Informer>,
    /// By pod: a claim that was made must be seen before another is.
    own_writes: OwnWrites,
    metrics: Arc<Metrics>,
}

struct PodLoop(Arc<Claims>);
struct ClaimLoop(Arc<Claims>);

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let pods = context.informers.of(&PODS);
    let claims = context.informers.of(&RESOURCE_CLAIMS);
    let templates = context.informers.of(&RESOURCE_CLAIM_TEMPLATES);
    let keys = |pod: &Obj, names: Vec<String>| -> Vec<String> {
        names.iter().map(|name| format!("{}/{name}", pod.namespace())).collect()
    };
    pods.store().add_index(BY_CLAIM, move |pod| match uses_claims(pod) {
        false => Vec::new(),
        true => keys(pod, plan::claims_of(&tree(pod))),
    });
    pods.store().add_index(BY_TEMPLATE, move |pod| {
        if !uses_claims(pod) {
            return Vec::new();
        }
        let tree = tree(pod);
        let templates = plan::entries(&tree).iter().filter_map(plan::template_of);
        keys(pod, templates.map(str::to_owned).collect())
    });

    let mut tasks = Vec::new();
    let client = context.clients.controller("resource-claim-controller");
    let (events, task) =
        Recorder::start(&context.env, client.clone(), "resource_claim", context.stop.clone());
    tasks.push(task);
    let metrics = Arc::<Metrics>::default();
    Metrics::follow(claims.store());
    let (shown, counted) = (metrics.clone(), claims.clone());
    context.controllers.add_metrics(NAME, move |out| shown.render(counted.store(), out));
    let state = Arc::new(Claims {
        client,
        events,
        pods: pods.clone(),
        claims: claims.clone(),
        templates: templates.clone(),
        own_writes: OwnWrites::new(&context.env, &[&claims, &pods]),
        metrics,
    });
    let controller = Controller::new(&context.env, "resource_claim")
        .workers(context.settings.workers("concurrent-resourceclaim-syncs"))
        .max_retries(None);
    let controller = controller.watches(&pods, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if uses_claims(event.obj()) => vec![Key::of(event.obj())],
        _ => Vec::new(),
    });
    let users = |pods: &Arc<Informer>, index: &'static str| {
        let pods = pods.clone();
        move |event: &InformerEvent<'_>| {
            let users = pods.store().by_index(index, Key::of(event.obj()).as_str());
            users.iter().map(|pod| Key::of(pod)).collect()
        }
    };
    let controller = controller.watches(&claims, users(&pods, BY_CLAIM));
    let controller = controller.watches(&templates, users(&pods, BY_TEMPLATE));
    tasks.extend(controller.start(
        &context.controllers,
        Arc::new(PodLoop(state.clone())),
        context.stop.clone(),
    ));

    let controller = Controller::new(&context.env, "resource_claim_cleanup")
        .workers(context.settings.workers("concurrent-resourceclaim-syncs"))
        .max_retries(None);
    let controller = controller.watches(&claims, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    // A pod that is gone or done needs its claims no more.
    let controller = controller.watches(&pods, |event| {
        let gone = match event {
            InformerEvent::Deleted { obj, .. } => Some(*obj),
            _ => None,
        };
        let done = Some(event.obj()).filter(|pod| uses_claims(pod) && plan::is_done(&tree(pod)));
        let over = gone.filter(|pod| uses_claims(pod)).into_iter().chain(done);
        let keys = over.flat_map(|pod| {
            let claims = plan::claims_of(&tree(pod));
            claims.into_iter().map(|name| Key::new(pod.namespace(), &name)).collect::<Vec<_>>()
        });
        keys.collect()
    });
    tasks.extend(controller.start(&context.controllers, Arc::new(ClaimLoop(state)), context.stop.clone()));
    tasks
}

/// Known without reading it, and not to be missed: most pods use none.
fn uses_claims(pod: &Obj) -> bool {
    mentions(pod.body(), "\"resourceClaims\"") || mentions(pod.body(), "\"extendedResourceClaimStatus\"")
}

impl Reconcile for PodLoop {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let state = &self.0;
            state.own_writes.seen(request.key).await?;
            let Some(obj) = state.pods.store().get_key(request.key).filter(|pod| !pod.deleting()) else {
                return Ok(Action::AwaitChange);
            };
            let pod = tree(&obj);
            if plan::is_done(&pod) {
                return Ok(Action::AwaitChange);
            }
            let mut new = Vec::new();
            for entry in plan::entries(&pod) {
                let name = plan::entry_name(entry);
                match state.claim_for(&request, &obj, &pod, entry).await {
                    Ok(None) => {}
                    Ok(Some(claim)) => new.push((name.to_owned(), claim)),
                    Err(why) => {
                        let message = format!("PodResourceClaim {name}: {why}");
                        let reason = "FailedResourceClaimCreation";
                        state.events.event(&PODS, &obj, Severity::Warning, reason, message.clone());
                        return Err(Failure::Other(message));
                    }
                }
            }
            if !new.is_empty() {
                request.plan(|| format!("name the claims {new:?}"));
                let options =
                    WriteOptions { field_manager: FIELD_MANAGER, force: true, ..WriteOptions::default() };
                let statuses = plan::statuses(&pod, &new);
                let written = state.client.apply(PODS.of(&obj).sub("status"), statuses, options).await?;
                state.own_writes.note(request.key, &PODS, &written);
            }
            if plan::is_bound(&pod) {
                state.reserve(&request, &obj, &pod).await?;
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl Claims {
    /// The name of an entry's claim, where the pod does not say it yet.
    async fn claim_for(
        &self,
        request: &ReconcileRequest<'_>,
        obj: &Obj,
        pod: &Value,
        entry: &Value,
    ) -> Result<Option<String>, String> {
        match plan::named(pod, entry) {
            Named::NotNeeded => return Ok(None),
            Named::NotYet => {}
            Named::Claim { name, owned } => {
                let claim = self.claims.store().get(obj.namespace(), name);
                let ours = |claim: &Arc<Obj>| !owned || is_controlled_by(claim, obj);
                if claim.as_ref().is_some_and(ours) {
                    return Ok(None);
                }
            }
        }
        let Some(template) = plan::template_of(entry) else { return Ok(None) };
        let name = plan::entry_name(entry);
        // It may have been made, and its maker have died before the pod was told.
        let made = self.claims.store().by_index(BY_CONTROLLER, obj.uid());
        if let Some(made) = made.iter().find(|claim| plan::is_for_entry(&tree(claim), name)) {
            return Ok(Some(made.name().to_owned()));
        }
        let there = self.templates.store().get(obj.namespace(), template);
        let Some(there) = there else {
            let found = format!("resourceclaimtemplate.resource.k8s.io \"{template}\" not found");
            return Err(format!("resource claim template \"{template}\": {found}"));
        };
        request.plan(|| format!("create a claim for {name} from {template}"));
        let claim = plan::from_template(pod, name, &tree(&there));
        let target = RESOURCE_CLAIMS.within(obj.namespace());
        let made = self.client.create(target, claim.clone(), WriteOptions::default()).await;
        self.metrics.created(made.is_ok(), &claim);
        let made = made.map_err(|status| format!("create ResourceClaim : {}", status.message))?;
        self.own_writes.note(request.key, &RESOURCE_CLAIMS, &made);
        Ok(Some(made.name().to_owned()))
    }

    /// A pod that somebody else bound: the scheduler did not reserve its claims.
    async fn reserve(&self, request: &ReconcileRequest<'_>, obj: &Obj, pod: &Value) -> Result<(), Failure> {
        for entry in plan::entries(pod) {
            let Named::Claim { name, owned } = plan::named(pod, entry) else { continue };
            let Some(claim) = self.claims.store().get(obj.namespace(), name) else { return Ok(()) };
            if owned && !is_controlled_by(&claim, obj) {
                let (namespace, claim, pod) = (obj.namespace(), claim.name(), obj.name());
                return Err(Failure::Other(format!(
                    "ResourceClaim {namespace}/{claim} was not created for Pod {namespace}/{pod} (Pod is not owner)"
                )));
            }
            if let Some(reserved) = plan::reserved_for(&tree(&claim), pod) {
                request.plan(|| format!("reserve {name}"));
                let target = RESOURCE_CLAIMS.of(&claim).sub("status");
                self.client.update(target, reserved, WriteOptions::default()).await?;
            }
        }
        Ok(())
    }

    /// Whether the pod a reservation is for may still use the claim. Who is not known here may be on its way: the server is asked.
    async fn is_good(&self, namespace: &str, reservation: &Value) -> Result<bool, Failure> {
        let Some((name, uid)) = plan::reserving_pod(reservation) else { return Ok(true) };
        if let Some(pod) = self.pods.store().get(namespace, name) {
            return Ok(pod.uid() == uid && !plan::is_done(&tree(&pod)));
        }
        match self.client.get(PODS.at(namespace, name)).await {
            Ok(pod) => Ok(pod.uid() == uid),
            Err(status) if status.code == 404 => Ok(false),
            Err(status) => Err(status.into()),
        }
    }

    /// The pod that a claim was made for will not use it.
    fn is_left_over(&self, claim: &Obj) -> bool {
        let owner = owners::controller_of(claim).filter(|o| o.api_version == "v1" && o.kind == "Pod");
        let Some(owner) = owner else { return false };
        // Of a pod that is not known the garbage collector knows more.
        let Some(pod) = self.pods.store().get(claim.namespace(), &owner.name) else { return false };
        pod.uid() != owner.uid || plan::is_done(&tree(&pod))
    }
}

pub(crate) fn is_controlled_by(claim: &Obj, pod: &Obj) -> bool {
    owners::controller_of(claim).is_some_and(|owner| owner.uid == pod.uid())
}

impl Reconcile for ClaimLoop {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let state = &self.0;
            let Some(obj) = state.claims.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let claim = tree(&obj);
            let mut good = Vec::new();
            for reservation in plan::reservations(&claim) {
                if state.is_good(obj.namespace(), reservation).await? {
                    good.push(reservation.clone());
                }
            }
            let unused = good.is_empty();
            let target = || RESOURCE_CLAIMS.of(&obj);
            match plan::cleanup(&claim, good) {
                Cleanup::Nothing => {}
                Cleanup::Release(released) => {
                    request.plan(|| "take reservations back".to_owned());
                    let options = WriteOptions::default();
                    let written = state.client.update(target().sub("status"), released, options).await?;
                    let written = tree(&written);
                    if plan::has_finalizer(&written) && !plan::is_allocated(&written) {
                        let free = plan::without_finalizer(&written);
                        state.client.update(target(), free, WriteOptions::default()).await?;
                    }
                }
                Cleanup::LetGo(free) => {
                    request.plan(|| "let go of the finalizer".to_owned());
                    state.client.update(target(), free, WriteOptions::default()).await?;
                }
            }
            if unused && !obj.deleting() && state.is_left_over(&obj) {
                request.plan(|| "delete it: its pod will not use it".to_owned());
                let options = DeleteOptions {
                    preconditions: client::Preconditions::uid(obj.uid()),
                    ..DeleteOptions::default()
                };
                match state.client.delete(target(), options).await {
                    Err(status) if status.code != 404 => return Err(status.into()),
                    _ => {}
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}
