//! The graph of owners and dependents, kept in step with what informers tell. Pure: a change in, keys to look at out.
//!
//! ```text
//!            seen(object)                        ┌─ delete: objects whose fate must be looked at
//! informers ─ gone(object) ──> nodes by uid ─────┤  orphan: owners that let go of their dependents
//! workers ── absent(identity)  (owner -> deps)   └─ strays: references that point into another namespace
//! ```
//! An owner that is named before it is seen is a *virtual* node: who it is, is what its dependents say, and they may
//! disagree. Every change costs as much as it changes; a status that moves costs one lookup.

mod loners;
mod look;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::json;
use object::{Obj, Value};
use runtime::owners::{Owner, owners_of};

use super::absent::AbsentOwners;
use super::identity::{Coordinates, Identity, Uid};
use super::kinds::{KindId, WatchedKind};

use loners::Loners;

pub use look::Look;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

#[derive(Default)]
pub struct Graph {
    kinds: Vec<WatchedKind>,
    /// Most objects: they own nothing, nothing owns them, nobody deletes them.
    loners: Loners,
    /// All others, and whom they name.
    nodes: BTreeMap<Uid, Node>,
    absent: AbsentOwners,
}

/// Refers to the object and copies nothing.
struct Node {
    body: Body,
    /// Absent for the many that own nothing.
    dependents: Option<Box<Dependents>>,
    /// It waits in foreground until nothing blocks it; never taken back.
    deleting_dependents: bool,
}

enum Body {
    Seen {
        kind: KindId,
        obj: Arc<Obj>,
    },
    /// Named by a dependent, not seen by an informer yet.
    Virtual(Box<Identity>),
}

#[derive(Default)]
struct Dependents {
    /// With whether its reference blocks the deletion of the owner.
    edges: BTreeMap<Uid, bool>,
    /// How many edges block.
    blocking: usize,
}

/// What a change asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkItems {
    pub delete: Vec<Uid>,
    /// As above, but after a wait that grows: nothing new is known yet.
    pub delete_later: Vec<Uid>,
    pub orphan: Vec<Uid>,
    pub strays: Vec<Stray>,
}

/// A dependent whose owner lives in another namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct Stray {
    pub dependent: Identity,
    /// As the dependent refers to it.
    pub owner: Identity,
}

impl Graph {
    /// A kind that is watched from now on; one that comes back has the number it had.
    pub fn add_kind(&mut self, kind: WatchedKind) -> KindId {
        let at = self.kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        at as KindId
    }

    /// A kind is not served any more: nobody can be asked for its objects. They hold up no owner, and what they own stays, because
    /// whether they exist cannot be known.
    /// Differs from upstream, whose graph keeps them: an owner deleted in foreground would wait for them for ever.
    pub fn forget_kind(&mut self, kind: KindId, wanted: &mut WorkItems) {
        let of_kind = |node: &Node| matches!(&node.body, Body::Seen { kind: seen, .. } if *seen == kind);
        let known: Vec<Uid> =
            self.nodes.iter().filter(|(_, node)| of_kind(node)).map(|(uid, _)| uid.clone()).collect();
        for uid in known {
            let Some(node) = self.nodes.get(&uid) else { continue };
            let (owners, identity) = (node.owners(), self.coordinates(node).with_uid(&uid.to_string()));
            match node.dependents.is_some() {
                true => {
                    let Some(node) = self.nodes.get_mut(&uid) else { continue };
                    node.body = Body::Virtual(Box::new(identity));
                    node.deleting_dependents = false;
                }
                false => drop(self.nodes.remove(&uid)),
            }
            self.leave_owners(&uid, &owners, wanted);
        }
        // Last: an owner that lost its dependents is alone again.
        self.loners.clear(kind);
    }

    pub fn absent_owners(&mut self) -> &mut AbsentOwners {
        &mut self.absent
    }

