//! The binder of persistent volumes: claims and volumes are brought together, and volumes released when their claim is gone.
//!
//! ```text
//! claims ──> queue of claims ──> find a volume ── volume.claimRef ── volume Bound ── claim.volumeName ── claim Bound
//!              ^ a volume became free, a class came          (four writes; each may be the last one of this process)
//! volumes ─> queue of volumes ─> Available │ Bound │ Released ── Retain, Delete, Recycle │ let go of
//! ```
//! Each half names the other, and the volume's half is written first: whoever dies between finds the rest to do.

mod apply;
mod change;
mod class;
mod index;
mod plan;
mod reclaim;
mod recycle;
#[cfg(test)]
mod tests;
mod volumes;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES};
use client::{Client, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use kinds::persistentvolumeclaim::view::{ClaimPhase, ClaimView};
use object::{Obj, Value};
use parking_lot::Mutex;
use runtime::queue::NORMAL;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity, WorkQueue, tree,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Context;
use crate::volumes::newest::Newest;
use crate::volumes::{claim_view, pods, volume_view};
use class::{Class, Provisioner, default_class};
use index::Wanted;
use plan::{ClaimId, ForClaim, Told, Volume};
use volumes::Volumes;
use waiting::WaitingClaims;

pub const NAME: &str = "persistentvolume-binder-controller";
/// The index of claims by the volume they name.
const BY_VOLUME: &str = "volume";
/// Bindings that are under way at once: a disk takes their writes together.
const WORKERS: usize = 16;

struct Binder {
    client: Arc<dyn Client>,
    recorder: Recorder,
    claim_informer: Arc<Informer>,
    claims: Newest,
    volumes: Volumes,
    classes: Arc<Informer>,
    pods: Arc<Informer>,
    /// Guards the claims that wait for a volume; never held together with the index of volumes.
    waiting: Mutex<WaitingClaims>,
    claim_queue: Arc<WorkQueue<Key>>,
    volume_queue: Arc<WorkQueue<Key>>,
    /// What cannot be bound is looked at that often, and people are told again.
    sync_period: Duration,
    env: Env,
    /// Guards until when a volume that could not be emptied rests, by name.
    resting: Mutex<BTreeMap<String, Instant>>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let client = context.clients.controller("persistent-volume-binder");
    let component = "persistentvolume-controller";
    let (recorder, task) = Recorder::start(&context.env, client.clone(), component, context.stop.clone());
    tasks.push(task);
    let of = |resource| context.informers.of(resource);
    let (claims, volumes) = (of(&PERSISTENT_VOLUME_CLAIMS), of(&PERSISTENT_VOLUMES));
    let (classes, pods) = (of(&STORAGE_CLASSES), of(&PODS));
    pods::index_by_claim(&pods);
    claims.store().add_index(BY_VOLUME, |claim| {
        let named = claim_view(claim).volume.to_string();
        if named.is_empty() { Vec::new() } else { vec![named] }
    });
    let controller = |name| Controller::new(&context.env, name).workers(WORKERS).max_retries(None);
    let (of_claims, of_volumes) = (controller(NAME), controller("persistentvolume-binder-volumes"));
    let binder = Arc::new(Binder {
        client,
        recorder,
        claims: Newest::new(&claims),
        claim_informer: claims.clone(),
        volumes: Volumes::new(&volumes),
        classes: classes.clone(),
        pods: pods.clone(),
        waiting: Mutex::default(),
        claim_queue: of_claims.queue(),
        volume_queue: of_volumes.queue(),
        sync_period: context.settings.pvclaimbinder_sync_period,
        env: context.env.clone(),
        resting: Mutex::default(),
    });
    let hears = |hear: fn(&Binder, &InformerEvent<'_>) -> Vec<Key>| {
        let binder = binder.clone();
        move |event: &InformerEvent<'_>| hear(&binder, event)
    };
    let of_claims = of_claims
        .watches(&claims, hears(Binder::claim_changed))
        .watches(&classes, hears(Binder::class_changed))
        .reads(&volumes)
        .reads(&pods);
    let of_volumes = of_volumes
        .watches(&volumes, hears(Binder::volume_changed))
        .watches(&pods, hears(Binder::recycler_changed))
        .reads(&claims);
    tasks.extend(of_volumes.start(
        &context.controllers,
        Arc::new(OfVolumes(binder.clone())),
        context.stop.clone(),
    ));
    tasks.extend(of_claims.start(&context.controllers, Arc::new(OfClaims(binder)), context.stop.clone()));
    tasks
}

struct OfClaims(Arc<Binder>);
struct OfVolumes(Arc<Binder>);

impl Reconcile for OfClaims {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.0.sync_claim(request))
    }
}

impl Reconcile for OfVolumes {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.0.sync_volume(request))
    }
}

