//! Sends pods away that use devices with NoExecute taints: at once, or after the time their claims tolerate.
//!
//! ```text
//! ResourceSlice (taints) ─> its tainted devices ─> claims they are allocated to ─> pods the claims are reserved for ─> queue
//! ```
//! All of it by index: a slice costs what its tainted devices are used by. A pod's key waits in the queue until its time; every
//! reconcile looks again.

mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::resources::{PODS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use client::{Client, DeleteOptions, Patch, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Status, time};
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, ObjectRef, Reconcile, ReconcileRequest,
    Recorder, Severity, Tally, tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::nodelifecycle::node::{NO_EXECUTE, Taint};
use crate::pods::mentions;
use crate::resourceclaim::is_controlled_by;
use metrics::Metrics;
use plan::{Sentence, Then};

pub const NAME: &str = "device-taint-eviction-controller";
/// Slices by `driver/pool`: all, those with NoExecute taints, and these by `driver/pool/device`.
const BY_POOL: &str = "pool";
const TAINTED_BY_POOL: &str = "tainted pool";
const BY_TAINTED_DEVICE: &str = "tainted device";
/// Claims by the devices allocated to them.
const BY_DEVICE: &str = "allocated device";

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(NAME, &mut tasks);
    let [pods, claims, slices] =
        [&PODS, &RESOURCE_CLAIMS, &RESOURCE_SLICES].map(|resource| context.informers.of(resource));
    slices.store().add_index(BY_POOL, |slice| vec![plan::pool_of(&tree(slice))]);
    slices.store().add_tally::<Generations>(BY_POOL);
    slices.store().add_index(TAINTED_BY_POOL, |slice| match tainted(slice).is_empty() {
        true => Vec::new(),
        false => vec![plan::pool_of(&tree(slice))],
    });
    slices.store().add_index(BY_TAINTED_DEVICE, |slice| tainted(slice).into_keys().collect());
    claims.store().add_index(BY_DEVICE, devices_of);
    let metrics = Arc::new(Metrics::new());
    let shown = metrics.clone();
    context.controllers.add_metrics(NAME, move |out| shown.render(out));
    let state = Arc::new(Eviction {
        env: context.env.clone(),
        client,
        recorder,
        pods: pods.clone(),
        claims: claims.clone(),
        slices: slices.clone(),
        metrics,
        sentences: Mutex::default(),
    });
    let controller = Controller::new(&context.env, NAME)
        .workers(context.settings.workers("concurrent-device-taint-eviction-syncs"))
        .max_retries(None);
    let of_pod = |event: &InformerEvent<'_>| match mentions(event.obj().body(), "\"resourceClaims\"") {
        true => vec![Key::of(event.obj())],
        false => Vec::new(),
    };
    let eviction = state.clone();
    let of_claim = move |event: &InformerEvent<'_>| eviction.pods_of_claim(event);
    let eviction = state.clone();
    let of_slice = move |event: &InformerEvent<'_>| eviction.pods_of_slice(event);
    let controller = controller.watches(&pods, of_pod).watches(&claims, of_claim).watches(&slices, of_slice);
    tasks.extend(controller.start(&context.controllers, state, context.stop.clone()));
    tasks
}

/// Most slices have no such taint, and are not read for it.
fn tainted(slice: &Obj) -> BTreeMap<String, Vec<Taint>> {
    match mentions(slice.body(), NO_EXECUTE) {
        true => plan::tainted(&tree(slice)),
        false => BTreeMap::new(),
    }
}

fn devices_of(claim: &Obj) -> Vec<String> {
    match mentions(claim.body(), "\"allocation\"") {
        true => plan::allocated(&tree(claim)).into_iter().map(|allocated| allocated.device).collect(),
        false => Vec::new(),
    }
}

/// How many slices of a pool there are of each generation.
#[derive(Default)]
struct Generations(BTreeMap<i64, usize>);

impl Tally for Generations {
    fn add(&mut self, slice: &Obj) {
        *self.0.entry(plan::generation_of(&tree(slice))).or_default() += 1;
    }
    fn remove(&mut self, slice: &Obj) {
        let generation = plan::generation_of(&tree(slice));
        let left = self.0.get(&generation).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => drop(self.0.remove(&generation)),
            left => drop(self.0.insert(generation, left)),
        }
    }
}

struct Eviction {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    pods: Arc<Informer>,
    claims: Arc<Informer>,
    slices: Arc<Informer>,
    metrics: Arc<Metrics>,
    /// Guards what was decided about pods; held for a few instructions.
    sentences: Mutex<BTreeMap<Key, Sentence>>,
}

impl Eviction {
    /// The pods a changed claim is or was reserved for, where it matters: a device is tainted, or something was decided.
    fn pods_of_claim(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let old = match event {
            InformerEvent::Updated { old, .. } => Some(*old),
            _ => None,
        };
        let mut keys = BTreeSet::new();
        for claim in old.into_iter().chain([event.obj()]) {
            let matters = devices_of(claim).iter().any(|device| self.is_tainted(device));
            let claim_tree = tree(claim);
            let pods = plan::reserving_pods(&claim_tree).map(|pod| Key::new(claim.namespace(), pod));
            keys.extend(pods.filter(|pod| matters || self.sentences.lock().contains_key(pod)));
        }
        keys.into_iter().collect()
    }