    /// An informer has an object, new or changed.
    pub fn seen(&mut self, kind: KindId, obj: &Arc<Obj>, wanted: &mut WorkItems) {
        let uid = Uid::read(obj.uid());
        let seen = Body::Seen { kind, obj: obj.clone() };
        let Some(node) = self.nodes.get_mut(&uid) else {
            if is_lone(obj) {
                return self.loners.put(kind, obj.clone());
            }
            self.loners.take(kind, obj.uid());
            let deleting_dependents = obj.deleting() && finalizers(obj).iter().any(|f| f == FOREGROUND);
            self.nodes.insert(uid.clone(), Node { body: seen, dependents: None, deleting_dependents });
            let owners = owners_of(obj);
            self.add_to_owners(&uid, obj.namespace(), &owners, &owners, wanted);
            return self.transition(&uid, None, obj, wanted);
        };
        let old = match std::mem::replace(&mut node.body, seen) {
            // Most changes are of a status: nothing to do with owners.
            Body::Seen { obj: old, .. }
                if !obj.deleting() && !old.deleting() && old.owners() == obj.owners() =>
            {
                return;
            }
            Body::Seen { obj: old, .. } => Some(old),
            Body::Virtual(supposed) => {
                self.observed(&uid, &supposed, wanted);
                None
            }
        };
        let before = old.as_deref().map(owners_of).unwrap_or_default();
        let after = owners_of(obj);
        if before != after {
            self.change_owners(&uid, obj.namespace(), before, after, wanted);
        }
        self.transition(&uid, old.as_deref(), obj, wanted);
    }

    /// An informer saw an object go.
    pub fn gone(&mut self, kind: KindId, obj: &Arc<Obj>, wanted: &mut WorkItems) {
        if self.loners.take(kind, obj.uid()).is_some() {
            return;
        }
        let uid = Uid::read(obj.uid());
        let Some(node) = self.nodes.get_mut(&uid) else { return };
        let seen = Body::Seen { kind, obj: obj.clone() };
        // The last known owners are those the graph has, not those of the final state.
        if let Body::Virtual(_) = &node.body
            && let Body::Virtual(supposed) = std::mem::replace(&mut node.body, seen)
        {
            self.observed(&uid, &supposed, wanted);
        }
        let identity = self.coordinates_seen(kind, obj).with_uid(obj.uid());
        self.remove(&uid, identity, wanted);
    }

    /// The server says that nobody with this identity exists.
    pub fn absent(&mut self, identity: &Identity, wanted: &mut WorkItems) {
        let uid = Uid::read(&identity.uid);
        let Some(node) = self.nodes.get(&uid) else { return };
        let virtually = matches!(node.body, Body::Virtual(_));
        let same = self.coordinates(node) == identity.coordinates();
        if !virtually && same {
            return self.remove(&uid, identity.clone(), wanted);
        }
        let (matching, others) = self.partition(node, &uid, identity.coordinates());
        if virtually && others.is_empty() {
            return self.remove(&uid, identity.clone(), wanted);
        }
        // Either it was seen as somebody else, or dependents disagree on who it is: only those who meant this one lost it.
        if !matching.is_empty() {
            self.absent.add(identity.clone());
            wanted.delete.extend(matching);
        }
        if virtually
            && same
            && let Some(other) = self.alternate_identity(&others, identity)
            && let Some(node) = self.nodes.get_mut(&uid)
        {
            node.body = Body::Virtual(Box::new(other));
            wanted.delete_later.push(uid);
        }
    }

