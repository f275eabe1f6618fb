//! Pods end before the machine does: when memory, disk or processes run out, and when one keeps more than it said it would.
//!
//! ```text
//!  /proc, statvfs, cgroups ── signal ── threshold: crossed for long enough? ──┬── conditions of the Node, admission
//!                                                                              └── dead containers, unused images, then
//!  usage of pods ── rank ── message ────────────────────────────────────────────── one pod at a time
//!               └── limits: emptyDirs, containers and pods over their own ──────── each of them
//! ```
//! What decides is pure. Pods are measured only while something is short, or where one has a limit of its own. Files are counted in the
//! background: how many a pod has delays nothing.

mod forecast;
mod limits;
mod message;
mod rank;
mod signal;
#[cfg(test)]
mod tests;
mod threshold;
mod usage;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use node::container_runtime::{Evicted, Millis};
use node::machine::Pressure;
use node::pod::Pod;
use object::Value;
use runtime::{Severity, Stop};

use crate::blocking::block;
use crate::config::Config;
use crate::generate::oom::is_critical;
use crate::machine::LocalMachine;
use crate::pods::Pods;
use crate::server::stats::PodStats;
pub use forecast::full_disk;
pub use message::{REASON, refused};
use rank::Candidate;
pub use signal::Condition;
use signal::{Observations, Resource};
use threshold::{Pressures, Threshold, thresholds};
use usage::FileSystems;

const INTERVAL: Duration = Duration::from_secs(10);
/// A pod that was ended is waited for so long before the next look: until it must have ended, and then until nothing is left of it.
const LEAST_ENDING: Duration = Duration::from_secs(10);
const CLEAN_UP: Duration = Duration::from_secs(30);
const CLEAN_UP_LOOK: Duration = Duration::from_secs(1);
/// How long a look waits for files to be counted: for limits, and where the disk is short.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_SHORT_OF_DISK: Duration = Duration::from_secs(10);
/// Of a pod that is ended in a hurry.
const GRACE_SECONDS: i64 = 1;

/// Pods that were ended in one look.
#[derive(Debug, Default)]
struct Ended {
    uids: Vec<String>,
    grace_seconds: i64,
}

impl Ended {
    fn longest_wait(&self) -> Duration {
        let grace = u32::try_from(self.grace_seconds.max(0)).unwrap_or(u32::MAX);
        (Duration::from_secs(grace.into()) * 3 / 2).max(LEAST_ENDING) + CLEAN_UP
    }
}

/// Ends pods when that is needed.
pub struct Evictor {
    env: Env,
    config: Arc<Config>,
    pods: Pods,
    machine: Arc<LocalMachine>,
    pressures: Pressures,
    file_systems: Option<Arc<FileSystems>>,
    thresholds: Vec<Threshold>,
    /// What people were told is being taken back.
    told: Option<Resource>,
}

impl Evictor {
    pub fn new(env: &Env, pods: Pods, machine: Arc<LocalMachine>) -> Evictor {
        Evictor {
            env: env.clone(),
            config: pods.parts().config.clone(),
            pods,
            machine,
            pressures: Pressures::default(),
            file_systems: None,
            thresholds: Vec::new(),
            told: None,
        }
    }

    pub async fn run(mut self, stop: Stop) {
        loop {
            let work = async {
                let ended = self.synchronize().await;
                if ended.uids.is_empty() {
                    self.env.sleep(INTERVAL).await;
                } else {
                    self.wait_for(&ended).await;
                }
            };
            tokio::select! {
                () = stop.stopped() => return,
                () = work => {}
            }
        }
    }

    async fn wait_for(&self, ended: &Ended) {
        let until = self.env.monotonic() + ended.longest_wait();
        while self.env.monotonic() < until && !ended.uids.iter().all(|uid| self.pods.is_cleaned_up(uid)) {
            self.env.sleep(CLEAN_UP_LOOK).await;
        }
    }

    fn now(&self) -> Millis {
        (self.env.now_nanos() / 1_000_000) as Millis
    }

