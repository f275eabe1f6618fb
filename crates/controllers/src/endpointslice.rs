//! Keeps the EndpointSlices of every Service that selects pods.

mod draft;
mod hints;
mod placed;
mod plan;
mod slice;
mod topology;
mod zones;

#[cfg(test)]
mod placed_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod topology_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use client::resources::{ENDPOINT_SLICES, NODES, PODS, SERVICES};
use client::{Client, DeleteOptions, WriteOptions};

use futures_util::future::BoxFuture;
use object::{Map, Obj, Revision, Status, Value, time};
use parking_lot::Mutex;
use runtime::queue::Limits;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, owners,
};
use tokio::task::JoinHandle;

pub use self::draft::{Draft, Plan as SlicePlan};
use self::placed::{Placed, Slice};
use self::plan::{CONTROLLER, Member, NodeOfPod, Plan};
use self::slice::slice_view;
pub use self::slice::{Endpoint, Identity, Port, SliceView, port_key};
use self::topology::{Hinted, News};
use self::zones::Zones;
use crate::changed::{Changed, Parts};
use crate::claim::{index_labels, selected};
use crate::services::{
    LAST_CHANGE, ServiceView, Slices, TriggerTimes, index_services, service_view, services_to_update,
};
use crate::{Context, pod_view};

pub const NAME: &str = "endpointslice-controller";

/// A service with no more slices is looked at as a whole: that is little work, and nothing has to be kept for it.
const FEW: usize = 2;
/// Several slices that somebody else changed are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// A slice may be a lot of work for everybody: failures wait longer than elsewhere.
const LIMITS: Limits =
    Limits { first: Duration::from_secs(1), most: Duration::from_secs(1000), per_second: 10.0, burst: 100.0 };
const ZONE: &str = "topology.kubernetes.io/zone";

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller(NAME);
    let (recorder, task) =
        Recorder::start(&context.env, client.clone(), "endpoint-slice-controller", context.stop.clone());
    let mut tasks = vec![task];
    let (informers, settings) = (&context.informers, &context.settings.endpoints);
    let (services, pods, nodes) = (informers.of(&SERVICES), informers.of(&PODS), informers.of(&NODES));
    let slices = informers.of(&ENDPOINT_SLICES);

    let of_pods = services.clone();
    index_services(&services);
    index_labels(&pods);
    let changed = Arc::new(Changed::default());
    let (by_pods, by_services, by_slices) = (changed.clone(), changed.clone(), changed.clone());
    services.add_resyncing_handler(Box::new(move |event| {
        if matches!(event, InformerEvent::Updated { sync: true, .. }) {
            by_services.forget(&Key::of(event.obj()));
        }
    }));
    let controller = Controller::new(&context.env, NAME)
        .workers(context.settings.workers("concurrent-service-endpoint-syncs"))
        .limits(LIMITS)
        .owns_keys_of(&services)
        .watches(&pods, move |event| {
            let services = services_to_update(&of_pods, event);
            services.iter().for_each(|service| by_pods.note(service, event.obj().name()));
            services
        })
        .batched(settings.slice_updates_batch_period)
        .reads(&nodes)
        .reads(&slices);
    let slices = Arc::new(Slices::new(&context.env, slices, CONTROLLER));
    slices.follow(controller.queue(), SETTLE.max(settings.slice_updates_batch_period), move |service| {
        by_slices.forget(service)
    });
    let zones = Zones::new(nodes.clone());
    zones.follow(controller.queue());
    let reconciler = SliceReconciler {
        client,
        recorder,
        services,
        pods,
        nodes,
        zones,
        slices,
        times: TriggerTimes::default(),
        changed,
        known: Mutex::default(),
        most: settings.max_per_slice,
    };
    tasks.extend(controller.start(&context.controllers, Arc::new(reconciler), context.stop.clone()));
    tasks
}

struct SliceReconciler {
    client: Arc<dyn Client>,
    recorder: Recorder,
    services: Arc<Informer>,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    zones: Arc<Zones>,
    slices: Arc<Slices>,
    times: TriggerTimes,
    /// Endpoints in one slice.
    most: usize,
    /// Pods of each service that changed since it was last looked at.
    changed: Arc<Changed>,
    /// Guards what is known of each service with many slices; taken for a few instructions.
    known: Mutex<BTreeMap<Key, Known>>,
}

/// Where the pods of a service stand, and what that rests on.
struct Known {
    basis: Basis,
    placed: Placed,
}

/// While nothing of it changes, pods that do not change stay where they are.
#[derive(PartialEq)]
struct Basis {
    service: Revision,
    node_moves: u64,
}

/// What to do, for the slices that were looked at.
struct Found {
    there: Vec<Arc<Obj>>,
    plan: Plan,
    changed_at: Option<i64>,
}

/// Slices that were written or deleted, as they are now.
type Applied = Vec<(String, Option<Slice>)>;

