//! Pods that wait for a node, and when each is tried again.
//!
//! ```text
//!            ┌─────────── gated: has scheduling gates ───────────┐ gates gone
//! new pod ──>┤                                                   v
//!            └──────────────────────────────────────────────> active ── pop: priority, then time ──> decided
//!                              backoff over, or active empty   ^  ^                                     │ no node
//!   backoff: 1 s, doubled each time to 10 s ───────────────────┘  │                                     v
//!      ^                                                          └───────────────────────────── unschedulable
//!      └── an event that may help (`hints`), while it backs off ──── or after it did ──────────── 5 min at most
//! ```

mod backoff;
mod devices;
pub mod hints;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::config::Config;
use crate::dynamic_resources::ClaimKey;
use crate::plugin::{ALL, Plugin, Plugins};
use crate::pod::{Pod, PodVolume};
use backoff::Backoff;
use hints::Event;

/// How long a pod stays unschedulable without any event that may help.
const MAX_UNSCHEDULABLE: Duration = Duration::from_secs(300);
const FLUSH_EVERY: Duration = Duration::from_secs(30);

pub struct Queue {
    config: Arc<Config>,
    backoff: Backoff,
    entries: HashMap<Arc<str>, Entry>,
    active: BTreeMap<ActiveKey, Arc<str>>,
    waiting: BTreeMap<(Duration, ActiveKey), Arc<str>>,
    /// By the number of their coming, so that they are looked at in one order.
    unschedulable: BTreeMap<u64, Arc<str>>,
    /// Those of them that use a claim, by namespace and claim.
    by_claim: HashMap<(Arc<str>, Arc<str>), BTreeSet<u64>>,
    /// Those of them that ask for devices.
    with_devices: BTreeSet<u64>,
    /// Uids of pods that are unschedulable or gated, by the ResourceClaims they name.
    by_resource_claim: HashMap<ClaimKey, BTreeSet<Arc<str>>>,
    /// Those of the unschedulable each plugin rejected; the last are those nobody in particular did.
    rejected: [BTreeSet<u64>; ALL.len() + 1],
    /// When the unschedulable are next looked through for those that wait too long.
    next_flush: Duration,
    gated: usize,
    last_number: u64,
    /// How many pods came to each queue, and by what.
    incoming: BTreeMap<(&'static str, &'static str), u64>,
    /// How often it was asked whether an event may help a pod.
    #[cfg(test)]
    pub asked: std::cell::Cell<usize>,
}

/// Who is first: the most important, then who waits longest.
type ActiveKey = (Reverse<i32>, Duration, u64);

struct Entry {
    queued: Queued,
    position: QueuePosition,
}

/// A pod and how it fared so far.
#[derive(Clone, Debug)]
pub struct Queued {
    pub pod: Arc<Pod>,
    pub attempts: u32,
    /// What brought it to where it waits, or waited before it was tried.
    pub cause: &'static str,
    /// When it came first.
    pub came: Duration,
    /// When it came, or failed last.
    since: Duration,
    number: u64,
    unschedulable_count: u32,
    error_count: u32,
    /// Who said no the last time; nobody after an error.
    pub rejected_by: Plugins,
}

#[derive(Clone, Copy)]
enum QueuePosition {
    Active(ActiveKey),
    Waiting((Duration, ActiveKey)),
    Unschedulable(u64),
    Gated,
}

/// What brings a pod to a queue, besides the labels of [`Event`]s; in upstream's words.
mod cause {
    pub const CAME: &str = "UnschedulablePodAdd";
    pub const CHANGED: &str = "UnschedulablePodUpdate";
    pub const FAILED: &str = "ScheduleAttemptFailure";
    pub const BACKOFF_OVER: &str = "BackoffComplete";
    pub const NOBODY_ELSE: &str = "PopFromBackoffQ";
    pub const WAITED_LONG: &str = "UnschedulableTimeout";
    pub const FORCED: &str = "ForceActivate";
}

