//! The scheduler without its surroundings: objects in, decisions out.
//!
//! ```text
//! objects from informers ──> Engine::set_pod, set_node, ... ──> cluster, queue
//! next() ──> ScheduleResult::Bind (assumed already) ──> the loop binds ──> bound() / bind_failed()
//!        ──> ScheduleResult::Failed ──> the loop says why, and deletes victims
//! ```
//! Nothing here waits, and time and chance are handed in: the same calls give the same steps.

mod devices;
mod volumes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use object::Value;
use object::selector::LabelSelector;

use crate::cluster::{Cluster, Placed};
use crate::config::Config;
use crate::evaluate::devices::{Devices, GiveUp};
use crate::evaluate::preempt::{Budget, Preemption};
use crate::evaluate::volumes::Volumes;
use crate::evaluate::{Evaluator, Outcome, Rng};
use crate::node::Node;
use crate::nominated::Nominated;
use crate::plugin::{Plugin, Plugins};
use crate::pod::{OwnerKind, Pod, PodVolume, Templates};
use crate::queue::hints::Event;
use crate::queue::{Lengths, Queue, Queued};
use crate::read::{int, labels, pairs};
use crate::selectors::Selectors;
use crate::storage::VolumeBindings;
use devices::ClaimWriters;
pub use devices::{AfterClaims, ClaimBindings, ClaimKeyAndUid, Unreserved, WrittenClaims};
use volumes::Bindings;

pub struct Engine {
    config: Arc<Config>,
    templates: Templates,
    cluster: Cluster,
    selectors: Selectors,
    nominated: Nominated,
    budgets: BTreeMap<(Arc<str>, Arc<str>), Budget>,
    budgets_version: u64,
    evaluator: Evaluator,
    queue: Queue,
    unfit: Unfit,
    /// Victims of pods that made room and wait for it, by the waiting pod's uid: nobody makes room twice.
    preempting: HashMap<Arc<str>, Vec<Arc<str>>>,
    bindings: Bindings,
    writers: ClaimWriters,
    /// The wall clock at the start of `now`, in Unix seconds.
    epoch: i64,
}

/// What was found about pods that fit nowhere, while nothing has changed: pods like them fit nowhere either.
#[derive(Default)]
struct Unfit {
    /// The versions of all that is looked at.
    at: [u64; 5],
    found: HashMap<Kin, Found>,
}

/// Profile, class, priority and whether it preempts: pods for which the same nodes are feasible.
type Kin = (usize, u64, i32, bool);

#[derive(Clone)]
struct Found {
    message: String,
    rejected_by: Plugins,
    /// Whether a nomination is taken back.
    cleared: bool,
    /// For pods with volumes: what was known of volumes.
    storage: Option<u64>,
}

/// What is to be done about one pod.
#[derive(Debug)]
pub enum ScheduleResult {
    /// It goes to this node, where it is counted already.
    Bind { queued: Queued, node: Arc<str> },
    /// It goes to this node, once its volumes are bound.
    BindVolumes { queued: Queued, node: Arc<str>, volumes: Arc<VolumeBindings> },
    /// It goes to this node, once its claims are written.
    BindClaims { queued: Queued, node: Arc<str>, claims: Arc<ClaimBindings> },
    /// Its claims were not written, or their devices never got ready: it is to be taken off its node.
    ClaimsFailed { queued: Queued, node: Arc<str>, message: String, unreserved: Unreserved },
    /// Its volumes were not bound: it is to be taken off its node.
    VolumesFailed { queued: Queued, node: Arc<str>, message: String },
    /// It has no node for now, and waits for something to change.
    Failed(Failure),
}

