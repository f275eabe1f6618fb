//! Horizontal pod autoscaling: every 15 seconds a target gets as many replicas as its metrics ask for.
//!
//! ```text
//! autoscaler ─ scale of its target ─ metrics, pods ─ plan ─ scale ─ status
//!              (get)                 (metrics.k8s.io, custom, external)
//! ```
//! Changes do not make it look sooner: metrics are no fresher for it.

mod behavior;
mod metrics;
mod plan;
mod pods;
mod replicas;
mod selectors;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::Resource;
use client::resources::{HORIZONTAL_POD_AUTOSCALERS, PODS};
use client::{Client, Gvr, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::selector::LabelSelector;
use object::{Obj, Value, time};
use parking_lot::Mutex;
use runtime::queue::Limits;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, retry, tree,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Context;
use crate::claim::{index_labels, selected};
use behavior::History;
use metrics::MetricsClient;
use plan::{Note, Parameters, Samples, Scale, Stage, World, stage};
use pods::Pod;
use replicas::Startup;
use selectors::Selectors;
use spec::{Metric, Source, Spec};
use status::Status;

pub const NAME: &str = "horizontal-pod-autoscaler-controller";
const IDENTITY: &str = "horizontal-pod-autoscaler";

/// `--horizontal-pod-autoscaler-*`, by the flags' names.
#[derive(Clone, Debug, PartialEq)]
pub struct HorizontalPodAutoscaler {
    pub sync_period: Duration,
    pub downscale_stabilization: Duration,
    pub tolerance: f64,
    pub cpu_initialization_period: Duration,
    pub initial_readiness_delay: Duration,
}

impl Default for HorizontalPodAutoscaler {
    fn default() -> HorizontalPodAutoscaler {
        HorizontalPodAutoscaler {
            sync_period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            tolerance: 0.1,
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
        }
    }
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let settings = &context.settings.horizontal_pod_autoscaler;
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(IDENTITY, &mut tasks);
    let (autoscalers, pods) =
        (context.informers.of(&HORIZONTAL_POD_AUTOSCALERS), context.informers.of(&PODS));
    index_labels(&pods);
    let period = settings.sync_period.max(Duration::from_millis(1));
    // A failure waits as long as everything else.
    let limits = Limits { first: period, most: period, per_second: f64::MAX, burst: f64::MAX };
    let controller = Controller::new(&context.env, NAME)
        .limits(limits)
        .workers(context.settings.workers("concurrent-horizontal-pod-autoscaler-syncs"))
        .max_retries(None)
        .reads(&autoscalers);
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let sync = Arc::new(Sync {
        env: context.env.clone(),
        metrics: MetricsClient { client: client.clone() },
        client,
        recorder,
        autoscalers: autoscalers.clone(),
        pods,
        period,
        parameters: Parameters {
            tolerance: settings.tolerance,
            downscale_window_millis: millis(settings.downscale_stabilization),
            startup: Startup {
                cpu_initialization_millis: millis(settings.cpu_initialization_period),
                initial_readiness_millis: millis(settings.initial_readiness_delay),
            },
        },
        began: context.env.monotonic(),
        histories: Mutex::default(),
        selectors: Mutex::default(),
    });
    let controller = controller.reads(&sync.pods);
    let (queue, told) = (controller.queue(), sync.clone());
    // By hand: whatever changes, an autoscaler has its turn once in a period.
    autoscalers.add_resyncing_handler(Box::new(move |event| {
        let key = Key::of(event.obj());
        if let InformerEvent::Deleted { .. } = event {
            told.selectors.lock().remove(key.namespace(), key.name());
        }
        queue.add_after(key, period, None);
    }));
    tasks.extend(controller.start(&context.controllers, sync, context.stop.clone()));
    tasks
}

struct Sync {
    env: Env,
    client: Arc<dyn Client>,
    metrics: MetricsClient,
    recorder: Recorder,
    autoscalers: Arc<Informer>,
    pods: Arc<Informer>,
    period: Duration,
    parameters: Parameters,
    /// Histories count from here: the wall clock may jump.
    began: Instant,
    /// Guards what is remembered of each autoscaler; never held while waiting.
    histories: Mutex<BTreeMap<Key, History>>,
    /// Guards the selectors of all targets.
    selectors: Mutex<Selectors>,
}

impl Reconcile for Sync {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(obj) = self.autoscalers.store().get_key(request.key) else {
                self.histories.lock().remove(request.key);
                return Ok(Action::AwaitChange);
            };
            self.sync(&request, &obj).await?;
            Ok(Action::Requeue(self.period))
        })
    }
}

/// The target of an autoscaler.
struct Found {
    resource: Gvr,
    /// Its scale subresource, with its resourceVersion.
    scale: Value,
}

