//! The document while operations change it: maps and lists on the path are opened, the rest is unchanged.
//!
//! Go writes every map it opened by name, and refusals show it so. Open maps are ordered for that, and so that
//! thousands of operations on a map of many thousand members do not walk through all of them each time.

use std::collections::BTreeMap;

use catalog::Name;

use super::super::{count, depth};
use crate::{Map, Value, deep, discard};

pub(super) enum Node {
    Closed(Value),
    Map(BTreeMap<Name, Node>),
    List(Vec<Node>),
}

/// A node that has members.
pub(super) enum Opened<'a> {
    Map(&'a mut BTreeMap<Name, Node>),
    List(&'a mut Vec<Node>),
}

impl Node {
    /// `None` where there is nothing to open. Of members with one name the last is kept.
    pub fn open(&mut self) -> Option<Opened<'_>> {
        match self {
            Node::Closed(Value::Map(map)) => {
                let map = std::mem::take(map);
                *self = Node::Map(map.into_iter().map(|(name, value)| (name, Node::Closed(value))).collect());
            }
            Node::Closed(Value::List(list)) => {
                let list = std::mem::take(list);
                *self = Node::List(list.into_iter().map(Node::Closed).collect());
            }
            _ => {}
        }
        match self {
            Node::Closed(_) => None,
            Node::Map(map) => Some(Opened::Map(map)),
            Node::List(list) => Some(Opened::List(list)),
        }
    }

    pub fn close(self) -> Value {
        match self {
            Node::Closed(value) => value,
            Node::Map(map) => deep(|| {
                let mut out = Map::with_capacity(map.len());
                for (name, node) in map {
                    out.push(name, node.close());
                }
                Value::Map(out)
            }),
            Node::List(list) => deep(|| Value::List(list.into_iter().map(Node::close).collect())),
        }
    }

    /// As [`close`](Node::close), and the node stays.
    pub fn copy(&self) -> Value {
        match self {
            Node::Closed(value) => value.clone(),
            Node::Map(map) => {
                deep(|| Value::Map(map.iter().map(|(name, node)| (name.clone(), node.copy())).collect()))
            }
            Node::List(list) => deep(|| Value::List(list.iter().map(Node::copy).collect())),
        }
    }

    /// Another node in this place. What was here is closed first: a value can be dropped however deep it is.
    pub fn replace(&mut self, new: Node) {
        discard(std::mem::replace(self, new).close());
    }

    /// Of all values in it, itself included.
    pub fn count(&self) -> usize {
        match self {
            Node::Closed(value) => count(value),
            Node::Map(map) => 1 + deep(|| map.values().map(Node::count).sum::<usize>()),
            Node::List(list) => 1 + deep(|| list.iter().map(Node::count).sum::<usize>()),
        }
    }

    pub fn depth(&self) -> usize {
        match self {
            Node::Closed(value) => depth(value),
            Node::Map(map) => 1 + deep(|| map.values().map(Node::depth).max().unwrap_or(0)),
            Node::List(list) => 1 + deep(|| list.iter().map(Node::depth).max().unwrap_or(0)),
        }
    }

    /// Equal whatever the order of members; `1` and `1.0` are not equal.
    pub fn is(&self, other: &Value) -> bool {
        match (self, other) {
            (Node::Closed(value), other) => same(value, other),
            (Node::Map(map), Value::Map(other)) => {
                let same = || map.iter().zip(by_name(other)).all(|(x, y)| x.0 == y.0 && x.1.is(y.1));
                map.len() == other.len() && deep(same)
            }
            (Node::List(list), Value::List(other)) => {
                list.len() == other.len() && deep(|| list.iter().zip(other).all(|(x, y)| x.is(y)))
            }
            _ => false,
        }
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            let all = || by_name(a).iter().zip(by_name(b)).all(|(x, y)| x.0 == y.0 && same(x.1, y.1));
            a.len() == b.len() && deep(all)
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && deep(|| a.iter().zip(b).all(|(x, y)| same(x, y)))
        }
        _ => a == b,
    }
}

fn by_name(map: &Map) -> Vec<(&Name, &Value)> {
    let mut members: Vec<_> = map.iter().collect();
    members.sort_by(|x, y| x.0.cmp(y.0));
    members
}