#[derive(Debug)]
pub struct Failure {
    pub pod: Arc<Pod>,
    /// What brought the pod to be tried, and how often it was.
    pub cause: &'static str,
    pub attempts: u32,
    /// The condition's: `Unschedulable`, or `SchedulerError` when it was not for want of a node.
    pub reason: &'static str,
    /// The condition's message, and the event's.
    pub message: String,
    /// What the pod's nominated node shall be: `None` leaves it.
    pub nominated_node: Option<Arc<str>>,
    /// Pods to delete, the most important first, all on the nominated node.
    pub victims: Vec<Placed>,
    /// Less important pods that were promised room on that node, and are not any more.
    pub unpromised: Vec<Arc<Pod>>,
    /// A claim that is undone so that the pod may be placed another time.
    pub given_up: Option<GiveUp>,
}

const UNSCHEDULABLE: &str = "Unschedulable";

impl Failure {
    /// Without victims, and leaving a nomination as it is.
    pub fn new(queued: &Queued, reason: &'static str, message: String) -> Failure {
        let Queued { pod, cause, attempts, .. } = queued.clone();
        Failure {
            pod,
            cause,
            attempts,
            reason,
            message,
            nominated_node: None,
            victims: Vec::new(),
            unpromised: Vec::new(),
            given_up: None,
        }
    }
}