impl Sync {
    async fn sync(&self, request: &ReconcileRequest<'_>, obj: &Arc<Obj>) -> Result<(), Failure> {
        let body = tree(obj);
        let (spec, old) = (Spec::read(&body), Status::read(&body));
        let now_nanos = self.env.now_nanos() as i64;
        let now = now_nanos / 1_000_000_000;
        let mut status = old.clone();
        let Found { resource, scale } = match self.find(obj.namespace(), &spec).await {
            Ok(found) => found,
            Err(why) => {
                self.tell(obj, &[Note::warning("FailedGetScale", why.clone())]);
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {why}");
                status.set("AbleToScale", false, "FailedGetScale", message, now);
                self.write_anyway(obj, &old, &status).await;
                return Err(Failure::Other(why));
            }
        };
        let number = |path: &[&str]| scale.at(path).and_then(Value::as_int).map_or(0, spec::clamp);
        let counts = Scale { spec: number(&["spec", "replicas"]), status: number(&["status", "replicas"]) };
        let current = counts.spec;
        let message = "the HPA controller was able to get the target's current scale";
        status.set("AbleToScale", true, "SucceededGetScale", message, now);
        let ticks_millis = (self.env.monotonic() - self.began).as_millis() as i64;
        let mut history = self.histories.lock().get(request.key).cloned().unwrap_or_default();
        history.begin(current, ticks_millis);

        let (mut desired, mut reason, mut measured, mut failed) = (current, String::new(), Vec::new(), None);
        match stage(&spec, current) {
            Stage::Disabled => {
                let message = "scaling is disabled since the replica count of the target is zero";
                status.set("ScalingActive", false, "ScalingDisabled", message, now);
            }
            Stage::Bound { to, reason: why } => (desired, reason) = (to, why.to_owned()),
            Stage::Measure => {
                let selector = scale.str_at(&["status", "selector"]).unwrap_or("");
                let decision = match self.selected(obj, selector, &mut status, now) {
                    Err(notes) => {
                        let error = notes.first().map(|note| note.message.clone());
                        plan::Decision { notes, error, ..plan::Decision::default() }
                    }
                    Ok(pods) => {
                        let samples = self.samples(obj.namespace(), selector, &spec.metrics).await;
                        let world = World {
                            spec: &spec,
                            scale: counts,
                            pods: &pods,
                            parameters: &self.parameters,
                            now_millis: now_nanos / 1_000_000,
                            ticks_millis,
                        };
                        world.decide(samples, &mut history, &mut status)
                    }
                };
                self.tell(obj, &decision.notes);
                measured = decision.measured;
                failed = decision.error;
                match decision.desired {
                    Some(wanted) => (desired, reason) = (wanted, decision.reason),
                    None => {
                        self.histories.lock().insert(request.key.clone(), history);
                        let why = failed.unwrap_or_default();
                        status = Status { current: i64::from(current), metrics: measured, ..status };
                        self.write_anyway(obj, &old, &status).await;
                        self.tell(obj, &[Note::warning("FailedComputeMetricsReplicas", why.clone())]);
                        return Err(Failure::Other(why));
                    }
                }
            }
        }
        request.plan(|| format!("{current} replicas, {desired} are wanted: {reason}"));
        status.current = i64::from(current);
        status.metrics = measured;
        if desired != current {
            if let Err(why) = self.rescale(&resource, obj.namespace(), &spec.name, scale, desired).await {
                let note = format!("New size: {desired}; reason: {reason}; error: {why}");
                self.tell(obj, &[Note::warning("FailedRescale", note)]);
                let message = format!("the HPA controller was unable to update the target scale: {why}");
                status.set("AbleToScale", false, "FailedUpdateScale", message, now);
                self.histories.lock().insert(request.key.clone(), history);
                self.write_anyway(obj, &old, &status).await;
                return Err(Failure::Other(why));
            }
            let message = format!("the HPA controller was able to update the target scale to {desired}");
            status.set("AbleToScale", true, "SucceededRescale", message, now);
            let message = format!("New size: {desired}; reason: {reason}");
            self.tell(obj, &[Note { is_warning: false, reason: "SuccessfulRescale", message }]);
            history.scaled(current, desired, spec.behavior.as_ref(), ticks_millis);
            status.last_scale = time::format_seconds(now);
        }
        self.histories.lock().insert(request.key.clone(), history);
        status.desired = i64::from(desired);
        self.write(obj, &old, &status).await?;
        failed.map_or(Ok(()), |why| Err(Failure::Other(why)))
    }

    /// The target's scale, by its group and kind; the first refusal, if none of the resources has it.
    async fn find(&self, namespace: &str, spec: &Spec) -> Result<Found, String> {
        let group = match spec.api_version.split('/').collect::<Vec<_>>()[..] {
            [_] => "",
            [group, _] => group,
            _ => return Err(format!("unexpected GroupVersion string: {}", spec.api_version)),
        };
        let is_target = |r: &Arc<Resource>| r.group == *group && r.kind == *spec.kind;
        let mut catalog = self.client.catalog();
        if !catalog.resources().iter().any(is_target) {
            // Over HTTP only what was used before is known.
            catalog = self.client.discover().await.unwrap_or(catalog);
        }
        let mut refused = None;
        let served = catalog.resources().iter().filter(|r| is_target(r));
        for resource in served.map(|resource| Gvr::from(&**resource)) {
            match self.client.get(resource.at(namespace, &spec.name).sub("scale")).await {
                Ok(scale) => return Ok(Found { resource, scale: tree(&scale) }),
                Err(status) => refused = refused.or(Some(status.message)),
            }
        }
        Err(refused.unwrap_or_else(|| format!("no matches for kind {:?} in group {group:?}", spec.kind)))
    }