    fn change_owners(
        &mut self,
        uid: &Uid,
        namespace: &str,
        before: Vec<Owner>,
        after: Vec<Owner>,
        wanted: &mut WorkItems,
    ) {
        let mut old: BTreeMap<&str, &Owner> =
            before.iter().map(|owner| (owner.uid.as_str(), owner)).collect();
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for owner in &after {
            match old.remove(owner.uid.as_str()) {
                None => added.push(owner.clone()),
                Some(was) if was != owner => changed.push((was, owner)),
                Some(_) => {}
            }
        }
        // A second reference to an owner that also had one is not gone with the first.
        let removed: Vec<&Owner> =
            old.into_values().filter(|was| !after.iter().any(|owner| owner.uid == was.uid)).collect();
        // Owners that wait for their dependents may have lost what blocked them.
        let unblocked = removed.iter().filter(|was| was.block_owner_deletion).map(|was| &was.uid).chain(
            changed
                .iter()
                .filter(|(was, is)| was.block_owner_deletion && !is.block_owner_deletion)
                .map(|(_, is)| &is.uid),
        );
        let unblocked: Vec<Uid> = unblocked.map(|uid| Uid::read(uid)).collect();
        wanted.delete.extend(unblocked.into_iter().filter(|uid| self.nodes.contains_key(uid)));
        for (was, owner) in &changed {
            let owner_uid = Uid::read(&owner.uid);
            self.no_longer_alone(&owner.uid, &owner_uid);
            let blocking = blocks(&after, &owner.uid);
            self.link(&owner_uid, uid, blocking);
            // Like one who comes late: the owner that waits does not look at it again by itself.
            let waits = self.nodes.get(&owner_uid).is_some_and(|node| node.deleting_dependents);
            if waits && blocking && !was.block_owner_deletion {
                wanted.delete.push(uid.clone());
            }
        }
        self.add_to_owners(uid, namespace, &added, &after, wanted);
        for was in removed {
            self.unlink(&Uid::read(&was.uid), uid);
        }
    }

    /// Makes a node a dependent of the owners in `added`, which are among `all` it has.
    fn add_to_owners(
        &mut self,
        uid: &Uid,
        namespace: &str,
        added: &[Owner],
        all: &[Owner],
        wanted: &mut WorkItems,
    ) {
        let mut suspicious = false;
        for owner in added {
            let owner_uid = Uid::read(&owner.uid);
            let blocking = blocks(all, &owner.uid);
            self.no_longer_alone(&owner.uid, &owner_uid);
            let Some(node) = self.nodes.get(&owner_uid) else {
                let body = Body::Virtual(Box::new(Identity::referred(owner, namespace)));
                let node = Node { body, dependents: None, deleting_dependents: false };
                self.nodes.insert(owner_uid.clone(), node);
                self.link(&owner_uid, uid, blocking);
                // Somebody has to ask the server whether it exists.
                wanted.delete.push(owner_uid);
                continue;
            };
            let (coordinates, observed) = (self.coordinates(node), matches!(node.body, Body::Seen { .. }));
            if !suspicious {
                let elsewhere = coordinates.namespace != namespace;
                if !coordinates.namespace.is_empty() && elsewhere {
                    suspicious = true;
                    if observed && let Some(dep) = self.nodes.get(uid) {
                        wanted.strays.extend(self.stray(dep, uid, &owner_uid));
                    }
                } else {
                    // A virtual owner without a namespace may be of a kind that has them, named by something that has none.
                    suspicious = !coordinates.is_named_by(owner) || (elsewhere && !observed);
                }
            }
            // Differs from upstream: there, one who comes late blocks its owner until another dependent goes.
            let late = blocking && node.deleting_dependents;
            self.link(&owner_uid, uid, blocking);
            if late {
                wanted.delete.push(uid.clone());
            }
        }
        if suspicious {
            wanted.delete.push(uid.clone());
        }
    }

    /// Somebody names it as an owner: if it was alone until now, it gets a node.
    fn no_longer_alone(&mut self, text: &str, uid: &Uid) {
        if self.nodes.contains_key(uid) {
            return;
        }
        let found = self.loners.find(text).map(|(kind, _)| kind);
        if let Some(kind) = found
            && let Some(obj) = self.loners.take(kind, text)
        {
            let body = Body::Seen { kind, obj };
            self.nodes.insert(uid.clone(), Node { body, dependents: None, deleting_dependents: false });
        }
    }

    /// A deletion that now waits for the collector.
    fn transition(&mut self, uid: &Uid, old: Option<&Obj>, new: &Obj, wanted: &mut WorkItems) {
        if !new.deleting() {
            return;
        }
        let held = finalizers(new);
        let had = old.filter(|old| old.deleting()).map(finalizers).unwrap_or_default();
        let begins =
            |finalizer: &str| held.iter().any(|f| f == finalizer) && !had.iter().any(|f| f == finalizer);
        if begins(ORPHAN) {
            return wanted.orphan.push(uid.clone());
        }
        if begins(FOREGROUND)
            && let Some(node) = self.nodes.get_mut(uid)
        {
            node.deleting_dependents = true;
            wanted.delete.extend(node.dependents().cloned());
            wanted.delete.push(uid.clone());
        }
    }