/// A pod that waits, for people.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub pod: Arc<Pod>,
    pub attempts: u32,
    pub cause: &'static str,
    pub rejected_by: Plugins,
    /// When its backoff is over.
    pub until: Option<Duration>,
}

/// The first of each queue.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    pub active: Vec<Waiter>,
    pub backoff: Vec<Waiter>,
    pub unschedulable: Vec<Waiter>,
    pub gated: Vec<Waiter>,
}

/// How many pods wait where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
}

impl Queue {
    pub fn new(config: Arc<Config>) -> Queue {
        Queue {
            backoff: Backoff { initial: config.initial_backoff, max: config.max_backoff },
            config,
            entries: HashMap::new(),
            active: BTreeMap::new(),
            waiting: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
            by_claim: HashMap::new(),
            with_devices: BTreeSet::new(),
            by_resource_claim: HashMap::new(),
            rejected: Default::default(),
            next_flush: FLUSH_EVERY,
            gated: 0,
            last_number: 0,
            incoming: BTreeMap::new(),
            #[cfg(test)]
            asked: std::cell::Cell::new(0),
        }
    }

    pub fn lengths(&self) -> Lengths {
        Lengths {
            active: self.active.len(),
            backoff: self.waiting.len(),
            unschedulable: self.unschedulable.len(),
            gated: self.gated,
        }
    }

    /// How many pods came to each queue so far, and by what.
    pub fn incoming(&self) -> &BTreeMap<(&'static str, &'static str), u64> {
        &self.incoming
    }

    /// How many pods each plugin keeps from a node.
    pub fn rejections(&self) -> impl Iterator<Item = (Plugin, usize)> {
        ALL.iter().map(|plugin| (*plugin, self.rejected_by(*plugin).len())).filter(|(_, count)| *count > 0)
    }

    /// The first of each queue, in its order.
    pub fn first(&self, most: usize) -> Waiters {
        let waiter = |uid: &Arc<str>| {
            let Entry { queued, position } = &self.entries[uid];
            let until = match position {
                QueuePosition::Waiting((until, _)) => Some(self.backoff.over_at(*until)),
                _ => None,
            };
            let Queued { pod, attempts, cause, rejected_by, .. } = queued.clone();
            Waiter { pod, attempts, cause, rejected_by, until }
        };
        let is_gated = |entry: &&Entry| matches!(entry.position, QueuePosition::Gated);
        let gated = self.entries.values().filter(is_gated);
        let mut gated: Vec<(u64, &Arc<str>)> =
            gated.map(|entry| (entry.queued.number, &entry.queued.pod.uid)).collect();
        gated.sort_unstable();
        Waiters {
            active: self.active.values().take(most).map(waiter).collect(),
            backoff: self.waiting.values().take(most).map(waiter).collect(),
            unschedulable: self.unschedulable.values().take(most).map(waiter).collect(),
            gated: gated.into_iter().take(most).map(|(_, uid)| waiter(uid)).collect(),
        }
    }