impl Binder {
    /// The claim itself; and volumes whose fate it changes.
    fn claim_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let claim = event.obj();
        let key = Key::of(claim);
        let gone = matches!(event, InformerEvent::Deleted { .. });
        if gone {
            self.claims.gone(claim);
        } else {
            self.claims.saw(claim);
        }
        let view = claim_view(claim);
        if gone || view.bind_completed || !view.volume.is_empty() {
            self.waiting.lock().remove(&key);
        }
        // Volumes that say they are the claim's: released, or not its any more.
        let mut volumes = self.volumes.reserved_for(&key);
        if !gone {
            volumes.retain(|name| !view.volume.is_empty() && **name != *view.volume);
        } else if !view.volume.is_empty() {
            volumes.push(view.volume.clone());
        }
        for name in volumes {
            self.volume_queue.add(Key::new("", &name), NORMAL, None);
        }
        if gone { Vec::new() } else { vec![key] }
    }

    /// The volume itself; and claims that wait for it.
    fn volume_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let volume = event.obj();
        let view = volume_view(volume);
        let is_deleted = matches!(event, InformerEvent::Deleted { .. });
        let seen = Volume { name: volume.name(), view: &view, deleting: volume.deleting() };
        // Also one that is bound: the volume may have been taken from it.
        let mut claims: Vec<Key> = self
            .claim_informer
            .store()
            .by_index(BY_VOLUME, volume.name())
            .iter()
            .filter(|claim| is_deleted || !plan::is_settled(id_of(claim), &claim_view(claim), &seen))
            .map(|claim| Key::of(claim))
            .collect();
        let named = view.claim.as_ref().map(|claim| Key::new(&claim.namespace, &claim.name));
        if is_deleted {
            self.volumes.gone(volume);
            claims.extend(named);
            self.wake(claims);
            return Vec::new();
        }
        let is_free = self.volumes.saw(volume);
        claims.extend(named.filter(|key| self.is_unbound(key)));
        self.wake(claims);
        if is_free {
            self.wake_for(volume);
        }
        vec![Key::of(volume)]
    }

    /// Claims that wait for the class, or for a default.
    fn class_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        if matches!(event, InformerEvent::Deleted { .. } | InformerEvent::Updated { sync: true, .. }) {
            return Vec::new();
        }
        let waiting = self.waiting.lock();
        let mut keys = waiting.of_class(event.obj().name());
        if Class::read(&tree(event.obj())).is_default {
            keys.extend(waiting.without_class());
        }
        keys
    }

    fn wake(&self, claims: Vec<Key>) {
        for key in claims {
            self.claim_queue.add(key, NORMAL, None);
        }
    }

    /// One claim that waits for a volume like this, which is free now.
    fn wake_for(&self, volume: &Obj) {
        let next = self.waiting.lock().take_for(volume, &volume_view(volume));
        self.wake(next.into_iter().collect());
    }

    fn is_unbound(&self, key: &Key) -> bool {
        self.claim_informer.store().get_key(key).is_some_and(|claim| !claim_view(&claim).bind_completed)
    }

    async fn sync_claim(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        let Some(mut claim) = self.claims.get(request.key) else {
            self.waiting.lock().remove(request.key);
            return Ok(Action::AwaitChange);
        };
        let mut view = claim_view(&claim);
        if let Some(body) = view.provisioner.as_ref().and_then(|_| change::migrated_claim(tree(&claim))) {
            claim = self.update_claim(body).await?;
            view = claim_view(&claim);
        }
        if view.volume.is_empty() && !view.bind_completed {
            return self.find_volume(&request, claim, view).await;
        }
        self.waiting.lock().remove(request.key);
        let id = id_of(&claim);
        let volume = self.volumes.get(&Key::new("", &view.volume));
        let volume_view = volume.as_ref().map(|volume| volume_view(volume));
        let seen = volume.as_ref().zip(volume_view.as_ref()).map(|(volume, view)| Volume {
            name: volume.name(),
            view,
            deleting: volume.deleting(),
        });
        if seen.as_ref().is_some_and(|volume| plan::is_settled(id, &view, volume)) {
            return Ok(Action::AwaitChange);
        }
        let planned = match view.bind_completed {
            true => plan::bound(id, &view, seen),
            false => plan::named_volume(id, &view, seen),
        };
        request.plan(|| format!("{planned:?} with volume {}", view.volume));
        match (planned, volume) {
            (ForClaim::Bind, Some(volume)) => {
                self.bind(volume, claim).await?;
                Ok(Action::AwaitChange)
            }
            (planned, _) => self.carry_out(claim, &view, planned).await,
        }
    }

    /// A claim that does not care which volume it gets.
    async fn find_volume(
        &self,
        request: &ReconcileRequest<'_>,
        claim: Arc<Obj>,
        view: Arc<ClaimView>,
    ) -> Result<Action, Failure> {
        let class = self.classes.store().get("", view.class_name()).map(|class| Class::read(&tree(&class)));
        let delayed = class.as_ref().is_some_and(|class| class.delayed);
        // Before it looks: a volume that becomes free right then has somebody to wake.
        if !delayed {
            self.waiting.lock().put(request.key, &view);
        }
        let wanted = Wanted {
            namespace: claim.namespace(),
            name: claim.name(),
            uid: claim.uid(),
            view: &view,
            delayed,
        };
        let found = self.volumes.take_best(&wanted).map_err(|why| {
            Failure::Other(format!("error finding PV for claim \"{}\": {why}", request.key))
        })?;
        if let Some(taken) = found {
            self.waiting.lock().remove(request.key);
            request.plan(|| format!("bind to volume {}", taken.volume().name()));
            let bound = self.bind(taken.volume().clone(), claim).await;
            if let Some(free) = taken.give_back() {
                self.wake_for(&free);
            }
            bound?;
            return Ok(Action::AwaitChange);
        }
        let default = if view.class.is_none() { self.default_class() } else { None };
        let planned = plan::without_volume(&view, class.as_ref(), default);
        request.plan(|| format!("{planned:?}"));
        self.carry_out(claim, &view, planned).await
    }

    /// Everything but a binding.
    async fn carry_out(
        &self,
        claim: Arc<Obj>,
        view: &ClaimView,
        planned: ForClaim,
    ) -> Result<Action, Failure> {
        match planned {
            // Its volume went between two looks.
            ForClaim::Bind => {}
            ForClaim::Pending { warning, told } => {
                if let Some(told) = told {
                    self.tell_claim(&claim, warning, told);
                }
                self.claim_status(claim, ClaimPhase::Pending, None).await?;
            }
            ForClaim::AssignClass(class) => {
                self.update_claim(change::with_class(tree(&claim), &class)).await?;
                return Ok(Action::AwaitChange);
            }
            ForClaim::AwaitConsumer => {
                self.tell_claim(&claim, false, plan::awaited(&self.unscheduled_pods(&Key::of(&claim))));
                self.claim_status(claim, ClaimPhase::Pending, None).await?;
            }
            ForClaim::Provision(provisioner) => self.provision(claim, provisioner).await?,
            ForClaim::Lost(told) => {
                if view.phase != ClaimPhase::Lost {
                    let claim = self.claim_status(claim, ClaimPhase::Lost, None).await?;
                    self.tell_claim(&claim, true, told);
                }
                return Ok(Action::AwaitChange);
            }
            ForClaim::Broken { told, why } => {
                self.tell_claim(&claim, true, told);
                return Err(Failure::Other(why));
            }
        }
        Ok(Action::Requeue(self.sync_period))
    }

    async fn provision(&self, claim: Arc<Obj>, provisioner: Provisioner) -> Result<(), Failure> {
        let name = match &provisioner {
            Provisioner::None { why } => {
                self.tell_claim(&claim, true, ("ProvisioningFailed", why.clone()));
                return Ok(());
            }
            Provisioner::External(name) | Provisioner::Disabled { name, .. } => name,
        };
        let claim = match change::with_provisioner(tree(&claim), name) {
            None => claim,
            Some(body) => match self.update_claim(body).await {
                Ok(claim) => claim,
                Err(failure) => {
                    let why = format!("Error saving claim: {failure}");
                    self.tell_claim(&claim, true, ("ProvisioningFailed", why));
                    return Err(failure);
                }
            },
        };
        match provisioner {
            Provisioner::Disabled { why, .. } => self.tell_claim(&claim, true, ("ProvisioningFailed", why)),
            _ => self.tell_claim(&claim, false, plan::awaits_provisioner(name)),
        }
        Ok(())
    }

    fn default_class(&self) -> Option<String> {
        let all = self.classes.store().list();
        default_class(all.iter().map(|class| (class.name(), Class::read(&tree(class)))))
    }

    fn unscheduled_pods(&self, claim: &Key) -> Vec<String> {
        let pods = pods::of_claim(&self.pods, claim);
        let waits = |pod: &Value| {
            !pods::is_terminated(pod) && pod.str_at(&["spec", "nodeName"]).unwrap_or_default().is_empty()
        };
        pods.iter().filter(|pod| waits(&tree(pod))).map(|pod| pod.name().to_owned()).collect()
    }

    fn tell_claim(&self, claim: &Obj, warning: bool, (reason, message): Told) {
        let severity = if warning { Severity::Warning } else { Severity::Normal };
        self.recorder.event(&PERSISTENT_VOLUME_CLAIMS, claim, severity, reason, message);
    }

    async fn update_claim(&self, body: Value) -> Result<Arc<Obj>, Failure> {
        let (namespace, name) = (text(&body, "namespace"), text(&body, "name"));
        let target = PERSISTENT_VOLUME_CLAIMS.at(&namespace, &name);
        let written = self.client.update(target, body, WriteOptions::default()).await?;
        self.claims.wrote(&written);
        Ok(written)
    }
}

fn text(object: &Value, field: &str) -> String {
    object.str_at(&["metadata", field]).unwrap_or_default().to_owned()
}

fn id_of(claim: &Obj) -> ClaimId<'_> {
    ClaimId { namespace: claim.namespace(), name: claim.name(), uid: claim.uid() }
}