    /// One look.
    async fn synchronize(&mut self) -> Ended {
        let Some(file_systems) = self.file_systems().await else { return Ended::default() };
        let observations = self.observe(&file_systems).await;
        let transition = self.config.eviction_pressure_transition_period;
        let due = self.pressures.observe(&self.thresholds, &observations, transition, self.now());
        let conditions = &self.pressures.conditions;
        self.machine.set_pressure(pressure_of(conditions));
        self.pods.set_pressure(conditions);
        if self.config.local_storage_capacity_isolation {
            // Memory and processes are gone sooner than files are counted.
            let in_a_hurry = due.iter().any(|at| !self.thresholds[*at].signal.resource().is_on_disk());
            let patience = if in_a_hurry { Duration::ZERO } else { PATIENCE };
            let uids = self.enforce_limits(&file_systems, patience).await;
            if !uids.is_empty() {
                return Ended { uids, grace_seconds: GRACE_SECONDS };
            }
        }
        let Some(first) = due.first().map(|at| self.thresholds[*at].clone()) else {
            self.told = None;
            return Ended::default();
        };
        let resource = first.signal.resource();
        if self.told.replace(resource) != Some(resource) {
            let message = format!("Attempting to reclaim {}", resource.as_str());
            tracing::warn!(resource = resource.as_str(), "attempting to reclaim");
            self.pods.parts().events.of_node(Severity::Warning, "EvictionThresholdMet", message);
        }
        if self.reclaim(&first, &file_systems).await {
            return Ended::default();
        }
        self.evict_one(&first, &due, &observations, &file_systems).await
    }

    async fn file_systems(&mut self) -> Option<Arc<FileSystems>> {
        if self.file_systems.is_none() {
            match usage::file_systems(&self.config, &*self.pods.parts().cri).await {
                Ok(found) => {
                    self.thresholds = thresholds(&self.config, found.disks);
                    self.file_systems = Some(Arc::new(found));
                }
                Err(error) => tracing::warn!(%error, "failed to find the images' file system, retrying"),
            }
        }
        self.file_systems.clone()
    }

    async fn observe(&self, file_systems: &Arc<FileSystems>) -> Observations {
        let (file_systems, config) = (file_systems.clone(), self.config.clone());
        let allocatable = self.pods.allocatable_memory();
        // File systems may be slow to answer.
        let observed = block(move || usage::observe(&file_systems, &config, allocatable));
        observed.await.unwrap_or_default()
    }

    /// Removes what nobody needs. `true`: that was enough.
    async fn reclaim(&self, threshold: &Threshold, file_systems: &Arc<FileSystems>) -> bool {
        let reclaim = rank::reclaim(threshold.signal, file_systems.disks);
        if reclaim.containers {
            self.pods.remove_dead_containers().await;
        }
        if reclaim.images
            && let Err(error) = self.pods.parts().images.delete_unused(&self.config).await
        {
            tracing::warn!(%error, "failed to remove unused images");
        }
        (reclaim.containers || reclaim.images)
            && threshold::met(&self.thresholds, &self.observe(file_systems).await, true).is_empty()
    }

