//! The nodes and pods of a set, kept between reconciles: what changed is put in its place, and only its nodes are looked at again.
//!
//! ```text
//! pods, nodes that changed ──> their nodes are busy ──> counted again, and looked at for what to do
//!                                 ^                        │ something to do, or time alone may change it
//!                                 └────────────────────────┘
//! ```
//! On a node that is not busy there is nothing to do, and nothing is counted differently than the last time.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::backoff::Backoff;
use super::placement::Fit;
use super::plan::{Changes, Nodes, Snapshot};
use super::pods::{ByNode, Pod};
use super::status::Counted;
use super::view::DaemonSet;

#[derive(Default)]
pub struct World {
    nodes: Nodes,
    pods: ByNode,
    /// The node of each pod, by the pod's name.
    places: BTreeMap<String, String>,
    /// What each node adds to the counts.
    shares: BTreeMap<String, Share>,
    counted: Counted,
    /// Nodes with pods of another template.
    outdated: usize,
    busy: BTreeSet<String>,
}

/// What one node adds.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    pub counted: Counted,
    pub outdated: bool,
    /// Time alone may change it, or what is to be done there.
    pub waits: bool,
}

impl World {
    /// A pod as it is now; `None`: it is gone, or none of the set's.
    pub fn set_pod(&mut self, name: &str, pod: Option<Pod>) {
        if let Some(node) = self.places.remove(name) {
            if let Some(pods) = self.pods.get_mut(&node) {
                pods.retain(|pod| pod.obj.name() != name);
                if pods.is_empty() {
                    self.pods.remove(&node);
                }
            }
            self.busy.insert(node);
        }
        let Some(pod) = pod else { return };
        let Some(node) = pod.place() else { return };
        let pods = self.pods.entry(node.clone()).or_default();
        let at = pods.partition_point(|other| other.order(&pod).is_lt());
        pods.insert(at, pod);
        self.busy.insert(node.clone());
        self.places.insert(name.to_owned(), node);
    }

    /// A node as it is now; `None`: it is gone.
    pub fn set_node(&mut self, name: &str, fit: Option<Fit>) {
        let before = match fit {
            Some(fit) => self.nodes.insert(name.to_owned(), fit),
            None => self.nodes.remove(name),
        };
        if before != fit {
            self.busy.insert(name.to_owned());
        }
    }

    /// The node a pod is on, or was made for.
    pub fn place_of(&self, pod: &str) -> Option<&String> {
        self.places.get(pod)
    }

    pub fn snapshot<'a>(&'a self, set: &'a DaemonSet, hash: &'a str, now: i64) -> Snapshot<'a> {
        Snapshot { set, nodes: &self.nodes, pods: &self.pods, hash, now }
    }

    /// The counts as they are now.
    pub fn count(&mut self, set: &DaemonSet, hash: &str, now: i64) -> Counted {
        for name in &self.busy {
            let snapshot = Snapshot { set, nodes: &self.nodes, pods: &self.pods, hash, now };
            let share = snapshot.share(name);
            let before = match share == Share::default() {
                true => self.shares.remove(name),
                false => self.shares.insert(name.clone(), share),
            };
            let before = before.unwrap_or_default();
            self.counted.change(&before.counted, -1);
            self.counted.change(&share.counted, 1);
            self.outdated = self.outdated + usize::from(share.outdated) - usize::from(before.outdated);
        }
        self.counted
    }

    /// What to do on nodes, after [`World::count`]; nodes where there is nothing to do are left in peace from now on.
    pub fn manage(
        &mut self,
        set: &DaemonSet,
        hash: &str,
        now: i64,
        backoff: &mut Backoff,
        instant: Instant,
    ) -> Changes {
        let snapshot = Snapshot { set, nodes: &self.nodes, pods: &self.pods, hash, now };
        let mut changes = Changes::default();
        let (there, missing): (Vec<&String>, Vec<&String>) =
            self.busy.iter().partition(|name| self.nodes.contains_key(*name));
        let mut quiet = Vec::new();
        for name in there.into_iter().chain(missing) {
            let before = changes.len();
            let waits = snapshot.manage_node(name, backoff, instant, &mut changes);
            let share = self.shares.get(name).copied().unwrap_or_default();
            if changes.len() == before && !waits && !share.waits {
                quiet.push(name.clone());
            }
        }
        for name in &quiet {
            self.busy.remove(name);
        }
        changes
    }

    /// The rollout's next step, after [`World::manage`] found nothing to do.
    pub fn roll(&self, set: &DaemonSet, hash: &str, now: i64) -> Changes {
        // The template changed: then every node counts.
        if self.outdated == 0 { Changes::default() } else { self.snapshot(set, hash, now).roll() }
    }
}
