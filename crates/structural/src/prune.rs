//! Pruning: fields that the schema does not have go, and are listed for strict clients.

use std::fmt::Write as _;

use object::{Value, deep};

use crate::node::{Flags, NodeData, NodeId, Structural};

/// Of all paths; a client that sends more unknown fields than this has read enough.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The paths of unknown fields.
pub(crate) struct Unknown {
    /// Where the pass is; kept only when paths are wanted.
    path: String,
    found: Vec<String>,
    bytes: usize,
    wanted: bool,
}

impl Unknown {
    pub(crate) fn new(wanted: bool) -> Unknown {
        Unknown { path: String::new(), found: Vec::new(), bytes: 0, wanted }
    }
    /// Sorted, as upstream reports them.
    pub(crate) fn into_sorted(mut self) -> Vec<String> {
        self.found.sort_unstable();
        self.found
    }

    fn record(&mut self, name: &str) {
        if !self.wanted || self.bytes > MAX_BYTES {
            return;
        }
        let here = self.path.len();
        self.push_name(name);
        self.bytes += self.path.len();
        self.found.push(self.path.clone());
        self.path.truncate(here);
    }
    fn push_name(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
    fn at_name<R>(&mut self, name: &str, f: impl FnOnce(&mut Unknown) -> R) -> R {
        if !self.wanted {
            return f(self);
        }
        let here = self.path.len();
        self.push_name(name);
        let done = f(self);
        self.path.truncate(here);
        done
    }
    fn at_index<R>(&mut self, index: usize, f: impl FnOnce(&mut Unknown) -> R) -> R {
        if !self.wanted {
            return f(self);
        }
        let here = self.path.len();
        let _ = write!(self.path, "[{index}]");
        let done = f(self);
        self.path.truncate(here);
        done
    }
}

pub(crate) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

impl Structural {
    /// Removes unknown fields. `resource`: the value is a resource, whose apiVersion, kind and metadata need no schema.
    pub(crate) fn prune(&self, id: NodeId, value: &mut Value, resource: bool, unknown: &mut Unknown) {
        let node = self.node(id);
        let resource = resource || node.flags.has(Flags::EMBEDDED);
        match value {
            Value::Map(_) => deep(|| self.prune_map(node, value, resource, unknown)),
            Value::List(list) => {
                for (i, item) in list.iter_mut().enumerate() {
                    unknown.at_index(i, |unknown| match node.items.some() {
                        Some(items) if node.flags.has(Flags::PRESERVE) => {
                            self.prune_preserved(items, item, unknown);
                        }
                        Some(items) => self.prune(items, item, false, unknown),
                        None if node.flags.has(Flags::PRESERVE) => {}
                        None => prune_all(item, unknown),
                    });
                }
            }
            _ => {}
        }
    }

    fn prune_map(&self, node: &NodeData, value: &mut Value, resource: bool, unknown: &mut Unknown) {
        let Value::Map(map) = value else { return };
        let preserve = node.flags.has(Flags::PRESERVE);
        let mut next = 0;
        map.retain(|name, member| {
            if resource && is_meta(name) {
                return true;
            }
            match self.property(node, name, &mut next) {
                Some(_) if is_scalar(member) => true,
                Some(property) => {
                    unknown.at_name(name, |unknown| self.prune(property, member, false, unknown));
                    true
                }
                None if node.additional != NodeId::NONE => {
                    unknown.at_name(name, |unknown| match node.additional.some() {
                        Some(schema) => self.prune(schema, member, false, unknown),
                        None => prune_all(member, unknown),
                    });
                    true
                }
                None if preserve => true,
                None => {
                    unknown.record(name);
                    false
                }
            }
        });
    }

    /// The elements of a list whose unknown fields stay, down to what has properties of its own.
    fn prune_preserved(&self, id: NodeId, value: &mut Value, unknown: &mut Unknown) {
        let node = self.node(id);
        let resource = node.flags.has(Flags::EMBEDDED);
        match value {
            Value::List(list) => {
                let Some(items) = node.items.some() else { return };
                for (i, item) in list.iter_mut().enumerate() {
                    unknown.at_index(i, |unknown| deep(|| self.prune_preserved(items, item, unknown)));
                }
            }
            Value::Map(map) => {
                let mut next = 0;
                for (name, member) in map.iter_mut() {
                    if resource && is_meta(name) {
                        continue;
                    }
                    let schema = self.property(node, name, &mut next);
                    if schema.is_none() && node.additional == NodeId::NONE {
                        continue;
                    }
                    unknown.at_name(name, |unknown| match schema.or(node.additional.some()) {
                        Some(schema) => deep(|| self.prune(schema, member, false, unknown)),
                        None => prune_all(member, unknown),
                    });
                }
            }
            _ => {}
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Map(_) | Value::List(_))
}

/// Where there is no schema at all, no field is known.
fn prune_all(value: &mut Value, unknown: &mut Unknown) {
    match value {
        Value::Map(map) => map.retain(|name, _| {
            unknown.record(name);
            false
        }),
        Value::List(list) => {
            for (i, item) in list.iter_mut().enumerate() {
                unknown.at_index(i, |unknown| deep(|| prune_all(item, unknown)));
            }
        }
        _ => {}
    }
}