    /// The pods of the target, if nobody else scales them; else what people are told.
    fn selected(
        &self,
        obj: &Obj,
        selector: &str,
        status: &mut Status,
        now: i64,
    ) -> Result<Vec<Pod>, Vec<Note>> {
        if selector.is_empty() {
            let message = "the HPA target's scale is missing a selector";
            status.set("ScalingActive", false, "InvalidSelector", message, now);
            return Err(vec![Note::warning("SelectorRequired", "selector is required")]);
        }
        let mut refuse = |reason: &'static str, message: String| {
            status.set("ScalingActive", false, reason, message.clone(), now);
            vec![Note::warning(reason, message)]
        };
        let parsed = LabelSelector::parse(selector).map_err(|why| {
            let message =
                format!("couldn't convert selector into a corresponding internal selector object: {why}");
            refuse("InvalidSelector", message)
        })?;
        let pods = selected(&self.pods, obj.namespace(), &parsed);
        let mut selectors = self.selectors.lock();
        // One that was deleted meanwhile is not put back.
        if self.autoscalers.store().get(obj.namespace(), obj.name()).is_some() {
            selectors.put(obj.namespace(), obj.name(), parsed);
        }
        let selecting = selectors.selecting(obj.namespace(), &pods);
        drop(selectors);
        if selecting.len() > 1 {
            let names: Vec<String> =
                selecting.iter().map(|name| format!("{}/{name}", obj.namespace())).collect();
            let names = names.join(" ");
            let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{names}]");
            return Err(refuse("AmbiguousSelector", message));
        }
        Ok(pods.iter().map(|pod| Pod::read(tree(pod))).collect())
    }

    async fn samples(
        &self,
        namespace: &str,
        selector: &str,
        metrics: &[Metric],
    ) -> Vec<Result<Samples, String>> {
        let mut all = Vec::new();
        for metric in metrics {
            all.push(match &metric.source {
                Source::Resource { name, container } => {
                    let found = self.metrics.resource(namespace, selector, name, container.as_deref()).await;
                    found.map(Samples::Pods)
                }
                Source::Pods(id) => self.metrics.pods(namespace, selector, id).await.map(Samples::Pods),
                Source::Object { described, metric } => {
                    self.metrics.object(namespace, described, metric).await.map(Samples::Object)
                }
                Source::External(id) => self.metrics.external(namespace, id).await.map(Samples::External),
                Source::Unknown(_) => Err(String::new()),
            });
        }
        all
    }

    /// Once more with a fresh scale, if somebody else wrote meanwhile.
    async fn rescale(
        &self,
        resource: &Gvr,
        namespace: &str,
        name: &str,
        scale: Value,
        replicas: i32,
    ) -> Result<(), String> {
        let target = resource.at(namespace, name).sub("scale");
        let mut first = Some(scale);
        let attempt = || {
            let first = first.take();
            async move {
                let mut scale = match first {
                    Some(scale) => scale,
                    None => {
                        let fresh = self.client.get(target).await?;
                        tree(&fresh)
                    }
                };
                scale.map_at(&["spec"]).set("replicas", i64::from(replicas));
                self.client.update(target, scale, WriteOptions::default()).await.map(drop)
            }
        };
        let done = retry::on_conflict(&self.env, retry::FEW_WRITERS, attempt).await;
        done.map_err(|status| status.message)
    }

    async fn write(&self, obj: &Arc<Obj>, old: &Status, new: &Status) -> Result<(), Failure> {
        if old == new {
            return Ok(());
        }
        let mut body = tree(obj);
        body.make_map().set("status", new.to_value());
        let target = HORIZONTAL_POD_AUTOSCALERS.of(obj).sub("status");
        if let Err(status) = self.client.update(target, body, WriteOptions::default()).await {
            self.tell(obj, &[Note::warning("FailedUpdateStatus", status.message.clone())]);
            return Err(Failure::Other(format!(
                "failed to update status for {}: {}",
                obj.name(),
                status.message
            )));
        }
        Ok(())
    }

    /// Where something worse has to be told: that the status was not written is logged.
    async fn write_anyway(&self, obj: &Arc<Obj>, old: &Status, new: &Status) {
        if let Err(failure) = self.write(obj, old, new).await {
            tracing::warn!(name = obj.name(), namespace = obj.namespace(), error = %failure, "status not written");
        }
    }

    fn tell(&self, obj: &Obj, notes: &[Note]) {
        for Note { is_warning, reason, message } in notes {
            let severity = if *is_warning { Severity::Warning } else { Severity::Normal };
            self.recorder.event(&HORIZONTAL_POD_AUTOSCALERS, obj, severity, reason, message.clone());
        }
    }
}
