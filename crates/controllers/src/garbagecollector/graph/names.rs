//! Dependents name their owner by more than its uid, and may be wrong: who means whom.

use std::collections::BTreeSet;

use super::{Graph, Node, Stray, WorkItems};
use crate::garbagecollector::identity::{Coordinates, Identity, Uid};

impl Graph {
    /// A virtual node turned out to be a real object: who took it for somebody else must be looked at.
    pub(super) fn observed(&mut self, uid: &Uid, supposed: &Identity, wanted: &mut WorkItems) {
        let Some(node) = self.nodes.get(uid) else { return };
        let coordinates = self.coordinates(node);
        if supposed.coordinates() == coordinates {
            return;
        }
        let (_, wrong) = self.partition(node, uid, coordinates);
        for dependent in wrong {
            if let Some(dep) = self.nodes.get(&dependent) {
                let namespace = self.coordinates(dep).namespace;
                if !coordinates.namespace.is_empty() && namespace != coordinates.namespace {
                    wanted.strays.extend(self.stray(dep, &dependent, uid));
                }
            }
            wanted.delete.push(dependent);
        }
    }

    /// Dependents whose references to `uid` mean `coordinates`, and those that mean somebody else. One can be in both.
    pub(super) fn partition(
        &self,
        node: &Node,
        uid: &Uid,
        coordinates: Coordinates<'_>,
    ) -> (Vec<Uid>, Vec<Uid>) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        for dependent in node.dependents() {
            let Some(dep) = self.nodes.get(dependent) else { continue };
            let elsewhere =
                !coordinates.namespace.is_empty() && self.coordinates(dep).namespace != coordinates.namespace;
            let (mut matches, mut differs) = (false, elsewhere);
            if !elsewhere {
                for owner in dep.owners().iter().filter(|owner| Uid::read(&owner.uid) == *uid) {
                    if coordinates.is_named_by(owner) { matches = true } else { differs = true }
                }
            }
            if matches {
                matching.push(dependent.clone());
            }
            if differs {
                others.push(dependent.clone());
            }
        }
        (matching, others)
    }

    /// Who else the dependents say an absent owner is: the next after it, or the first, so that all get their turn.
    pub(super) fn alternate_identity(&self, dependents: &[Uid], absent: &Identity) -> Option<Identity> {
        let mut named = BTreeSet::new();
        for dep in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            let namespace = self.coordinates(dep).namespace;
            for owner in dep.owners().iter().filter(|owner| owner.uid == absent.uid) {
                let mut other = Identity::referred(owner, namespace);
                // Of this kind it is known to have no namespace.
                let same_kind = other.kind == absent.kind && other.api_version == absent.api_version;
                if absent.namespace.is_empty() && same_kind {
                    other.namespace.clear();
                }
                named.insert(other);
            }
        }
        named.remove(absent);
        named.iter().find(|other| *other > absent).or(named.first()).cloned()
    }

    pub(super) fn stray(&self, dep: &Node, uid: &Uid, owner: &Uid) -> Option<Stray> {
        let coordinates = self.coordinates(dep);
        let reference = dep.owners().into_iter().find(|o| Uid::read(&o.uid) == *owner)?;
        let dependent = coordinates.with_uid(&uid.to_string());
        Some(Stray { dependent, owner: Identity::referred(&reference, coordinates.namespace) })
    }
}
