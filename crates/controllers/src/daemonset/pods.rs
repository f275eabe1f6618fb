//! The pods of a set, by the node each is on or was made for.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::placement::target;
use super::template::{HASH, TEMPLATE_GENERATION};
use super::view::DaemonSet;

pub(crate) use crate::pods::Pod;

/// Nodes with pods, and their pods, oldest first; bound ones before those that are not.
pub type ByNode = BTreeMap<String, Vec<Pod>>;

/// Which nodes unbound pods were made for, by uid: read from each once, not with every look.
#[derive(Default)]
pub struct Targets(BTreeMap<String, Option<String>>);

impl Pod {
    pub fn goes(&self) -> bool {
        self.view.deletion != 0
    }

    /// Is it of the set's present template?
    pub fn is_updated(&self, set: &DaemonSet, hash: &str) -> bool {
        let of_hash = !hash.is_empty() && self.obj.label(HASH) == Some(hash);
        let generation = set.template_generation.map(|generation| generation.to_string());
        of_hash || (generation.is_some() && self.obj.label(TEMPLATE_GENERATION) == generation.as_deref())
    }

    fn order(&self, other: &Pod) -> Ordering {
        let key = |pod: &Pod| (pod.view.node.is_empty(), pod.view.created);
        key(self).cmp(&key(other)).then_with(|| self.obj.name().cmp(other.obj.name()))
    }
}

impl Targets {
    /// What ended and is going is nobody's concern any more, and what was made for no node is left alone.
    pub fn group(&mut self, pods: &[Pod]) -> ByNode {
        let mut known = std::mem::take(&mut self.0);
        let mut by_node = ByNode::new();
        for pod in pods {
            if pod.view.is_terminal() && pod.goes() {
                continue;
            }
            let node = if pod.view.node.is_empty() {
                let read = || target(&runtime::tree(&pod.obj));
                let target = known.remove(pod.obj.uid()).unwrap_or_else(read);
                self.0.insert(pod.obj.uid().to_owned(), target.clone());
                target
            } else {
                Some(pod.view.node.to_string())
            };
            if let Some(node) = node {
                by_node.entry(node).or_default().push(pod.clone());
            }
        }
        for pods in by_node.values_mut() {
            pods.sort_by(Pod::order);
        }
        by_node
    }
}
