//! Ratcheting: which parts of an update are what they were.
//!
//! ```text
//! new value ── correlate with the old one: members by name, elements of a list-map by key ──> equal? then its errors are old ones
//! ```

use std::cell::OnceCell;
use std::collections::HashMap;

use object::{Value, deep, quote};

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
    /// By their keys; made when the first one is looked for.
    index: OnceCell<HashMap<String, &'v Value>>,
}

impl<'v, 's> Correlated<'v, 's> {
    pub(crate) fn new(node: &'s NodeData, old: &'v [Value]) -> Correlated<'v, 's> {
        Correlated { node, old, index: OnceCell::new() }
    }

    /// The first old element with the keys of this one; lists that are no maps have none.
    pub(crate) fn find(&self, new: &Value) -> Option<&'v Value> {
        if self.node.list != ListType::Map || self.node.ty != Type::Array || self.node.keys().is_empty() {
            return None;
        }
        let index = self.index.get_or_init(|| {
            let mut index = HashMap::with_capacity(self.old.len());
            for old in self.old {
                if let Some(key) = self.key_of(old) {
                    index.entry(key).or_insert(old);
                }
            }
            index
        });
        index.get(&self.key_of(new)?).copied()
    }

    /// All keys as text; `None` when one is absent or no scalar. Several are compared with six digits of a float.
    fn key_of(&self, item: &Value) -> Option<String> {
        let single = self.node.keys().len() == 1;
        let mut key = String::new();
        for name in self.node.keys() {
            match item.get(name)? {
                Value::Str(text) => key.push_str(&quote(text)),
                Value::Float(f) if single => key.push_str(&format!("f{:x}", f.to_bits())),
                Value::Float(f) => key.push_str(&format!("{f:.6}")),
                Value::Int(i) => key.push_str(&i.to_string()),
                Value::Bool(b) => key.push_str(&b.to_string()),
                Value::Null | Value::List(_) | Value::Map(_) | Value::Raw(_) => return None,
            }
            key.push('\0');
        }
        Some(key)
    }
}
