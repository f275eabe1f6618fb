//! Node by node: which pods are missing, and which are too many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kinds::pod::view::Phase;
use object::Obj;
use runtime::Severity;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::placement::Fit;
use super::pods::{ByNode, Pod};
use super::template::HASH;
use super::view::DaemonSet;

/// Nodes as the set sees them, by name.
pub type Nodes = BTreeMap<String, Fit>;

/// What a reconcile knows.
pub struct Snapshot<'a> {
    pub set: &'a DaemonSet,
    pub nodes: &'a Nodes,
    pub pods: &'a ByNode,
    /// Of the set's present template.
    pub hash: &'a str,
    /// Unix seconds.
    pub now: i64,
}

/// Something to tell people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// What to do.
#[derive(Default)]
pub struct Changes {
    /// Nodes that get a pod.
    pub create: Vec<String>,
    pub delete: Vec<Arc<Obj>>,
    pub events: Vec<Told>,
    /// A failed pod is waited with.
    pub wait: Option<Duration>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    /// How much there is to do and to tell.
    pub fn len(&self) -> usize {
        self.create.len() + self.delete.len() + self.events.len()
    }

    fn tell(&mut self, severity: Severity, reason: &'static str, message: String) {
        self.events.push(Told { severity, reason, message });
    }

    fn delete(&mut self, pod: &Pod) {
        self.delete.push(pod.obj.clone());
    }
}

impl Snapshot<'_> {
    pub fn is_available(&self, pod: &Pod) -> bool {
        pod.view.is_available(self.set.min_ready_seconds, self.now)
    }

    /// What to do on one node; `true`: a failed pod is waited with.
    pub fn manage_node(
        &self,
        name: &str,
        backoff: &mut Backoff,
        now: Instant,
        changes: &mut Changes,
    ) -> bool {
        let pods = self.pods.get(name).map(Vec::as_slice);
        let present = pods.unwrap_or_default().iter().filter(|pod| !pod.goes());
        match (self.nodes.get(name), pods) {
            (Some(fit), None) => {
                if fit.run {
                    changes.create.push(name.to_owned());
                }
            }
            (Some(fit), Some(pods)) if fit.stay => return self.keep(name, *fit, pods, backoff, now, changes),
            (Some(_), Some(_)) => present.for_each(|pod| changes.delete(pod)),
            // A pod for a node that never was or is gone is never bound, and nobody else deletes it.
            (None, _) => {
                present.filter(|pod| pod.view.node.is_empty()).for_each(|pod| changes.delete(pod));
            }
        }
        false
    }

    /// The pods of a node that may have one: those that ended go, and of the rest all but one, or two during a surge.
    fn keep(
        &self,
        node: &str,
        fit: Fit,
        pods: &[Pod],
        backoff: &mut Backoff,
        now: Instant,
        changes: &mut Changes,
    ) -> bool {
        let mut waits = false;
        let mut running = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.goes()) {
            let path = pod.obj.path();
            match pod.view.phase {
                Phase::Failed => {
                    let generation = self.set.status.observed_generation;
                    if let Some(wait) = backoff.failed(generation, node, now) {
                        waits = true;
                        changes.wait = Some(changes.wait.map_or(wait, |other| other.min(wait)));
                        continue;
                    }
                    let message =
                        format!("Found failed daemon pod {path} on node {node}, will try to kill it");
                    changes.tell(Severity::Warning, "FailedDaemonPod", message);
                    changes.delete(pod);
                }
                Phase::Succeeded => {
                    let message =
                        format!("Found succeeded daemon pod {path} on node {node}, will try to delete it");
                    changes.tell(Severity::Normal, "SucceededDaemonPod", message);
                    changes.delete(pod);
                }
                _ => running.push(pod),
            }
        }
        if !self.set.allows_surge() {
            running.iter().skip(1).for_each(|pod| changes.delete(pod));
            return waits;
        }
        if running.is_empty() && fit.run {
            // Its successor need not wait until the last one is gone.
            changes.create.push(node.to_owned());
        }
        if running.len() < 2 {
            return waits;
        }
        let (mut new, mut old) = (None, None);
        for pod in running {
            let slot = if pod.obj.label(HASH).unwrap_or("") == self.hash { &mut new } else { &mut old };
            match slot {
                None => *slot = Some(pod),
                Some(_) => changes.delete(pod),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!old.view.ready || self.is_available(new))
        {
            changes.delete(old);
        }
        waits
    }
}
