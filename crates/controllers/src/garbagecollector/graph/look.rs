//! What workers ask the graph.

use std::collections::BTreeSet;

use super::{Body, Graph};
use crate::garbagecollector::identity::{Identity, Uid};

/// What a worker needs to know of a node.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    pub identity: Identity,
    pub observed: bool,
    pub being_deleted: bool,
    pub deleting_dependents: bool,
    pub dependents: usize,
    pub blocking: usize,
}

impl Graph {
    pub fn look(&self, uid: &Uid) -> Option<Look> {
        let text = uid.to_string();
        if let Some((kind, obj)) = self.loners.find(&text) {
            return Some(Look {
                identity: self.coordinates_seen(kind, obj).with_uid(&text),
                observed: true,
                being_deleted: false,
                deleting_dependents: false,
                dependents: 0,
                blocking: 0,
            });
        }
        let node = self.nodes.get(uid)?;
        let dependents = node.dependents.as_deref();
        Some(Look {
            identity: self.coordinates(node).with_uid(&text),
            observed: matches!(node.body, Body::Seen { .. }),
            being_deleted: node.being_deleted(),
            deleting_dependents: node.deleting_dependents,
            dependents: dependents.map_or(0, |d| d.edges.len()),
            blocking: dependents.map_or(0, |d| d.blocking),
        })
    }

    /// Dependents that block this owner and for which something can still be done: not those already on their way.
    pub fn blocking_dependents(&self, uid: &Uid) -> Vec<Uid> {
        let edges = self.nodes.get(uid).and_then(|node| node.dependents.as_deref()).map(|d| &d.edges);
        let blocking = edges.into_iter().flatten().filter(|(_, blocking)| **blocking).map(|(uid, _)| uid);
        blocking.filter(|uid| self.nodes.get(uid).is_some_and(|dep| !dep.being_deleted())).cloned().collect()
    }

    /// Does a dependent wait in foreground for dependents of its own? Then there may be a circle.
    pub fn has_waiting_dependent(&self, uid: &Uid) -> bool {
        let waits = |uid: &Uid| self.nodes.get(uid).is_some_and(|dep| dep.deleting_dependents);
        self.nodes.get(uid).is_some_and(|node| node.dependents().any(waits))
    }

    /// Does it wait, through others that wait in foreground, for itself?
    pub fn waits_for_itself(&self, uid: &Uid) -> bool {
        let mut visited = BTreeSet::new();
        let mut next = vec![uid];
        while let Some(here) = next.pop() {
            let Some(node) = self.nodes.get(here).filter(|node| node.deleting_dependents) else { continue };
            let edges = node.dependents.as_deref().map(|d| &d.edges).into_iter().flatten();
            for (dependent, _) in edges.filter(|(_, blocking)| **blocking) {
                if dependent == uid {
                    return true;
                }
                if visited.insert(dependent) {
                    next.push(dependent);
                }
            }
        }
        false
    }

    pub fn dependents(&self, uid: &Uid) -> Vec<Identity> {
        let Some(node) = self.nodes.get(uid) else { return Vec::new() };
        let known = node.dependents().filter_map(|uid| self.nodes.get(uid).map(|dep| (uid, dep)));
        known.map(|(uid, dep)| self.coordinates(dep).with_uid(&uid.to_string())).collect()
    }
}
