//! Ratcheting: which parts of an update are what they were.
//!
//! ```text
//! new value ── correlate with the old one: members by name, elements of a list-map by key ──> equal? then its errors are old ones
//! ```

use object::{Value, deep};

use crate::check::same;
use crate::node::{ListType, NodeData, NodeId, Structural, Type};

impl Structural {
    /// Whether a value is what it was. Members without a schema cannot be compared, and so are not.
    pub(crate) fn is_unchanged(&self, id: NodeId, new: &Value, old: &Value) -> bool {
        let node = self.node(id);
        match (new, old) {
            (Value::List(new), Value::List(old)) => {
                new.len() == old.len() && deep(|| self.list_unchanged(node, new, old))
            }
            (Value::Map(new), Value::Map(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                let mut next = 0;
                deep(|| {
                    new.iter().all(|(name, value)| {
                        let schema = self.member(node, name, &mut next);
                        let old = old.get(name);
                        schema.zip(old).is_some_and(|(schema, old)| self.is_unchanged(schema, value, old))
                    })
                })
            }
            (new, old) => same(new, old),
        }
    }

    fn list_unchanged(&self, node: &NodeData, new: &[Value], old: &[Value]) -> bool {
        let Some(items) = node.items.some().filter(|_| node.list == ListType::Map) else {
            return new.iter().zip(old).all(|(new, old)| same(new, old));
        };
        let index = Correlated::new(node, old);
        new.iter().all(|item| index.find(item).is_some_and(|old| self.is_unchanged(items, item, old)))
    }
}

/// The old elements of a list, to be found by the new ones.
pub(crate) struct Correlated<'v, 's> {
    node: &'s NodeData,
    old: &'v [Value],
}

impl<'v, 's> Correlated<'v, 's> {
    pub(crate) fn new(node: &'s NodeData, old: &'v [Value]) -> Correlated<'v, 's> {
        Correlated { node, old }
    }

    /// The first old element with the keys of this one; lists that are no maps have none.
    pub(crate) fn find(&self, new: &Value) -> Option<&'v Value> {
        if self.node.list != ListType::Map || self.node.ty != Type::Array || self.node.keys().is_empty() {
            return None;
        }
        self.old.iter().find(|old| self.has_keys_of(new, old))
    }

    fn has_keys_of(&self, new: &Value, old: &Value) -> bool {
        let single = self.node.keys().len() == 1;
        self.node.keys().iter().all(|name| match (new.get(name), old.get(name)) {
            (Some(Value::List(_) | Value::Map(_) | Value::Null), _) => false,
            // Several keys are compared as text, with six digits of a float.
            (Some(new), Some(old)) if single => new == old,
            (Some(new), Some(old)) => match (new, old) {
                (Value::Float(new), Value::Float(old)) => format!("{new:.6}") == format!("{old:.6}"),
                (new, old) => new == old,
            },
            _ => false,
        })
    }
}