impl Reconcile for SliceReconciler {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(service) = self.services.store().get_key(request.key) else {
                self.times.forget(request.key);
                self.slices.forget(request.key);
                self.zones.forget(request.key);
                self.forget(request.key);
                return Ok(Action::AwaitChange);
            };
            let view = service_view(&service);
            if !view.is_ours() {
                self.zones.forget(request.key);
                self.forget(request.key);
                return Ok(Action::AwaitChange);
            }
            self.slices.see_own_writes(request.key).await?;
            let result = self.hold(&request, &service, &view).await;
            if let Err(failure) = &result {
                let message = format!(
                    "Error updating Endpoint Slices for Service {}/{}: {failure}",
                    view.namespace, view.name
                );
                self.recorder.event(
                    &SERVICES,
                    &service,
                    Severity::Warning,
                    "FailedToUpdateEndpointSlices",
                    message,
                );
            }
            result
        })
    }
}

impl SliceReconciler {
    async fn hold(
        &self,
        request: &ReconcileRequest<'_>,
        service: &Obj,
        view: &ServiceView,
    ) -> Result<Action, Failure> {
        let key = request.key;
        let (ratios, mut hinted) = self.zones.of(key, view.topology_auto);
        // Taken before anything is read: what changes meanwhile is for the next time.
        let basis = Basis { service: service.revision(), node_moves: self.zones.moves() };
        let (changed, known) = (self.changed.take(key), self.known.lock().remove(key));
        let mut placed = Placed::default();
        let mut found = None;
        // Hints by zone are shared out among all endpoints: there, every pod concerns every slice.
        let alone = !view.topology_auto && hinted == Hinted::default();
        if let (Parts::Only(names), Some(known)) = (&changed, known)
            && known.basis == basis
            && alone
        {
            placed = known.placed;
            found = self.look_at_some(key, view, &placed, names);
        }
        let Found { there, mut plan, changed_at } = match found {
            Some(found) => found,
            None => {
                let all = self.look_at_all(key, view, |members, views| {
                    plan::plan(view, members, views, self.most, false, ratios.as_ref(), &mut hinted)
                });
                placed = Placed::default();
                if all.there.len() + all.plan.create.len() > FEW {
                    for slice in &all.there {
                        placed.set(slice.name(), Some(Slice::of_view(&slice_view(slice))));
                    }
                }
                all
            }
        };
        let again = self.zones.note(key, hinted, ratios.as_ref());
        request.plan(|| plan.describe());
        let skipped = plan.notes.skipped.join(", ");
        let news = std::mem::take(&mut plan.notes.news);
        let applied = self.apply(key, service, view, &there, plan, changed_at).await;
        for news in news {
            let severity =
                if matches!(news, News::Enabled(_)) { Severity::Normal } else { Severity::Warning };
            self.recorder.event(&SERVICES, service, severity, news.reason(), news.message());
        }
        match &applied {
            Ok(Some(applied)) if skipped.is_empty() => {
                applied.iter().for_each(|(name, slice)| placed.set(name, slice.clone()));
            }
            // Not all was done: it must be looked at as a whole.
            _ => placed = Placed::default(),
        }
        if placed.len() > FEW {
            self.known.lock().insert(key.clone(), Known { basis, placed });
        } else {
            self.forget(key);
        }
        applied?;
        match skipped.is_empty() {
            false => Err(Failure::Other(skipped)),
            true if again => Ok(Action::Requeue(Duration::ZERO)),
            true => Ok(Action::AwaitChange),
        }
    }

    fn look_at_all(
        &self,
        key: &Key,
        view: &ServiceView,
        plan: impl FnOnce(&[Member<'_>], &[Arc<SliceView>]) -> Plan,
    ) -> Found {
        let pods = match &view.selector {
            Some(selector) => selected(&self.pods, &view.namespace, selector),
            None => Vec::new(),
        };
        let there = self.slices.of(key);
        let views: Vec<_> = there.iter().map(|slice| slice_view(slice)).collect();
        let members: Vec<Member<'_>> = pods.iter().map(|pod| self.member(pod)).collect();
        let changed = members.iter().map(|member| (member.name, member.pod.ready_since));
        let changed_at = self.times.next(key, view.created, changed);
        let plan = plan(&members, &views);
        Found { there, plan, changed_at }
    }

    /// Only pods that changed, and the slices it takes for them. `None`: these are not enough.
    fn look_at_some(
        &self,
        key: &Key,
        view: &ServiceView,
        placed: &Placed,
        changed: &BTreeSet<String>,
    ) -> Option<Found> {
        let pod = |name: &str| self.pods.store().get(&view.namespace, name).filter(|pod| view.selects(pod));
        let mut there = Vec::new();
        let plan = placed.narrow(changed, self.most, |names| {
            let slices: Option<Vec<_>> = names.iter().map(|name| self.slices.get(key, name)).collect();
            there = slices?;
            let views: Vec<_> = there.iter().map(|slice| slice_view(slice)).collect();
            let beside = names.iter().flat_map(|name| placed.pods_in(name)).map(|name| &**name);
            let pods: BTreeSet<&str> = changed.iter().map(String::as_str).chain(beside).collect();
            let pods: Vec<Arc<Obj>> = pods.into_iter().filter_map(pod).collect();
            let members: Vec<Member<'_>> = pods.iter().map(|pod| self.member(pod)).collect();
            Some(plan::plan(view, &members, &views, self.most, true, None, &mut Hinted::default()))
        })?;
        let times =
            changed.iter().map(|name| (name.as_str(), pod(name).map(|pod| pod_view(&pod).ready_since)));
        let changed_at = self.times.next_of(key, times);
        Some(Found { there, plan, changed_at })
    }

    fn member<'a>(&self, obj: &'a Obj) -> Member<'a> {
        let pod = pod_view(obj);
        let node = self.node(&pod.node);
        Member { namespace: obj.namespace(), name: obj.name(), uid: obj.uid(), pod, node }
    }

