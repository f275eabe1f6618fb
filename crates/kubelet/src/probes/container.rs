//! One container: who it is, its probes, and what they have found.

use std::fmt::Write as _;
use std::sync::Arc;

use object::Value;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::spec::Probe;
use super::state::{Answer, Checks, Kind, Timing};
use super::timers::{Timer, Timers};
use super::{Kill, Probed, Target};

pub struct Container {
    pub subject: Subject,
    pub target: Arc<dyn Target>,
    pub checks: Checks,
    /// No other container ever has the same.
    pub epoch: u64,
    /// In the order of [`Kind::ALL`], as all arrays here.
    pub timers: [Option<Timer>; 3],
    pub running: [Option<Running>; 3],
    /// It ended; it stays here for its counts.
    pub is_over: bool,
    /// Of all containers of that name.
    pub counts: Counts,
}

/// Successes and failures of each probe.
pub type Counts = [[u64; 2]; 3];

/// A probe under way, which ends when nobody wants to know any more.
pub struct Running(pub AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the pod says of a container.
pub struct Subject {
    uid: String,
    namespace: String,
    pod: String,
    name: String,
    pub container_id: String,
    pub probes: [Option<Arc<Probe>>; 3],
    /// `Container` or `Init container`, as `Killing` has it.
    noun: &'static str,
    /// What is said of one that has to end, after why.
    prospect: &'static str,
}

impl Subject {
    /// `None` where the pod has no such container.
    pub fn read(pod: &Value, uid: &str, name: &str, container_id: &str) -> Option<Subject> {
        let text = |path: &[&str]| pod.str_at(path).unwrap_or_default().to_owned();
        let lists = ["containers", "initContainers", "ephemeralContainers"];
        let (list, spec) = lists.iter().find_map(|list| {
            let all = pod.at(&["spec", list])?.as_list()?;
            Some((*list, all.iter().find(|spec| spec.str_at(&["name"]) == Some(name))?))
        })?;
        let own_policy = spec.str_at(&["restartPolicy"]);
        let is_main = list == "containers";
        // Of the others only sidecars have probes.
        let is_probed = is_main || (list == "initContainers" && own_policy == Some("Always"));
        let is_restarted = own_policy.or_else(|| pod.str_at(&["spec", "restartPolicy"])) != Some("Never");
        Some(Subject {
            uid: uid.to_owned(),
            namespace: text(&["metadata", "namespace"]),
            pod: text(&["metadata", "name"]),
            name: name.to_owned(),
            container_id: container_id.to_owned(),
            probes: Kind::ALL.map(|kind| Probe::read(spec, kind).filter(|_| is_probed).map(Arc::new)),
            noun: if is_main { "Container" } else { "Init container" },
            prospect: if is_main && is_restarted { ", will be restarted" } else { "" },
        })
    }

    pub fn timings(&self) -> [Option<Timing>; 3] {
        Kind::ALL.map(|kind| self.probes[kind as usize].as_ref().map(|probe| probe.timing))
    }

    /// `pod_namespace(uid):container`.
    pub fn described(&self) -> String {
        format!("{}_{}({}):{}", self.pod, self.namespace, self.uid, self.name)
    }
}

impl Container {
    pub fn new(subject: Subject, target: Arc<dyn Target>, checks: Checks, epoch: u64) -> Container {
        Container {
            subject,
            target,
            checks,
            epoch,
            timers: [None; 3],
            running: [const { None }; 3],
            is_over: false,
            counts: Counts::default(),
        }
    }

    pub fn due(&self, kind: Kind) -> Option<Instant> {
        self.checks.due(kind).filter(|_| !self.is_over)
    }

    pub fn probed(&self) -> Probed {
        if self.is_over {
            return Probed::default();
        }
        let health = self.checks.health();
        let kill = health.failed.map(|probe| Kill {
            container_id: self.subject.container_id.clone(),
            probe,
            message: format!(
                "{} {} failed {} probe{}",
                self.subject.noun,
                self.subject.name,
                probe.name().to_lowercase(),
                self.subject.prospect
            ),
            grace_seconds: self.subject.probes[probe as usize].as_ref().and_then(|probe| probe.grace_seconds),
        });
        Probed { started: health.started, ready: health.ready, kill }
    }

    /// Nothing is asked of it any more.
    pub fn cancel(&mut self, timers: &mut Timers) {
        self.is_over = true;
        self.running = [const { None }; 3];
        self.timers.iter_mut().filter_map(Option::take).for_each(|timer| timers.remove(timer));
    }

    pub fn count(&mut self, kind: Kind, answer: Option<Answer>) {
        // A probe that could not be made is not counted, as upstream.
        let Some(answer) = answer else { return };
        self.counts[kind as usize][answer as usize] += 1;
    }

    /// Its series of `prober_probe_total`.
    pub fn write(&self, out: &mut String) {
        let Subject { uid, namespace, pod, name, .. } = &self.subject;
        for kind in Kind::ALL {
            for (result, count) in ["successful", "failed"].iter().zip(self.counts[kind as usize]) {
                if count > 0 {
                    let probe = kind.name();
                    let _ = writeln!(
                        out,
                        "prober_probe_total{{container=\"{name}\",namespace=\"{namespace}\",pod=\"{pod}\",\
                         pod_uid=\"{uid}\",probe_type=\"{probe}\",result=\"{result}\"}} {count}"
                    );
                }
            }
        }
    }
}