    pub fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.get(uid).map(|entry| &entry.queued.pod)
    }

    pub fn is_gated(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| matches!(entry.position, QueuePosition::Gated))
    }

    /// A pod that came, or one that was known and changed.
    pub fn set(&mut self, pod: Arc<Pod>, cluster: &Cluster, now: Duration) {
        let Some(entry) = self.entries.get_mut(&pod.uid) else {
            self.last_number += 1;
            let queued = Queued {
                pod,
                attempts: 0,
                cause: cause::CAME,
                came: now,
                since: now,
                number: self.last_number,
                unschedulable_count: 0,
                error_count: 0,
                rejected_by: Plugins::EMPTY,
            };
            self.enqueue(queued, cause::CAME, cluster);
            return;
        };
        let position = entry.position;
        let old = self.replace(pod.clone());
        match position {
            // Its position in the order may be another one now.
            QueuePosition::Active(_) if old.priority == pod.priority && pod.gates.is_empty() => {}
            QueuePosition::Waiting(_) if old.priority == pod.priority => {}
            QueuePosition::Active(_) | QueuePosition::Waiting(_) | QueuePosition::Gated => {
                let queued = self.take(&pod.uid).expect("found above");
                self.enqueue(queued, cause::CHANGED, cluster);
            }
            QueuePosition::Unschedulable(_) => {
                let event = Event::Itself { old: &old, new: &pod };
                if self.worth_it(&pod.uid, &event, cluster) {
                    self.requeue(&pod.uid, event.label(), cluster, now);
                }
            }
        }
    }

    pub fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        self.take(uid).map(|queued| queued.pod)
    }

    /// The next pod to be tried.
    pub fn pop(&mut self, cluster: &Cluster, now: Duration) -> Option<Queued> {
        self.flush(cluster, now);
        let (uid, early) = match self.active.first_key_value() {
            Some((_, uid)) => (uid.clone(), false),
            // Nobody else wants to be tried: then waiting helps nobody. After errors it does.
            None => {
                let mut waiting = self.waiting.values();
                (waiting.find(|uid| self.entries[*uid].queued.error_count == 0)?.clone(), true)
            }
        };
        let mut queued = self.take(&uid)?;
        if early {
            queued.cause = cause::NOBODY_ELSE;
            self.count("active", queued.cause);
        }
        queued.attempts += 1;
        Some(queued)
    }

    /// A pod that was popped and has no node: rejected by plugins, or failed by an error when there are none.
    pub fn put_back(&mut self, mut queued: Queued, rejected_by: Plugins, cluster: &Cluster, now: Duration) {
        if self.entries.contains_key(&queued.pod.uid) {
            return;
        }
        queued.rejected_by = rejected_by;
        queued.since = now;
        if rejected_by.is_empty() {
            queued.error_count += 1;
            self.wait(queued, cause::FAILED, cluster);
        } else {
            queued.error_count = 0;
            queued.unschedulable_count += 1;
            self.set_aside(queued);
        }
    }

    /// What was to help an unschedulable pod has failed: no event need come, so it is tried again after a while.
    pub fn retry(&mut self, uid: &str, cluster: &Cluster, now: Duration) {
        let position = self.entries.get(uid).map(|entry| entry.position);
        let Some(QueuePosition::Unschedulable(_)) = position else { return };
        let Some(mut queued) = self.take(uid) else { return };
        queued.rejected_by = Plugins::EMPTY;
        queued.since = now;
        // Being unschedulable once more has made it forget its errors: the wait grows all the same.
        queued.error_count = queued.unschedulable_count;
        self.wait(queued, cause::FAILED, cluster);
    }

    /// A pod for which there was no node at all: any event may help it.
    pub fn put_aside(&mut self, mut queued: Queued, now: Duration) {
        queued.rejected_by = Plugins::EMPTY;
        queued.error_count = 0;
        queued.unschedulable_count += 1;
        queued.since = now;
        self.set_aside(queued);
    }

    /// Something changed: moves the pods it may help.
    pub fn moved(&mut self, event: &Event, cluster: &Cluster, now: Duration) {
        if let Event::ResourceClaim { new, .. } = event {
            self.open_gates(new, event.label(), cluster, now);
        }
        let concerned = event.concerns();
        let anyone = &self.rejected[ALL.len()];
        if anyone.is_empty() && concerned.iter().all(|plugin| self.rejected_by(plugin).is_empty()) {
            return;
        }
        // Many wait for a claim of their own each.
        let mut numbers: BTreeSet<u64> = match event {
            Event::Claim { new, .. } => self.users([(new.namespace.clone(), new.name.clone())]),
            Event::Volume { old, new } => {
                let mut users = self.users(cluster.storage().claims_for(new));
                if old.is_none_or(|old| old.zones() != new.zones()) {
                    users.extend(self.rejected_by(Plugin::VolumeZone));
                }
                users
            }
            _ if event.is_about_devices() => self.asking_for_devices(event),
            _ if concerned == Plugins::all() => self.unschedulable.keys().copied().collect(),
            _ => concerned.iter().flat_map(|plugin| self.rejected_by(plugin)).copied().collect(),
        };
        numbers.extend(anyone);
        for number in numbers {
            let uid = self.unschedulable[&number].clone();
            if self.worth_it(&uid, event, cluster) {
                self.requeue(&uid, event.label(), cluster, now);
            }
        }
    }

    fn rejected_by(&self, plugin: Plugin) -> &BTreeSet<u64> {
        &self.rejected[plugin as usize]
    }

    /// The unschedulable that use one of the claims.
    fn users(&self, claims: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> BTreeSet<u64> {
        claims.into_iter().filter_map(|claim| self.by_claim.get(&claim)).flatten().copied().collect()
    }

    /// Tries a pod at once, wherever it waits.
    pub fn activate(&mut self, uid: &str, cluster: &Cluster) {
        self.make_active(uid, cause::FORCED, cluster);
    }

    fn make_active(&mut self, uid: &str, cause: &'static str, cluster: &Cluster) {
        if let Some(queued) = self.take(uid) {
            self.enqueue(queued, cause, cluster);
        }
    }

    /// When time alone will next move a pod.
    pub fn next_wake(&self) -> Option<Duration> {
        let after_backoff =
            self.waiting.first_key_value().map(|((until, _), _)| self.backoff.over_at(*until));
        let flushed = (!self.unschedulable.is_empty()).then_some(self.next_flush);
        after_backoff.into_iter().chain(flushed).min()
    }

    fn flush(&mut self, cluster: &Cluster, now: Duration) {
        while let Some(((until, _), uid)) = self.waiting.first_key_value() {
            if !self.backoff.is_over(*until, now) {
                break;
            }
            let uid = uid.clone();
            self.make_active(&uid, cause::BACKOFF_OVER, cluster);
        }
        if now < self.next_flush {
            return;
        }
        self.next_flush = now + FLUSH_EVERY;
        let stale = |uid: &&Arc<str>| self.entries[*uid].queued.since + MAX_UNSCHEDULABLE <= now;
        let stale: Vec<Arc<str>> = self.unschedulable.values().filter(stale).cloned().collect();
        for uid in stale {
            self.requeue(&uid, cause::WAITED_LONG, cluster, now);
        }
    }

    fn worth_it(&self, uid: &str, event: &Event, cluster: &Cluster) -> bool {
        #[cfg(test)]
        self.asked.set(self.asked.get() + 1);
        let queued = &self.entries[uid].queued;
        let pod = &queued.pod;
        // A status that was written, most often by the scheduler itself, helps nobody.
        if let Event::Itself { old, new } = event
            && old.class.id == new.class.id
            && old.claims == new.claims
        {
            return false;
        }
        if queued.rejected_by.is_empty() {
            return true;
        }
        let Some(profile) = self.config.profile(&pod.scheduler_name) else { return true };
        hints::may_help(pod, queued.rejected_by, event, &self.config.profiles[profile], cluster)
    }

    /// From unschedulable to active, or to backoff while the last failure is too recent.
    fn requeue(&mut self, uid: &str, cause: &'static str, cluster: &Cluster, now: Duration) {
        let Some(queued) = self.take(uid) else { return };
        let until = self.backoff.until(queued.since, queued.count());
        if until.is_some_and(|until| !self.backoff.is_over(until, now)) {
            self.wait(queued, cause, cluster);
        } else {
            self.enqueue(queued, cause, cluster);
        }
    }

    fn enqueue(&mut self, mut queued: Queued, cause: &'static str, cluster: &Cluster) {
        queued.cause = cause;
        if self.has_gate(&queued.pod, cluster) {
            self.gate(queued);
            return;
        }
        self.count("active", cause);
        let key = queued.key();
        self.active.insert(key, queued.pod.uid.clone());
        self.insert(queued, QueuePosition::Active(key));
    }

    /// Whether it is not to be tried at all: it has scheduling gates, or misses claims.
    fn has_gate(&self, pod: &Pod, cluster: &Cluster) -> bool {
        if pod.gates.is_empty() && pod.claims.is_empty() {
            return false;
        }
        let profile = self.config.profile(&pod.scheduler_name);
        let on = |plugin| profile.is_none_or(|p| self.config.profiles[p].pre_enqueue.has(plugin));
        !pod.gates.is_empty() && on(Plugin::SchedulingGates)
            || on(Plugin::DynamicResources) && cluster.devices().pod_claims(pod).is_err()
    }

    fn gate(&mut self, queued: Queued) {
        self.gated += 1;
        // Upstream keeps them among the unschedulable.
        self.count("unschedulable", queued.cause);
        self.index_resource_claims(&queued.pod);
        self.insert(queued, QueuePosition::Gated);
    }

    fn wait(&mut self, mut queued: Queued, cause: &'static str, cluster: &Cluster) {
        queued.cause = cause;
        if self.has_gate(&queued.pod, cluster) {
            self.gate(queued);
            return;
        }
        self.count("backoff", cause);
        let until = self.backoff.until(queued.since, queued.count()).unwrap_or(queued.since);
        let key = (until, queued.key());
        self.waiting.insert(key, queued.pod.uid.clone());
        self.insert(queued, QueuePosition::Waiting(key));
    }

    fn set_aside(&mut self, mut queued: Queued) {
        queued.cause = cause::FAILED;
        self.count("unschedulable", queued.cause);
        let number = queued.number;
        for of_plugin in of_plugins(queued.rejected_by) {
            self.rejected[of_plugin].insert(number);
        }
        self.unschedulable.insert(number, queued.pod.uid.clone());
        for key in claims(&queued.pod) {
            self.by_claim.entry(key).or_default().insert(number);
        }
        if queued.pod.asks_for_devices() {
            self.with_devices.insert(number);
            self.index_resource_claims(&queued.pod);
        }
        self.insert(queued, QueuePosition::Unschedulable(number));
    }

    fn count(&mut self, queue: &'static str, cause: &'static str) {
        *self.incoming.entry((queue, cause)).or_default() += 1;
    }

    fn insert(&mut self, queued: Queued, position: QueuePosition) {
        self.entries.insert(queued.pod.uid.clone(), Entry { queued, position });
    }

    fn take(&mut self, uid: &str) -> Option<Queued> {
        let entry = self.entries.remove(uid)?;
        match entry.position {
            QueuePosition::Active(key) => drop(self.active.remove(&key)),
            QueuePosition::Waiting(key) => drop(self.waiting.remove(&key)),
            QueuePosition::Unschedulable(number) => {
                self.unschedulable.remove(&number);
                for key in claims(&entry.queued.pod) {
                    let users = self.by_claim.get_mut(&key);
                    if users.is_some_and(|users| users.remove(&number) && users.is_empty()) {
                        self.by_claim.remove(&key);
                    }
                }
                for of_plugin in of_plugins(entry.queued.rejected_by) {
                    self.rejected[of_plugin].remove(&number);
                }
                self.with_devices.remove(&number);
                self.unindex_resource_claims(&entry.queued.pod);
            }
            QueuePosition::Gated => {
                self.gated -= 1;
                self.unindex_resource_claims(&entry.queued.pod);
            }
        }
        Some(entry.queued)
    }
}

/// Where in [`Queue::rejected`] a pod is.
fn of_plugins(rejected_by: Plugins) -> impl Iterator<Item = usize> {
    let anyone = rejected_by.is_empty().then_some(ALL.len());
    rejected_by.iter().map(|plugin| plugin as usize).chain(anyone)
}

/// The PersistentVolumeClaims a pod uses.
fn claims(pod: &Pod) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    let name = |volume: &PodVolume| volume.claim_name(&pod.name);
    pod.class.volumes.iter().filter_map(name).map(|claim| (pod.namespace().clone(), claim))
}

impl Queued {
    fn key(&self) -> ActiveKey {
        (Reverse(self.pod.priority), self.since, self.number)
    }
    fn count(&self) -> u32 {
        if self.error_count > 0 { self.error_count } else { self.unschedulable_count }
    }
}

#[cfg(test)]
mod tests;
