//! Keeps the Endpoints of every Service that selects pods: the older form, still read by many.

mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{ENDPOINTS, PODS, SERVICES};
use client::{Client, DeleteOptions, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Map, Obj, Revision, Status, Value};
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, ObjectRef, Reconcile, ReconcileRequest,
    Recorder, Severity,
};
use tokio::task::JoinHandle;

pub use self::plan::{Address, Port, Subset, repack};
use self::plan::{CONTROLLER, Member, OVER_CAPACITY};
use crate::claim::{index_labels, selected};
use crate::endpointslice::set_changed_at;
use crate::namespace_is_going;
use crate::services::{ServiceView, TriggerTimes, index_services, service_view, services_to_update};
use crate::{Context, pod_view};

pub const NAME: &str = "endpoints-controller";

/// Endpoints that leaders were elected by have no service, and are nobody's leftovers.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// How long a reconcile waits for what the controller itself wrote.
const PATIENCE: Duration = Duration::from_secs(1);

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(CONTROLLER, &mut tasks);
    let informers = &context.informers;
    let (services, pods, endpoints) =
        (informers.of(&SERVICES), informers.of(&PODS), informers.of(&ENDPOINTS));
    let of_pods = services.clone();
    index_services(&services);
    index_labels(&pods);
    let controller = Controller::new(&context.env, NAME)
        .workers(context.settings.workers("concurrent-endpoint-syncs"))
        .owns_keys_of(&services)
        .watches(&pods, move |event| services_to_update(&of_pods, event))
        .batched(context.settings.endpoints.updates_batch_period)
        // What was there at the start may have lost its service while nobody looked.
        .watches(&endpoints, |event| match event {
            InformerEvent::Added { obj, initial: true } if !elected(obj) => vec![Key::of(obj)],
            InformerEvent::Deleted { obj, .. } => vec![Key::of(obj)],
            _ => Vec::new(),
        });
    let reconciler = EndpointsReconciler {
        env: context.env.clone(),
        client,
        recorder,
        services,
        pods,
        endpoints,
        written: Mutex::default(),
        times: TriggerTimes::default(),
    };
    tasks.extend(controller.start(&context.controllers, Arc::new(reconciler), context.stop.clone()));
    tasks
}

fn elected(endpoints: &Obj) -> bool {
    runtime::tree(endpoints).at(&["metadata", "annotations", LEADER]).is_some()
}

struct EndpointsReconciler {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    services: Arc<Informer>,
    pods: Arc<Informer>,
    endpoints: Arc<Informer>,
    /// The last write of each service's Endpoints: a view older than that must not be planned on.
    written: Mutex<BTreeMap<Key, Revision>>,
    times: TriggerTimes,
}

