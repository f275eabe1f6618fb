//! Node by node: which pods are missing, and which are too many.

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

/// A node as the set sees it.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    pub fit: Fit,
}

/// What a reconcile knows.
pub struct Snapshot<'a> {
    pub set: &'a DaemonSet,
    pub nodes: &'a [Node],
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

    pub fn manage(&self, backoff: &mut Backoff, now: Instant) -> Changes {
        let mut changes = Changes::default();
        for node in self.nodes {
            match self.pods.get(&node.name) {
                None if node.fit.run => changes.create.push(node.name.clone()),
                None => {}
                Some(pods) if node.fit.stay => self.keep(node, pods, backoff, now, &mut changes),
                Some(pods) => pods.iter().filter(|pod| !pod.goes()).for_each(|pod| changes.delete(pod)),
            }
        }
        // A pod for a node that never was or is gone is never bound, and nobody else deletes it.
        let exists = |name: &String| self.nodes.binary_search_by(|node| node.name.cmp(name)).is_ok();
        for (_, pods) in self.pods.iter().filter(|(name, _)| !exists(name)) {
            let unbound = pods.iter().filter(|pod| pod.view.node.is_empty() && !pod.goes());
            unbound.for_each(|pod| changes.delete(pod));
        }
        changes
    }

    /// The pods of a node that may have one: those that ended go, and of the rest all but one, or two during a surge.
    fn keep(&self, node: &Node, pods: &[Pod], backoff: &mut Backoff, now: Instant, changes: &mut Changes) {
        let mut running = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.goes()) {
            let path = pod.obj.path();
            match pod.view.phase {
                Phase::Failed => {
                    let generation = self.set.status.observed_generation;
                    if let Some(wait) = backoff.failed(generation, &node.name, now) {
                        changes.wait = Some(changes.wait.map_or(wait, |other| other.min(wait)));
                        continue;
                    }
                    let message =
                        format!("Found failed daemon pod {path} on node {}, will try to kill it", node.name);
                    changes.tell(Severity::Warning, "FailedDaemonPod", message);
                    changes.delete(pod);
                }
                Phase::Succeeded => {
                    let message = format!(
                        "Found succeeded daemon pod {path} on node {}, will try to delete it",
                        node.name
                    );
                    changes.tell(Severity::Normal, "SucceededDaemonPod", message);
                    changes.delete(pod);
                }
                _ => running.push(pod),
            }
        }
        if !self.set.allows_surge() {
            running.iter().skip(1).for_each(|pod| changes.delete(pod));
            return;
        }
        if running.is_empty() && node.fit.run {
            // Its successor need not wait until the last one is gone.
            changes.create.push(node.name.clone());
        }
        if running.len() < 2 {
            return;
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
    }
}
