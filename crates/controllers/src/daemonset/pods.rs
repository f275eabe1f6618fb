//! The pods of a set, by the node each is on or was made for.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::placement::target;
use super::template::{HASH, TEMPLATE_GENERATION};
use super::view::DaemonSet;

pub(crate) use crate::pods::Pod;

/// Nodes with pods, and their pods, oldest first; bound ones before those that are not.
pub type ByNode = BTreeMap<String, Vec<Pod>>;

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

    /// The node it is on, or was made for. What ended and is going is nobody's concern any more, and what was made for no node is
    /// left alone.
    pub fn place(&self) -> Option<String> {
        if self.view.is_terminal() && self.goes() {
            return None;
        }
        match self.view.node.is_empty() {
            true => target(&runtime::tree(&self.obj)),
            false => Some(self.view.node.to_string()),
        }
    }

    pub fn order(&self, other: &Pod) -> Ordering {
        let key = |pod: &Pod| (pod.view.node.is_empty(), pod.view.created);
        key(self).cmp(&key(other)).then_with(|| self.obj.name().cmp(other.obj.name()))
    }
}
