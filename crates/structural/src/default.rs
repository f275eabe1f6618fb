//! Defaults: what an object does not have and its schema knows, for what clients send and for what the store holds.

use catalog::Name;
use object::{Map, Value, deep};

use crate::node::{Flags, NodeData, NodeId, Structural};
use crate::prune::Unknown;

impl Structural {
    /// Fills in defaults. Running it again changes nothing.
    pub fn default(&self, value: &mut Value) {
        self.default_at(self.root, value);
    }

    fn default_at(&self, id: NodeId, value: &mut Value) {
        let node = self.node(id);
        if !node.flags.has(Flags::DEFAULTS_BELOW) {
            return;
        }
        match value {
            Value::Map(map) => deep(|| self.default_members(node, map)),
            Value::List(list) => {
                let Some(items) = node.items.some() else { return };
                deep(|| list.iter_mut().for_each(|item| self.default_or_descend(items, item)));
            }
            _ => {}
        }
    }

    fn default_members(&self, node: &NodeData, map: &mut Map) {
        for (name, id) in self.properties_of(node) {
            let property = self.node(*id);
            let Some(default) = property.default() else { continue };
            match map.get_mut(name) {
                None => insert(map, name, default.clone()),
                Some(slot) if slot.is_null() && property.refuses_null() => *slot = default.clone(),
                Some(_) => {}
            }
        }
        let mut next = 0;
        for (name, member) in map.iter_mut() {
            match self.property(node, name, &mut next) {
                Some(property) => self.default_at(property, member),
                None => {
                    if let Some(schema) = node.additional.some() {
                        self.default_or_descend(schema, member);
                    }
                }
            }
        }
    }

    /// An element of a list or a map: there already, but null is as good as absent.
    fn default_or_descend(&self, id: NodeId, value: &mut Value) {
        let node = self.node(id);
        if value.is_null() && node.refuses_null() {
            *value = node.default().cloned().unwrap_or(Value::Null);
        }
        self.default_at(id, value);
    }

    /// Defaults are objects, too: what would be pruned from an object is no part of them.
    pub(crate) fn prune_defaults(&mut self, types: &catalog::Schema) {
        for i in 0..self.nodes.len() {
            let Some(default) = self.nodes[i].extra.as_mut().and_then(|extra| extra.default.as_mut()) else {
                continue;
            };
            let mut default = std::mem::replace(default, Value::Null);
            let id = NodeId(i as u32);
            // What is malformed stays: a definition with it is refused, unless it is older than that rule.
            let _ = self.coerce_embedded_at(id, &mut default, types);
            self.prune(id, &mut default, false, &mut Unknown::new(false));
            if let Some(extra) = self.nodes[i].extra.as_mut() {
                extra.default = Some(default);
            }
        }
    }

    /// Drops nulls of members that are neither nullable nor have a default: Go would decode them to nothing, too.
    pub(crate) fn drop_nulls(&self, id: NodeId, value: &mut Value) {
        let node = self.node(id);
        match value {
            Value::Map(map) => deep(|| {
                let mut next = 0;
                map.retain(|name, member| {
                    let Some(schema) = self.member(node, name, &mut next) else { return true };
                    let own = self.node(schema);
                    if member.is_null() && own.refuses_null() && own.default().is_none() {
                        return false;
                    }
                    self.drop_nulls(schema, member);
                    true
                });
            }),
            Value::List(list) => {
                let Some(items) = node.items.some() else { return };
                deep(|| list.iter_mut().for_each(|item| self.drop_nulls(items, item)));
            }
            _ => {}
        }
    }
}

/// Into its place where names are sorted, as those of all coerced objects are.
fn insert(map: &mut Map, name: &Name, value: Value) {
    let entries = map.entries_mut();
    let at = entries.partition_point(|(own, _)| own < name);
    entries.insert(at, (name.clone(), value));
}
