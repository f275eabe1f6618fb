//! Nodes as devices see them: by name, by labels, or all of them.

mod selector;

use std::sync::Arc;

use object::Value;

pub use selector::NodeSelector;
pub(crate) use selector::{Requirement, Term};

use crate::read::{flag, present, some_text};

/// A node that devices are looked for.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    pub name: &'a str,
    /// Sorted by key.
    pub labels: &'a [(Arc<str>, Arc<str>)],
}

/// Which nodes can use a device, or the devices of a slice.
#[derive(Clone, Debug, Default)]
pub enum NodeScope {
    Named(Arc<str>),
    All,
    Selected(Arc<NodeSelector>),
    /// It does not say.
    #[default]
    None,
}

impl NodeScope {
    /// Of a slice's spec, or of a device.
    pub fn parse(value: &Value) -> NodeScope {
        if let Some(name) = some_text(value, "nodeName") {
            return NodeScope::Named(name);
        }
        if flag(value, "allNodes") == Some(true) {
            return NodeScope::All;
        }
        match present(value, "nodeSelector") {
            Some(selector) => NodeScope::Selected(Arc::new(NodeSelector::parse(selector))),
            None => NodeScope::None,
        }
    }

    /// Fails where the selector cannot be read.
    pub fn matches(&self, node: &NodeView<'_>) -> Result<bool, &str> {
        match self {
            NodeScope::Named(name) => Ok(**name == *node.name),
            NodeScope::All => Ok(true),
            NodeScope::Selected(selector) => selector.matches(node),
            NodeScope::None => Ok(false),
        }
    }
}