    /// The pods that use devices whose taints a changed slice changed.
    fn pods_of_slice(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let of = |slice: &Arc<Obj>| (plan::generation_of(&tree(slice)), tainted(slice));
        let devices: BTreeSet<String> = match event {
            InformerEvent::Updated { old, new, sync: false } => {
                let ((before, old), (generation, taints)) = (of(old), of(new));
                let mut devices: BTreeSet<String> = plan::changed(&old, &taints).into_iter().collect();
                if before != generation {
                    devices.extend(old.into_keys().chain(taints.into_keys()));
                    devices.extend(self.tainted_in_pool(new));
                }
                devices
            }
            // It may be that slices of the pool count from now on, or no more.
            _ => of(event.obj()).1.into_keys().chain(self.tainted_in_pool(event.obj())).collect(),
        };
        let mut keys = BTreeSet::new();
        for device in devices {
            for claim in self.claims.store().by_index(BY_DEVICE, &device) {
                let namespace = claim.namespace();
                keys.extend(plan::reserving_pods(&tree(&claim)).map(|pod| Key::new(namespace, pod)));
            }
        }
        keys.into_iter().collect()
    }

    fn tainted_in_pool(&self, slice: &Obj) -> Vec<String> {
        let pool = plan::pool_of(&tree(slice));
        let slices = self.slices.store().by_index(TAINTED_BY_POOL, &pool);
        slices.iter().flat_map(|slice| tainted(slice).into_keys()).collect()
    }

    fn is_tainted(&self, device: &str) -> bool {
        !self.slices.store().by_index(BY_TAINTED_DEVICE, device).is_empty()
    }

    /// The taints of a device, in the newest generation of its pool.
    fn taints(&self, device: &str) -> Vec<Taint> {
        for slice in self.slices.store().by_index(BY_TAINTED_DEVICE, device) {
            let slice = tree(&slice);
            let newest = |generations: &Generations| generations.0.keys().next_back().copied();
            let newest = self.slices.store().tally(BY_POOL, &plan::pool_of(&slice), newest);
            if newest.is_none_or(|newest| newest == plan::generation_of(&slice)) {
                return plan::tainted(&slice).remove(device).unwrap_or_default();
            }
        }
        Vec::new()
    }

    fn eviction_of(&self, pod: &Obj) -> Option<i64> {
        let claim = |name: &str| {
            let claim = self.claims.store().get(pod.namespace(), name)?;
            Some((tree(&claim), is_controlled_by(&claim, pod)))
        };
        plan::eviction(&tree(pod), claim, |device| self.taints(device))
    }
}

impl Reconcile for Eviction {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let key = request.key;
            let Some(pod) = self.pods.store().get_key(key) else {
                self.sentences.lock().remove(key);
                return Ok(Action::AwaitChange);
            };
            let at = self.eviction_of(&pod);
            // Another pod of the same name starts clean.
            let before = self.sentences.lock().get(key).filter(|s| s.uid == pod.uid()).cloned();
            let then = plan::judge(before.as_ref(), at, self.env.now_nanos());
            if then != Then::Nothing || before.is_some() {
                request.plan(|| format!("{then:?}"));
            }
            let waiting = Sentence { uid: pod.uid().to_owned(), evicted: false };
            match then {
                Then::Nothing => {}
                Then::Cancel => {
                    self.sentences.lock().remove(key);
                    self.tell(&pod, "Cancelling deletion");
                }
                Then::Wait(left) => {
                    self.sentences.lock().insert(key.clone(), waiting);
                    return Ok(Action::Requeue(left));
                }
                Then::Evict => {
                    self.sentences.lock().insert(key.clone(), waiting.clone());
                    if self.evict(&pod).await? {
                        let late = self.env.now_nanos() as f64 / 1e9 - at.unwrap_or_default() as f64;
                        self.metrics.evicted(late.max(0.0));
                    }
                    self.sentences.lock().insert(key.clone(), Sentence { evicted: true, ..waiting });
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl Eviction {
    /// Whether it was there to be evicted.
    async fn evict(&self, pod: &Obj) -> Result<bool, Status> {
        let gone = |status: Status| if status.code == 404 { Ok(false) } else { Err(status) };
        // As it is now: the cache may not know yet that it is being deleted.
        let now = match self.client.get(PODS.of(pod)).await {
            Ok(now) if now.uid() == pod.uid() => now,
            Ok(_) => return Ok(false),
            Err(status) => return gone(status),
        };
        if now.deleting() {
            return Ok(true);
        }
        self.tell(pod, "Marking for deletion");
        let time = time::format_seconds(self.env.now_seconds() as i64);
        if let Some(patch) = plan::mark(&tree(&now), &time) {
            let target = PODS.of(pod).sub("status");
            let marked = self.client.patch(target, Patch::Strategic(patch), WriteOptions::default()).await;
            if let Err(status) = marked {
                return gone(status);
            }
        }
        match self.client.delete(PODS.of(pod), DeleteOptions::exactly(pod)).await {
            Ok(_) => Ok(true),
            Err(status) => gone(status),
        }
    }

    fn tell(&self, pod: &Obj, message: &str) {
        let about = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            resource_version: String::new(),
            field_path: String::new(),
        };
        self.recorder.event_on(about, Severity::Normal, "DeviceTaintManagerEviction", message);
    }
}
