//! Which volumes a pod's claims would get on a node, or why they would get none.

use std::sync::Arc;

use super::{Claim, Storage, Volume};
use crate::node::Node;
use crate::read::{Labels, label};

/// What is to be written before a pod can be bound.
#[derive(Clone, Debug, Default)]
pub struct VolumeBindings {
    /// Volumes that exist, and whose they become.
    pub bind: Vec<(Arc<Volume>, Arc<Claim>)>,
    /// Claims whose volumes are made for the node.
    pub provision: Vec<Arc<Claim>>,
}

impl VolumeBindings {
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.bind.iter().map(|(_, claim)| claim).chain(&self.provision)
    }
}

/// Why a node is none for a pod's volumes: several reasons at once, in the order they are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(u8);

impl Conflicts {
    pub const NODE: Conflicts = Conflicts(1);
    pub const BIND: Conflicts = Conflicts(2);
    pub const SPACE: Conflicts = Conflicts(4);
    pub const GONE: Conflicts = Conflicts(8);

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, other: Conflicts) {
        self.0 |= other.0;
    }

    #[cfg(test)]
    pub fn all(each: impl IntoIterator<Item = Conflicts>) -> Conflicts {
        each.into_iter().fold(Conflicts::default(), |all, one| Conflicts(all.0 | one.0))
    }

    pub fn reasons(self) -> impl Iterator<Item = &'static str> {
        const REASONS: [&str; 4] = [
            "node(s) didn't match PersistentVolume's node affinity",
            "node(s) didn't find available persistent volumes to bind",
            "node(s) did not have enough free storage",
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ];
        REASONS.into_iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, why)| why)
    }
}

/// A pod's claims, all of which are bound or wait for the pod to have a node.
#[derive(Default)]
pub struct PodClaims {
    pub bound: Vec<Arc<Claim>>,
    pub waiting: Vec<Arc<Claim>>,
}

impl Storage {
    /// What the claims would get on a node.
    pub fn choose(&self, claims: &PodClaims, node: &Node) -> Result<VolumeBindings, Conflicts> {
        let mut conflicts = self.bound_conflicts(&claims.bound, &node.labels);
        let mut bindings = VolumeBindings::default();
        let selected = |claim: &Arc<Claim>| self.selected_node(claim).cloned();
        // Its volume is made for another node already.
        if claims.waiting.iter().filter_map(selected).any(|other| other != node.name) {
            conflicts.add(Conflicts::BIND);
            return Err(conflicts);
        }
        let (mut to_provision, mut to_match): (Vec<_>, Vec<_>) =
            claims.waiting.iter().cloned().partition(|claim| selected(claim).is_some());
        // The smallest first, so that no small claim takes a volume a large one needs.
        to_match.sort_by_key(|claim| claim.request.unwrap_or(0));
        for claim in to_match {
            match self.find_volume(&claim, &node.labels, &bindings.bind) {
                Some(volume) => bindings.bind.push((volume, claim)),
                None => to_provision.push(claim),
            }
        }
        for claim in &to_provision {
            match self.provision_conflict(claim, &node.labels) {
                None => {}
                Some(conflict) => {
                    conflicts.add(conflict);
                    break;
                }
            }
        }
        bindings.provision = to_provision;
        if conflicts.is_empty() { Ok(bindings) } else { Err(conflicts) }
    }

    fn bound_conflicts(&self, bound: &[Arc<Claim>], labels: &Labels) -> Conflicts {
        for claim in bound {
            match self.volume(&claim.volume) {
                None => return Conflicts::GONE,
                Some(volume) if !volume.reaches(labels) => return Conflicts::NODE,
                Some(_) => {}
            }
        }
        Conflicts::default()
    }

    /// The volume that was meant for a claim, or else the smallest that fits and nobody has.
    fn find_volume(
        &self,
        claim: &Claim,
        node: &Labels,
        chosen: &[(Arc<Volume>, Arc<Claim>)],
    ) -> Option<Arc<Volume>> {
        let request = claim.request.unwrap_or(0);
        let taken = |volume: &Volume| chosen.iter().any(|(other, _)| other.name == volume.name);
        let alike = |volume: &Volume| {
            volume.capacity >= request
                && volume.block == claim.block
                && volume.attributes_class == claim.attributes_class
                && !volume.deleting
                && !taken(volume)
        };
        let named = self.named.get(&(claim.namespace.clone(), claim.name.clone()));
        let named = named.into_iter().flatten().filter_map(|name| self.volume(name));
        let mut meant = named.filter(|volume| {
            volume.class == claim.class
                && alike(volume)
                && self.claim_of(volume).is_some_and(|wanted| wanted.means(claim))
        });
        if let Some(volume) = meant.next() {
            return volume.reaches(node).then(|| volume.clone());
        }
        let free = self.free.get(&claim.class)?;
        let large = free.range((request, Arc::from(""))..).filter_map(|(_, name)| self.volume(name));
        let fits = |volume: &&Arc<Volume>| {
            let selected = |s: &object::selector::LabelSelector| s.matches(&|key| label(&volume.labels, key));
            alike(volume)
                && claim.selector.as_ref().is_none_or(selected)
                && claim.modes.iter().all(|mode| volume.modes.contains(mode))
                && volume.reaches(node)
        };
        let mut large = large;
        large.find(fits).cloned()
    }

    /// Why no volume can be made for a claim on a node.
    fn provision_conflict(&self, claim: &Claim, node: &Labels) -> Option<Conflicts> {
        let class = self.class(&claim.class).filter(|class| class.provisions() && class.reaches(node));
        let Some(class) = class else { return Some(Conflicts::BIND) };
        let size = claim.request?;
        if !self.tracked.contains(&class.provisioner) {
            return None;
        }
        let mut capacities = self.capacities.get(&claim.class).into_iter().flatten();
        let room = capacities.any(|(_, capacity)| capacity.has_room(size, node));
        (!room).then_some(Conflicts::SPACE)
    }
}
