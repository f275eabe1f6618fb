//! Pods that wait for room on a node that is being made for them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pod::Pod;

#[derive(Default)]
pub struct Nominated {
    by_node: HashMap<Arc<str>, Vec<Arc<Pod>>>,
    node_of: HashMap<Arc<str>, Arc<str>>,
    /// Grows with every change.
    version: u64,
}

impl Nominated {
    pub fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// The pods nominated for a node, in the order they were.
    pub fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn node_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.node_of.get(uid)
    }

    /// Nominates a pod for a node, taking back any earlier nomination.
    pub fn set(&mut self, pod: Arc<Pod>, node: &str) {
        self.remove(&pod.uid);
        if node.is_empty() {
            return;
        }
        self.version += 1;
        self.node_of.insert(pod.uid.clone(), node.into());
        self.by_node.entry(node.into()).or_default().push(pod);
    }

    pub fn remove(&mut self, uid: &str) {
        let Some(node) = self.node_of.remove(uid) else { return };
        self.version += 1;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| pod.uid.as_ref() != uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}