impl Engine {
    pub fn new(config: Config) -> Engine {
        let config = Arc::new(config);
        Engine {
            templates: Templates::default(),
            cluster: Cluster::default(),
            selectors: Selectors::default(),
            nominated: Nominated::default(),
            budgets: BTreeMap::new(),
            budgets_version: 0,
            unfit: Unfit::default(),
            preempting: HashMap::new(),
            bindings: Bindings::default(),
            writers: ClaimWriters::default(),
            epoch: 0,
            evaluator: Evaluator::new(config.clone()),
            queue: Queue::new(config.clone()),
            config,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
    pub fn lengths(&self) -> Lengths {
        self.queue.lengths()
    }
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
    pub fn is_gated(&self, uid: &str) -> bool {
        self.queue.is_gated(uid)
    }
    /// The pod as it is known while it waits.
    pub fn waiting(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.queue.get(uid)
    }
    /// When time alone will next give something to do.
    pub fn next_wake(&self) -> Option<Duration> {
        let devices = self.writers.next_deadline().into_iter().chain(self.cluster.devices().next_deadline());
        self.queue.next_wake().into_iter().chain(self.bindings.next_deadline()).chain(devices).min()
    }

    /// What cannot be handed in call by call: the wall clock when `now` is zero, a clock that goes on within a call, and chance.
    pub fn set_surroundings(
        &mut self,
        epoch: i64,
        clock: Arc<dyn Fn() -> Duration + Send + Sync>,
        seed: [u64; 2],
    ) {
        self.epoch = epoch;
        let devices = self.cluster.devices_mut();
        devices.clock = Some(clock);
        devices.seed_share_ids(seed);
    }

    /// Is this one of the names pods ask for to be scheduled here?
    pub fn schedules_for(&self, scheduler_name: &str) -> bool {
        self.config.profile(scheduler_name).is_some()
    }

    /// A pod that came or changed; the answer is what is known of it now.
    pub fn set_pod(&mut self, tree: &Value, now: Duration) -> Arc<Pod> {
        let pod = Arc::new(self.templates.parse(tree));
        if pod.finished {
            self.remove_pod(&pod.uid, now);
        } else if pod.assigned() {
            self.set_assigned(&pod, now);
        } else {
            self.set_waiting(&pod, now);
        }
        pod
    }

    fn set_assigned(&mut self, pod: &Arc<Pod>, now: Duration) {
        self.forget_volumes(&pod.uid, now);
        self.forget_devices(&pod.uid, now);
        self.queue.remove(&pod.uid);
        self.nominated.remove(&pod.uid);
        let old = self.cluster.pod(&pod.uid);
        let old = old.map(|old| (old.clone(), self.cluster.node_name(old.node).clone()));
        if !self.cluster.confirm(pod) {
            self.cluster.set_pod(pod, false);
        }
        let mut moved = |event: Event| self.queue.moved(&event, &self.cluster, now);
        // Pods that wait for others of their kind heard nothing when it was only assumed.
        if old.as_ref().is_none_or(|(old, _)| old.assumed) {
            moved(Event::Placed(&pod.class));
        }
        let Some((old, node)) = old else { return };
        if node != pod.node_name {
            // Another scheduler was quicker: what was assumed to be taken is free.
            moved(Event::gone(&old));
        }
        if old.class.id != pod.class.id {
            moved(Event::Changed { old: &old.class, new: &pod.class });
        }
        if pod.deleting && !old.deleting {
            moved(Event::Leaving(&pod.class));
        }
    }

    fn set_waiting(&mut self, pod: &Arc<Pod>, now: Duration) {
        // Not ours, or on its way to a node already: what the server says next decides.
        let ours = self.schedules_for(&pod.scheduler_name);
        let assumed = self.cluster.pod(&pod.uid).is_some_and(|placed| placed.assumed);
        if !ours || assumed {
            return;
        }
        // Differs from kube-scheduler, which queues it and then says that it skips it.
        if pod.deleting {
            self.remove_pod(&pod.uid, now);
            return;
        }
        // A promise made here is not yet in what the server says: only what it says anew counts.
        let before = self.queue.get(&pod.uid).map(|old| old.nominated_node.clone()).unwrap_or_default();
        let promised = self.nominated.node_of(&pod.uid).cloned();
        if before != pod.nominated_node {
            self.nominated.set(pod.clone(), &pod.nominated_node);
        } else if let Some(node) = promised {
            self.nominated.set(pod.clone(), &node);
        }
        self.queue.set(pod.clone(), &self.cluster, now);
        if !before.is_empty() && before != pod.nominated_node {
            let event = Event::Gone { pod: &pod.class, promised_to: Some(pod.priority) };
            self.queue.moved(&event, &self.cluster, now);
        }
    }

    pub fn remove_pod(&mut self, uid: &str, now: Duration) {
        self.preempting.remove(uid);
        self.forget_volumes(uid, now);
        self.forget_devices(uid, now);
        let promised = self.nominated.node_of(uid).is_some();
        self.nominated.remove(uid);
        if let Some(pod) = self.queue.remove(uid)
            && promised
        {
            let event = Event::Gone { pod: &pod.class, promised_to: Some(pod.priority) };
            self.queue.moved(&event, &self.cluster, now);
        }
        if let Some(placed) = self.cluster.remove_pod(uid) {
            self.queue.moved(&Event::gone(&placed), &self.cluster, now);
        }
    }

    pub fn set_node(&mut self, tree: &Value, now: Duration) {
        let node = Arc::new(Node::parse(tree));
        let old = self.cluster.node_ix(&node.name).map(|ix| self.cluster.node(ix).clone());
        if old.as_ref() == Some(&node) {
            return;
        }
        self.cluster.set_node(node.clone());
        let event = match &old {
            Some(old) => Event::NodeUpdated { old, new: &node },
            None => Event::NodeAdded(&node),
        };
        self.queue.moved(&event, &self.cluster, now);
        if old.is_some_and(|old| old.labels != node.labels) {
            self.settle_node(&node.name);
        }
    }

    pub fn remove_node(&mut self, name: &str, now: Duration) {
        let Some(ix) = self.cluster.node_ix(name) else { return };
        let node = self.cluster.node(ix).clone();
        self.cluster.remove_node(name);
        self.queue.moved(&Event::NodeRemoved(&node), &self.cluster, now);
        self.settle_node(name);
    }

    pub fn set_namespace(&mut self, name: &str, tree: Option<&Value>, now: Duration) {
        let old = self.cluster.counters().namespace_labels(name).clone();
        let new = labels(tree.and_then(|tree| tree.at(&["metadata", "labels"])));
        self.cluster.set_namespace(name, tree.map(|_| new.clone()));
        if old != new {
            self.queue.moved(&Event::Namespace { name, old: &old, new: &new }, &self.cluster, now);
        }
    }

    pub fn set_service(&mut self, namespace: &str, name: &str, tree: Option<&Value>) {
        self.selectors.set_service(namespace, name, tree);
    }

    pub fn set_owner(&mut self, kind: OwnerKind, namespace: &str, name: &str, tree: Option<&Value>) {
        self.selectors.set_owner(kind, namespace, name, tree);
    }

    pub fn set_budget(&mut self, namespace: &str, name: &str, tree: Option<&Value>) {
        let key = (Arc::from(namespace), Arc::from(name));
        self.budgets_version += 1;
        let Some(tree) = tree else {
            self.budgets.remove(&key);
            return;
        };
        let selector = tree.at(&["spec", "selector"]).unwrap_or(&Value::Null);
        let status = tree.get("status");
        let disrupted = status.and_then(|s| s.get("disruptedPods"));
        let budget = Budget {
            namespace: key.0.clone(),
            selector: LabelSelector::from_label_selector(selector)
                .unwrap_or_else(|_| LabelSelector::nothing()),
            allowed: status.and_then(|s| int(s, "disruptionsAllowed")).unwrap_or(0),
            disrupted: pairs(disrupted).into_iter().map(|(name, _)| name.to_owned()).collect(),
        };
        self.budgets.insert(key, budget);
    }

    /// Decides about the next pod that waits, if one may be tried now.
    pub fn next(&mut self, now: Duration, rng: Rng) -> Option<ScheduleResult> {
        self.cluster.devices_mut().unix_now = self.epoch.saturating_add(now.as_secs() as i64);
        self.expire_bindings(now);
        self.expire_devices(now);
        if let Some(ended) = self.bindings.ended.pop_front() {
            return Some(ended);
        }
        let queued = self.queue.pop(&self.cluster, now)?;
        let pod = queued.pod.clone();
        let profile = self.config.profile(&pod.scheduler_name).expect("others' pods are never queued");
        let pod = self.with_promise(pod);
        if let Some(Found { message, rejected_by, cleared, .. }) = self.known_unfit(profile, &pod) {
            let mut failure = Failure::new(&queued, UNSCHEDULABLE, message);
            failure.nominated_node = cleared.then(|| "".into());
            self.queue.put_back(queued, rejected_by, &self.cluster, now);
            return Some(ScheduleResult::Failed(failure));
        }
        let Engine { cluster, selectors, nominated, evaluator, .. } = self;
        let outcome = evaluator.decide(cluster, selectors, nominated, profile, &pod, rng);
        let devices = evaluator.take_devices();
        Some(match outcome {
            Outcome::Place(ix) => {
                let node = self.cluster.node_name(ix).clone();
                let volumes = Volumes::new(&self.cluster, &self.config.profiles[profile], &pod);
                let volumes = volumes.ok().flatten().map(|volumes| volumes.bindings(&self.cluster, ix));
                self.cluster.assume(&pod, ix);
                self.nominated.remove(&pod.uid);
                self.preempting.remove(&pod.uid);
                if let Some(devices) = &devices {
                    self.reserve_devices(&queued, &node, ix, devices);
                }
                match volumes.filter(|volumes| !volumes.is_empty()) {
                    None => self.bind_or_write(queued, node),
                    Some(volumes) => {
                        self.cluster.storage_mut().assume(&pod.uid, &node, &volumes);
                        let volumes = Arc::new(volumes);
                        self.bindings.insert(queued.clone(), node.clone(), volumes.clone());
                        ScheduleResult::BindVolumes { queued, node, volumes }
                    }
                }
            }
            Outcome::NoNodes => {
                let message = "no nodes available to schedule pods".to_owned();
                let mut failure = Failure::new(&queued, UNSCHEDULABLE, message);
                failure.nominated_node = Some("".into());
                self.queue.put_aside(queued, now);
                self.nominated.remove(&pod.uid);
                ScheduleResult::Failed(failure)
            }
            Outcome::Failed(message) => {
                let mut failure = Failure::new(&queued, "SchedulerError", message);
                failure.nominated_node = Some("".into());
                self.queue.put_back(queued, Plugins::EMPTY, &self.cluster, now);
                self.nominated.remove(&pod.uid);
                ScheduleResult::Failed(failure)
            }
            Outcome::Unfit(diagnosis) => {
                self.unfit(queued, &pod, profile, diagnosis, devices.as_ref(), now, rng)
            }
        })
    }

    /// What the plugins say that are asked when no node is left, in their order.
    fn after_filters(&self, profile: usize, claims: &'static str, preemption: Option<&str>) -> String {
        let plugins = &self.config.profiles[profile].post_filter;
        let claims = plugins.has(Plugin::DynamicResources).then_some(claims);
        let preemption = preemption.map(|words| format!("preemption: {words}"));
        claims.into_iter().chain(preemption.as_deref()).collect::<Vec<_>>().join(", ")
    }

    #[allow(clippy::too_many_arguments)]
    fn unfit(
        &mut self,
        queued: Queued,
        pod: &Pod,
        profile: usize,
        mut diagnosis: crate::verdict::Diagnosis,
        devices: Option<&Devices>,
        now: Duration,
        rng: Rng,
    ) -> ScheduleResult {
        let mut failure = Failure::new(&queued, UNSCHEDULABLE, String::new());
        failure.nominated_node = Some("".into());
        let waits = self
            .preempting
            .get(&pod.uid)
            .is_some_and(|victims| victims.iter().any(|victim| self.cluster.pod(victim).is_some()));
        if !waits {
            self.preempting.remove(&pod.uid);
        }
        let mut claims = "no new claims to deallocate";
        if let Some(devices) = devices.filter(|_| diagnosis.pre_filter.is_none())
            && self.config.profiles[profile].post_filter.has(Plugin::DynamicResources)
        {
            failure.given_up = devices.to_give_up(pod);
            claims = match &failure.given_up {
                Some(GiveUp::Deallocate(_)) => "deallocation of ResourceClaim completed",
                Some(GiveUp::Delete(_)) => "deletion of ResourceClaim completed",
                None => "still not schedulable",
            };
        }
        let by_claims = diagnosis.plugins == [Plugin::DynamicResources].into_iter().collect();
        if diagnosis.pre_filter.is_some()
            && !by_claims
            && self.config.profiles[profile].post_filter.has(Plugin::DynamicResources)
        {
            // It was turned away before its devices were looked at. In kube-scheduler's words, of what it then does not find.
            diagnosis.post_filter = "not found".to_owned();
            failure.nominated_node = None;
        } else if waits {
            // Its victims are on their way: looking again now would find others elsewhere.
            let words = "not eligible due to a terminating pod on the nominated node.";
            diagnosis.post_filter = self.after_filters(profile, claims, Some(words));
            failure.nominated_node = None;
        } else if self.config.profiles[profile].post_filter.has(Plugin::DefaultPreemption) {
            let budgets: Vec<Budget> = self.budgets.values().cloned().collect();
            let Engine { cluster, selectors, nominated, evaluator, .. } = self;
            match evaluator.preempt(cluster, selectors, nominated, &budgets, profile, pod, &diagnosis, rng) {
                Preemption::Room { node, victims } => {
                    let name = self.cluster.node_name(node).clone();
                    let less = |other: &&Arc<Pod>| other.priority < pod.priority;
                    failure.unpromised = self.nominated.on(&name).iter().filter(less).cloned().collect();
                    failure.unpromised.iter().for_each(|other| self.nominated.remove(&other.uid));
                    failure.victims = victims.into_iter().filter(|victim| !victim.deleting).collect();
                    if !failure.victims.is_empty() {
                        let victims = failure.victims.iter().map(|victim| victim.uid.clone()).collect();
                        self.preempting.insert(pod.uid.clone(), victims);
                    }
                    failure.nominated_node = Some(name);
                }
                Preemption::Helpless(words) => {
                    diagnosis.post_filter = self.after_filters(profile, claims, Some(&words));
                }
                Preemption::Refused(words) => {
                    diagnosis.post_filter = self.after_filters(profile, claims, Some(words));
                    failure.nominated_node = None;
                }
            }
        } else {
            diagnosis.post_filter = self.after_filters(profile, claims, None);
        }
        failure.message = diagnosis.message(&pod.class.spec);
        if let Some(node) = &failure.nominated_node {
            self.nominated.set(queued.pod.clone(), node);
        }
        let mut rejected_by = diagnosis.plugins;
        if rejected_by.is_empty() {
            rejected_by = Plugins::all();
        }
        self.evaluator.take_back(diagnosis);
        self.queue.put_back(queued, rejected_by, &self.cluster, now);
        let alike = !self.asks_for_claims(pod);
        if alike && failure.victims.is_empty() && pod.nominated_node.is_empty() && !waits {
            let key = (profile, pod.class.id, pod.priority, pod.preempts);
            let cleared = failure.nominated_node.is_some();
            let storage = self.storage_version(pod);
            let found = Found { message: failure.message.clone(), rejected_by, cleared, storage };
            self.unfit.found.insert(key, found);
        }
        ScheduleResult::Failed(failure)
    }

    /// What was found about a pod like this one, if nothing has changed since.
    fn known_unfit(&mut self, profile: usize, pod: &Pod) -> Option<Found> {
        let at = [
            self.cluster.version(),
            self.cluster.counters().terms_version(),
            self.selectors.version(),
            self.nominated.version(),
            self.budgets_version,
        ];
        if self.unfit.at != at {
            self.unfit = Unfit { at, found: HashMap::new() };
            return None;
        }
        // Each has claims of its own.
        if self.asks_for_claims(pod) {
            return None;
        }
        if pod.class.volumes.iter().any(|volume| matches!(volume, PodVolume::Ephemeral(_))) {
            return None;
        }
        let key = (profile, pod.class.id, pod.priority, pod.preempts);
        let storage = self.storage_version(pod);
        let found = self.unfit.found.get(&key).filter(|_| pod.nominated_node.is_empty());
        found.filter(|found| found.storage == storage).cloned()
    }

    /// What is said of a pod with volumes holds while nothing is known anew of volumes.
    fn storage_version(&self, pod: &Pod) -> Option<u64> {
        (!pod.class.volumes.is_empty()).then(|| self.cluster.storage().version())
    }

    /// The pod with the node it was promised here, which the server may not know of yet.
    fn with_promise(&self, pod: Arc<Pod>) -> Arc<Pod> {
        match self.nominated.node_of(&pod.uid) {
            Some(node) if *node != pod.nominated_node => {
                Arc::new(Pod { nominated_node: node.clone(), ..(*pod).clone() })
            }
            _ => pod,
        }
    }

    /// A pod could not be bound: it is taken off its node and tried again after a while.
    pub fn bind_failed(&mut self, queued: Queued, now: Duration) {
        let uid = queued.pod.uid.clone();
        self.forget_volumes(&uid, now);
        self.forget_devices(&uid, now);
        let assumed = self.cluster.pod(&uid).is_some_and(|placed| placed.assumed);
        // The server has said otherwise meanwhile: it is bound, by us or by another scheduler.
        if !assumed {
            return;
        }
        if let Some(placed) = self.cluster.remove_pod(&uid) {
            // Wherever it comes next, nobody waits for it to go.
            self.preempting.values_mut().for_each(|victims| victims.retain(|victim| *victim != uid));
            self.queue.moved(&Event::gone(&placed), &self.cluster, now);
        }
        self.queue.put_back(queued, Plugins::EMPTY, &self.cluster, now);
    }

    /// The node a pod was about to go to is promised to it no more.
    pub fn unpromise(&mut self, uid: &str) {
        self.nominated.remove(uid);
    }

    /// Tries a waiting pod again after a while; for one whose claim could not be undone. Differs from kube-scheduler, where that is only
    /// logged, and the pod waits for any event, or five minutes.
    pub fn retry(&mut self, uid: &str, now: Duration) {
        self.queue.retry(uid, &self.cluster, now);
    }

    /// Tries a waiting pod at once; for one whose preemption failed.
    pub fn activate(&mut self, uid: &str) {
        self.preempting.remove(uid);
        self.queue.activate(uid, &self.cluster);
    }
}
