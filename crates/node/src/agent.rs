//! One node of the cluster: its pods, its lease, its word about itself. A real machine has one, a simulation thousands.
//!
//! An agent has no task and no clock of its own: it is asked to take a turn when something it cares for changed, or when a time it
//! named has come. What it decides under its lock is synchronous; the lock is never held while the API is called.

mod devices;
mod heartbeat;
mod observer;
mod pods;
mod preempt;
mod room;
mod static_pods;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::Client;
use env::Env;
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use runtime::{Key, ObjectRef};

use crate::admit::{Capacity, Rejection, Taken};
use crate::container_runtime::{Health, Millis, Runtime, Wake};
use crate::events::{EventSink, ObjectEvent};
use crate::machine::{Machine, NodeIdentity};
use crate::pod::{Pod, short_uid};
use crate::static_pods::StaticPods;
use crate::worker::PodWorker;

pub use heartbeat::HeartbeatPeriods;
pub use observer::Observer;

pub struct Agent {
    env: Env,
    name: Box<str>,
    ips: HostIps,
    zone: Box<str>,
    machine: Arc<Machine>,
    periods: HeartbeatPeriods,
    capacity: Capacity,
    /// As `system:node:NAME` in `system:nodes`: what a node may do and no more.
    client: Arc<dyn Client>,
    events: Option<Arc<dyn EventSink>>,
    admit: Option<LocalAdmit>,
    static_pods: Option<Arc<StaticPods>>,
    observer: Option<Arc<dyn Observer>>,
    /// Guards what the agent knows; held while a step is decided, never across a call.
    inner: Mutex<Inner>,
}

/// What an agent is made of.
pub struct Parts {
    pub name: String,
    pub ips: HostIps,
    pub zone: String,
    pub machine: Arc<Machine>,
    pub heartbeat: HeartbeatPeriods,
    pub capacity: Capacity,
    pub client: Arc<dyn Client>,
    pub events: Option<Arc<dyn EventSink>>,
    pub runtime: Box<dyn Runtime>,
    /// What only a real machine can say against a pod, before it takes it.
    pub admit: Option<LocalAdmit>,
    /// Pods of the machine's own; `None`: nothing is a mirror.
    pub static_pods: Option<Arc<StaticPods>>,
    /// How long a container waits at most before it is restarted.
    pub longest_back_off: Millis,
    pub observer: Option<Arc<dyn Observer>>,
}

/// The addresses a node is reached at: the primary first, then that of the other family.
pub enum HostIps {
    Fixed(Box<[String]>),
    /// Of a machine whose addresses may change: asked each time.
    Current(Arc<dyn Fn() -> Vec<String> + Send + Sync>),
}

impl HostIps {
    fn get(&self) -> Cow<'_, [String]> {
        match self {
            HostIps::Fixed(ips) => Cow::Borrowed(ips),
            HostIps::Current(ask) => Cow::Owned(ask()),
        }
    }
}