    fn forget(&self, key: &Key) {
        self.changed.forget(key);
        self.known.lock().remove(key);
    }

    fn node(&self, name: &str) -> NodeOfPod {
        match self.nodes.store().get("", name) {
            None => NodeOfPod::Missing,
            Some(node) => {
                NodeOfPod::There(node.label(ZONE).filter(|zone| !zone.is_empty()).map(str::to_owned))
            }
        }
    }

    async fn apply(
        &self,
        key: &Key,
        service: &Obj,
        view: &ServiceView,
        there: &[Arc<Obj>],
        plan: Plan,
        changed_at: Option<i64>,
    ) -> Result<Option<Applied>, Failure> {
        let mut applied = Applied::new();
        let now = |draft: &Draft| Slice::of(draft.address_type.as_str(), &draft.ports, &draft.endpoints);
        let failed = |what: &str, name: &str, status: Status| {
            let of =
                format!("EndpointSlice for Service {}/{}: {}", view.namespace, view.name, status.message);
            let space = if name.is_empty() { "" } else { " " };
            Failure::Other(format!("failed to {what} {name}{space}{of}"))
        };
        for draft in plan.create {
            let slice = now(&draft);
            let body = new_slice(service, view, draft, changed_at);
            match self
                .client
                .create(ENDPOINT_SLICES.within(&view.namespace), body, WriteOptions::default())
                .await
            {
                Ok(created) => {
                    self.slices.wrote(key, &created);
                    applied.push((created.name().to_owned(), Some(slice)));
                }
                // It will fail until the namespace is gone.
                Err(status) if crate::namespace_is_going(&status) => return Ok(None),
                Err(status) => return Err(failed("create", "", status)),
            }
        }
        for (i, draft) in plan.update {
            let mut body = runtime::tree(&there[i]);
            applied.push((there[i].name().to_owned(), Some(now(&draft))));
            fill(&mut body, draft, changed_at);
            match self.client.update(ENDPOINT_SLICES.of(&there[i]), body, WriteOptions::default()).await {
                Ok(slice) => self.slices.wrote(key, &slice),
                Err(status) => return Err(failed("update", there[i].name(), status)),
            }
        }
        for i in plan.delete {
            self.slices.deletes(key, &there[i]);
            let result =
                self.client.delete(ENDPOINT_SLICES.of(&there[i]), DeleteOptions::exactly(&there[i])).await;
            if let Err(status) = result
                && status.code != 404
            {
                self.slices.saw_deletion(&there[i]);
                return Err(failed("delete", there[i].name(), status));
            }
            applied.push((there[i].name().to_owned(), None));
        }
        Ok(Some(applied))
    }
}

fn new_slice(service: &Obj, view: &ServiceView, draft: Draft, changed_at: Option<i64>) -> Value {
    let mut body = Value::map();
    let metadata = body.map_at(&["metadata"]);
    metadata.set("generateName", format!("{}-", view.name));
    metadata.set("namespace", view.namespace.clone());
    metadata.set("ownerReferences", Value::List(vec![owners::controller_ref("v1", "Service", service)]));
    body.make_map().set("addressType", draft.address_type.as_str());
    fill(&mut body, draft, changed_at);
    body
}

fn fill(body: &mut Value, draft: Draft, changed_at: Option<i64>) {
    let labels: Map = draft.labels.into_iter().map(|(k, v)| (k.into(), Value::Str(v))).collect();
    body.map_at(&["metadata"]).set("labels", Value::Map(labels));
    set_changed_at(body, changed_at);
    let root = body.make_map();
    root.set("endpoints", Value::List(draft.endpoints.iter().map(slice::Endpoint::to_value).collect()));
    root.set("ports", Value::List(draft.ports.iter().map(slice::Port::to_value).collect()));
}

/// Notes when the change happened that this write shows; nothing if nobody knows.
pub fn set_changed_at(body: &mut Value, changed_at: Option<i64>) {
    let annotations = body.map_at(&["metadata", "annotations"]);
    match changed_at {
        Some(at) => annotations.set(LAST_CHANGE, time::format_seconds(at)),
        None => {
            annotations.remove(LAST_CHANGE);
        }
    }
}
