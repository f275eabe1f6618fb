//! What those who walk a schema beside this crate need of it: a node by its index, how values are shown and compared.

use object::Value;

use crate::node::{Node, Structural};

impl Structural {
    /// The node with that [`Node::index`].
    pub fn node_at(&self, index: usize) -> Option<Node<'_>> {
        Node::with_index(self, index)
    }

    /// Whether rules stand in a part of some `allOf`, where [`Node::has_rules`] does not count them.
    pub fn has_rules_in_all_of(&self) -> bool {
        (0..self.len()).filter_map(|i| self.node_at(i)).any(|node| node.all_of().any(|part| part.has_rules()))
    }
}

impl Node<'_> {
    /// Whether a value is what it was: elements of a list-map are found by their keys, members without a schema count as changed.
    pub fn is_unchanged(self, new: &Value, old: &Value) -> bool {
        self.schema().is_unchanged(self.id(), new, old)
    }
}

/// A value as upstream's errors show it.
pub fn shown(value: &Value) -> String {
    crate::show::show(value)
}