pub type LocalAdmit = Arc<dyn Fn(&Pod<'_>) -> Result<(), Rejection> + Send + Sync>;

struct Inner {
    runtime: Box<dyn Runtime>,
    longest_back_off: Millis,
    pods: BTreeMap<Key, PodWorker>,
    taken: Taken,
    heartbeat: heartbeat::Heartbeat,
    /// The node is unreachable, not registered or deleted: pods that ask for a reconcile wait here.
    quiet: bool,
    waiting: BTreeSet<Key>,
    /// What the runtime holds was not yet compared with what the node should have.
    sweep_due: bool,
    /// Whom to ask for a reconcile of a pod; not under the lock.
    wake: Option<Wake>,
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// When something changes.
    OnChange,
    At(Millis),
    /// A call failed in a way that passes: a conflict, a busy server.
    Soon,
    /// A call was refused, and somebody must look; meanwhile it is tried as often as kubelet would.
    Later,
}

impl Again {
    /// After a refusal.
    fn after(status: &Status) -> Again {
        let passes = matches!(status.code, 408 | 409 | 429) || status.code >= 500;
        if passes { Again::Soon } else { Again::Later }
    }
}

impl Agent {
    pub fn new(env: &Env, parts: Parts) -> Agent {
        let inner = Inner {
            longest_back_off: parts.longest_back_off,
            runtime: parts.runtime,
            pods: BTreeMap::new(),
            taken: Taken::default(),
            heartbeat: heartbeat::Heartbeat::default(),
            quiet: true,
            waiting: BTreeSet::new(),
            sweep_due: false,
            wake: None,
        };
        Agent {
            env: env.clone(),
            name: parts.name.into(),
            ips: parts.ips,
            zone: parts.zone.into(),
            machine: parts.machine,
            periods: parts.heartbeat,
            capacity: parts.capacity,
            client: parts.client,
            events: parts.events,
            admit: parts.admit,
            static_pods: parts.static_pods,
            observer: parts.observer,
            inner: Mutex::new(inner),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pod is gone from the API.
    pub fn forget(&self, pod: &Obj) {
        let (key, uid) = (Key::of(pod), short_uid(pod.uid()));
        let mut inner = self.inner.lock();
        inner.waiting.remove(&key);
        if inner.pods.get(&key).is_some_and(|worker| worker.uid == uid) {
            self.drop_worker(&mut inner, &key);
        }
        let (wake, waiting) = (inner.wake.clone(), inner.retry_waiting());
        drop(inner);
        wake_all(wake, &waiting);
    }

    fn drop_worker(&self, inner: &mut Inner, key: &Key) {
        let Some(worker) = inner.pods.remove(key) else { return };
        if worker.is_counted() {
            inner.taken.remove(worker.uid, worker.requests);
        }
        inner.runtime.remove(worker.uid);
        if let Some(observer) = &self.observer {
            observer.forgotten(worker.uid);
        }
    }

    /// Whom to ask for a reconcile when something happened to a pod.
    pub fn wake_by(&self, wake: Wake) {
        let mut inner = self.inner.lock();
        inner.wake = Some(wake.clone());
        inner.runtime.wake_by(wake);
    }

    /// The runtime has news of a pod: whatever was written last, it is looked at.
    pub fn awake(&self, key: &Key) {
        if let Some(worker) = self.inner.lock().pods.get_mut(key) {
            worker.wake = Some(0);
        }
    }

    /// The pod changed: is a reconcile worth it now? A quiet node looks at it when it speaks again.
    pub fn takes(&self, key: &Key) -> bool {
        let mut inner = self.inner.lock();
        if inner.quiet {
            inner.waiting.insert(key.clone());
        }
        !inner.quiet
    }

    fn now(&self) -> Millis {
        (self.env.now_nanos() / 1_000_000) as Millis
    }
    fn identity(&self) -> NodeIdentity<'_> {
        // A real machine knows its own.
        let ip = match &self.ips {
            HostIps::Fixed(ips) => ips.first().map_or("", |ip| ip),
            HostIps::Current(_) => "",
        };
        NodeIdentity { name: &self.name, ip, zone: &self.zone }
    }

    fn tell(&self, about: ObjectRef, severity: runtime::Severity, reason: &str, message: String) {
        if let Some(events) = &self.events {
            let reason = reason.to_owned();
            events.tell(&self.client, &self.name, ObjectEvent { about, severity, reason, message });
        }
    }
}

fn wake_all(wake: Option<Wake>, keys: &[Key]) {
    if let Some(wake) = wake {
        keys.iter().for_each(|key| wake(key));
    }
}

impl Inner {
    /// What the node's object asks for; and the pods to look at again, because the node speaks again. `find` gives their objects.
    fn hear(
        &mut self,
        node: Option<&Value>,
        static_pods: Option<&StaticPods>,
        find: &FindPod<'_>,
        now: Millis,
    ) -> (Health, BTreeSet<Key>) {
        let health = node.map_or(Health::Unreachable, |node| self.runtime.node_changed(node));
        let was_quiet = std::mem::replace(&mut self.quiet, health == Health::Unreachable);
        let mut awake = BTreeSet::new();
        if was_quiet && !self.quiet {
            awake = std::mem::take(&mut self.waiting);
            for key in &awake {
                self.adopt(key, find, now);
            }
            awake.extend(self.pods.keys().cloned());
            awake.extend(static_pods.map(StaticPods::keys).unwrap_or_default());
            self.sweep_due = true;
        }
        if !self.quiet && self.sweep_due && static_pods.is_none_or(StaticPods::seen_all) {
            self.sweep_due = false;
            self.sweep(static_pods, find);
        }
        (health, awake)
    }

    /// Ends what was deleted while nobody looked.
    fn sweep(&mut self, static_pods: Option<&StaticPods>, find: &FindPod<'_>) {
        for held in self.runtime.list() {
            let of_api = find(&held.key).is_some_and(|obj| short_uid(obj.uid()) == held.uid);
            let own = || static_pods.and_then(|pods| pods.get(&held.key));
            if !of_api && own().is_none_or(|pod| pod.uid() != held.uid) {
                self.runtime.remove(held.uid);
            }
        }
    }

    /// Takes up a pod that ran before, so that what it has is taken before new ones come.
    fn adopt(&mut self, key: &Key, find: &FindPod<'_>, now: Millis) {
        let Some(obj) = find(key).filter(|_| !self.pods.contains_key(key)) else { return };
        let tree = runtime::tree(&obj);
        let pod = Pod::read(&tree);
        if pod.started.is_none() || pod.is_over() {
            return;
        }
        let mut worker = PodWorker::new(&pod).with_longest_back_off(self.longest_back_off);
        worker.adopt(&pod, &mut *self.runtime);
        worker.queue_resize(&pod, &mut *self.runtime, now);
        if worker.is_counted() {
            self.taken.add(&pod, worker.requests);
        }
        self.pods.insert(key.clone(), worker);
    }
}

/// The object of a pod, where it is still known.
pub type FindPod<'a> = dyn Fn(&Key) -> Option<Arc<Obj>> + Send + Sync + 'a;