    fn remove(&mut self, uid: &Uid, identity: Identity, wanted: &mut WorkItems) {
        let Some(node) = self.nodes.remove(uid) else { return };
        if node.dependents().next().is_some() {
            self.absent.add(identity);
        }
        wanted.delete.extend(node.dependents().filter(|dep| *dep != uid).cloned());
        self.leave_owners(uid, &node.owners(), wanted);
    }

    fn leave_owners(&mut self, uid: &Uid, owners: &[Owner], wanted: &mut WorkItems) {
        for owner in owners {
            let owner = Uid::read(&owner.uid);
            self.unlink(&owner, uid);
            let Some(node) = self.nodes.get(&owner).filter(|node| node.deleting_dependents) else { continue };
            // Differs from upstream, where every dependent that goes wakes the owner: only the last has news for it.
            if node.dependents.as_deref().is_none_or(|d| d.blocking == 0) {
                wanted.delete.push(owner);
            }
        }
    }

    fn link(&mut self, owner: &Uid, dependent: &Uid, blocking: bool) {
        let Some(node) = self.nodes.get_mut(owner) else { return };
        let dependents = node.dependents.get_or_insert_default();
        if dependents.edges.insert(dependent.clone(), blocking) == Some(true) {
            dependents.blocking -= 1;
        }
        dependents.blocking += usize::from(blocking);
    }

    fn unlink(&mut self, owner: &Uid, dependent: &Uid) {
        let Some(node) = self.nodes.get_mut(owner) else { return };
        let Some(dependents) = node.dependents.as_deref_mut() else { return };
        if dependents.edges.remove(dependent) == Some(true) {
            dependents.blocking -= 1;
        }
        if !dependents.edges.is_empty() {
            return;
        }
        node.dependents = None;
        if !node.deleting_dependents
            && let Body::Seen { kind, obj } = &node.body
            && is_lone(obj)
        {
            self.loners.put(*kind, obj.clone());
            self.nodes.remove(owner);
        }
    }

    fn coordinates<'a>(&'a self, node: &'a Node) -> Coordinates<'a> {
        match &node.body {
            Body::Seen { kind, obj } => self.coordinates_seen(*kind, obj),
            Body::Virtual(identity) => identity.coordinates(),
        }
    }

    fn coordinates_seen<'a>(&'a self, kind: KindId, obj: &'a Obj) -> Coordinates<'a> {
        let kind = &self.kinds[usize::from(kind)];
        Coordinates {
            kind: &kind.kind,
            api_version: &kind.api_version,
            namespace: obj.namespace(),
            name: obj.name(),
        }
    }
}

#[cfg(test)]
impl Graph {
    pub const NODE_BYTES: usize = size_of::<(Uid, Node)>();

    pub fn len(&self) -> usize {
        self.nodes.len() + self.loners.len()
    }
}

impl Node {
    fn owners(&self) -> Vec<Owner> {
        match &self.body {
            Body::Seen { obj, .. } => owners_of(obj),
            Body::Virtual(_) => Vec::new(),
        }
    }
    fn dependents(&self) -> impl Iterator<Item = &Uid> {
        self.dependents.as_deref().map(|d| d.edges.keys()).into_iter().flatten()
    }
    fn being_deleted(&self) -> bool {
        matches!(&self.body, Body::Seen { obj, .. } if obj.deleting())
    }
}

/// What keeps an object after its deletion; asked only of what is being deleted.
pub fn finalizers(obj: &Obj) -> Vec<String> {
    let metadata = json::parse(obj.metadata(), None).unwrap_or(Value::Null);
    let list = metadata.get("finalizers").and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect()
}

/// By itself it can have no part in any collection: only a dependent, an owner or a deletion would give it one.
fn is_lone(obj: &Obj) -> bool {
    obj.owners().is_empty() && !obj.deleting()
}

fn blocks(owners: &[Owner], uid: &str) -> bool {
    owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion)
}