    async fn evict_one(
        &self,
        threshold: &Threshold,
        due: &[usize],
        observations: &Observations,
        file_systems: &FileSystems,
    ) -> Ended {
        let resource = threshold.signal.resource();
        let mut stats = usage::pods(&self.pods).await;
        if resource.is_on_disk()
            && let Ok(running) = stats
        {
            stats = usage::with_storage(&self.pods, file_systems, running, PATIENCE_SHORT_OF_DISK).await;
        }
        let stats = match stats {
            Ok(stats) => stats,
            Err(error) => {
                tracing::error!(error, "failed to measure pods");
                return Ended::default();
            }
        };
        let candidate = |pod: Arc<Value>| {
            let uid = pod.str_at(&["metadata", "uid"]).unwrap_or("");
            Candidate { stats: stats.iter().find(|stats| stats.uid == uid).cloned(), pod }
        };
        let mut candidates: Vec<Candidate> = self.pods.active().into_iter().map(candidate).collect();
        rank::rank(&mut candidates, threshold.signal, file_systems.disks);
        let due: Vec<&Threshold> = due.iter().map(|at| &self.thresholds[*at]).collect();
        for Candidate { pod, stats } in candidates {
            let told = message::pressure(resource, &pod, stats.as_ref(), &due, observations);
            let grace_seconds = match threshold.is_hard() {
                true => GRACE_SECONDS,
                false => self.config.eviction_max_pod_grace_period.min(Pod::read(&pod).grace_seconds),
            };
            let evicted = Evicted {
                reason: REASON.into(),
                message: told.message.clone(),
                grace_seconds,
                disruption: Some(told.message),
            };
            if let Some(uid) = self.evict(&pod, evicted, told.annotations, threshold.signal.name()) {
                return Ended { uids: vec![uid], grace_seconds };
            }
        }
        tracing::error!("no pod can be evicted");
        Ended::default()
    }

    /// Ends the pods that are over a limit of their own.
    async fn enforce_limits(&self, file_systems: &FileSystems, patience: Duration) -> Vec<String> {
        let with_limits = self.pods.active().into_iter().map(|pod| (limits::limited(&pod), pod));
        let limited: Vec<(limits::Limited, Arc<Value>)> =
            with_limits.filter(|(limited, _)| limited.volumes).collect();
        if limited.is_empty() {
            return Vec::new();
        }
        let mut running = Vec::new();
        if limited.iter().any(|(limited, _)| limited.containers) {
            match usage::pods(&self.pods).await {
                Ok(stats) => running = stats,
                Err(error) => tracing::warn!(error, "failed to measure pods"),
            }
        }
        let stats_of = |(_, pod): &(limits::Limited, Arc<Value>)| {
            let uid = pod.str_at(&["metadata", "uid"]).unwrap_or("");
            let stats = running.iter().find(|stats| stats.uid == uid).cloned();
            stats.unwrap_or_else(|| PodStats { uid: uid.to_owned(), ..PodStats::default() })
        };
        let stats = limited.iter().map(stats_of).collect();
        let measured = match usage::with_storage(&self.pods, file_systems, stats, patience).await {
            Ok(measured) => measured,
            Err(error) => {
                tracing::warn!(error, "failed to measure pods");
                return Vec::new();
            }
        };
        let mut evicted = Vec::new();
        for ((_, pod), stats) in limited.iter().zip(&measured) {
            let exceeded = limits::exceeded(pod, stats, file_systems.disks.own_image_fs);
            let Some(limits::Exceeded { signal, message }) = exceeded else { continue };
            let (reason, grace_seconds) = (REASON.into(), GRACE_SECONDS);
            let why = Evicted { reason, message, grace_seconds, disruption: None };
            evicted.extend(self.evict(pod, why, Vec::new(), signal));
        }
        evicted
    }

    /// `None`: it must stay, or is gone.
    fn evict(
        &self,
        pod: &Value,
        why: Evicted,
        annotations: Vec<(String, String)>,
        signal: &'static str,
    ) -> Option<String> {
        let text = |name: &str| pod.str_at(&["metadata", name]).unwrap_or("");
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        if is_critical(pod) {
            tracing::warn!(namespace, name, "cannot evict a critical pod");
            return None;
        }
        let message = why.message.clone();
        if !self.pods.evict(uid, why) {
            return None;
        }
        self.pods.parts().metrics.evicted(signal);
        tracing::info!(namespace, name, message, "evicting pod");
        self.pods.parts().events.of_pod(pod, annotations, Severity::Warning, REASON, message);
        Some(uid.to_owned())
    }
}

fn pressure_of(conditions: &BTreeSet<Condition>) -> Pressure {
    Pressure {
        memory: conditions.contains(&Condition::MemoryPressure),
        disk: conditions.contains(&Condition::DiskPressure),
        pid: conditions.contains(&Condition::PidPressure),
    }
}