impl Reconcile for EndpointsReconciler {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            self.see_own_writes(request.key).await?;
            let there = self.endpoints.store().get_key(request.key);
            let Some(service) = self.services.store().get_key(request.key) else {
                self.times.forget(request.key);
                if let Some(there) = there {
                    match self.client.delete(ENDPOINTS.of(&there), DeleteOptions::exactly(&there)).await {
                        Err(status) if status.code != 404 => return Err(status.into()),
                        _ => {}
                    }
                }
                self.written.lock().remove(request.key);
                return Ok(Action::AwaitChange);
            };
            let view = service_view(&service);
            if view.is_ours() {
                self.hold(&request, &view, there).await?;
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl EndpointsReconciler {
    async fn see_own_writes(&self, key: &Key) -> Result<(), Failure> {
        let newest = self.written.lock().get(key).copied().unwrap_or(Revision(0));
        if self.endpoints.revision() >= newest {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.endpoints.reached(newest) => Ok(()),
            () = self.env.sleep(PATIENCE) => Err(Failure::Other(format!(
                "endpoints informer cache is out of date, resource version {newest} already processed for endpoints {key}"
            ))),
        }
    }

    async fn hold(
        &self,
        request: &ReconcileRequest<'_>,
        view: &ServiceView,
        there: Option<Arc<Obj>>,
    ) -> Result<(), Failure> {
        let selector = view.selector.as_ref();
        let pods =
            selector.map(|selector| selected(&self.pods, &view.namespace, selector)).unwrap_or_default();
        let pods: Vec<_> = pods.into_iter().map(|pod| (pod_view(&pod), pod)).collect();
        let changed = pods.iter().map(|(pod, obj)| (obj.name(), pod.ready_since));
        let changed_at = self.times.next(request.key, view.created, changed);
        let members: Vec<Member<'_>> = pods
            .iter()
            .map(|(pod, obj)| Member { namespace: obj.namespace(), name: obj.name(), uid: obj.uid(), pod })
            .collect();
        let mut subsets = plan::subsets(view, &members);
        let tree = there.as_deref().map(runtime::tree);
        if tree.as_ref().is_some_and(|tree| is_right(tree, view, &subsets)) {
            return Ok(());
        }
        let over = plan::truncate(&mut subsets);
        let mut body = tree.unwrap_or_else(|| {
            let mut body = Value::map();
            body.map_at(&["metadata"]).set("name", view.name.clone());
            body
        });
        fill(&mut body, view, &subsets, over, changed_at);
        request.plan(|| format!("{} subsets", subsets.len()));
        let result = match &there {
            None => {
                self.client.create(ENDPOINTS.within(&view.namespace), body, WriteOptions::default()).await
            }
            Some(there) => self.client.update(ENDPOINTS.of(there), body, WriteOptions::default()).await,
        };
        match result {
            Ok(endpoints) => {
                self.written.lock().insert(request.key.clone(), endpoints.revision());
                Ok(())
            }
            // It will fail until the namespace is gone.
            Err(status) if there.is_none() && namespace_is_going(&status) => Ok(()),
            Err(status) => {
                self.tell(view, there.as_deref(), &status);
                Err(status.into())
            }
        }
    }

    fn tell(&self, view: &ServiceView, there: Option<&Obj>, status: &Status) {
        let (namespace, name, why) = (&view.namespace, &view.name, &status.message);
        match there {
            Some(there) => self.recorder.event(
                &ENDPOINTS,
                there,
                Severity::Warning,
                "FailedToUpdateEndpoint",
                format!("Failed to update endpoint {namespace}/{name}: {why}"),
            ),
            None => {
                let about = ObjectRef {
                    api_version: "v1".to_owned(),
                    kind: "Endpoints".to_owned(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    uid: String::new(),
                    resource_version: String::new(),
                    field_path: String::new(),
                };
                let message = format!("Failed to create endpoint for service {namespace}/{name}: {why}");
                self.recorder.event_on(about, Severity::Warning, "FailedToCreateEndpoint", message);
            }
        }
    }
}

/// Does the object say all of it already?
fn is_right(there: &Value, service: &ServiceView, subsets: &[Subset]) -> bool {
    let labels = there.at(&["metadata", "labels"]).and_then(Value::as_map).into_iter().flat_map(|m| m.iter());
    let labels = labels.filter_map(|(k, v)| Some((k.to_string(), v.as_str()?.to_owned()))).collect();
    let marked = there.at(&["metadata", "annotations", OVER_CAPACITY]).is_some();
    let shown = Subset::read_all(there);
    // Who wrote it may have put them in another order.
    let packed = plan::repack(&shown);
    // A mark means that not all are shown, which only writing can tell.
    !marked
        && (shown == subsets || packed == subsets)
        && plan::labels_are_right(&labels, service)
        && !plan::truncate(&mut packed.clone())
}

fn fill(body: &mut Value, service: &ServiceView, subsets: &[Subset], over: bool, changed_at: Option<i64>) {
    let labels: Map = plan::labels(service).into_iter().map(|(k, v)| (k.into(), Value::Str(v))).collect();
    body.map_at(&["metadata"]).set("labels", Value::Map(labels));
    set_changed_at(body, changed_at);
    let annotations = body.map_at(&["metadata", "annotations"]);
    if over {
        annotations.set(OVER_CAPACITY, "truncated");
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    body.make_map().set("subsets", Value::List(subsets.iter().map(Subset::to_value).collect()));
}
