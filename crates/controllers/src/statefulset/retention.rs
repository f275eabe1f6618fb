//! Which owners a claim has, so that the garbage collector deletes it with its set or its pod, or nobody does.
//!
//! ```text
//! whenScaled  whenDeleted   a pod that is wanted   a pod above the scale
//! Retain      Retain        nobody                 nobody
//! Retain      Delete        the set                the set
//! Delete      Retain        nobody                 the pod
//! Delete      Delete        the set                the pod
//! ```

use object::{Obj, Value};
use runtime::owners::{self, Owner};

/// What becomes of claims; what is not deleted is retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    pub deletes_with_set: bool,
    pub deletes_when_scaled: bool,
}

impl Retention {
    pub fn read(policy: Option<&Value>) -> Retention {
        let deletes = |name: &str| policy.and_then(|policy| policy.str_at(&[name])) == Some("Delete");
        Retention { deletes_with_set: deletes("whenDeleted"), deletes_when_scaled: deletes("whenScaled") }
    }

    fn is_retain(self) -> bool {
        self == Retention::default()
    }
}

/// Who may own a claim: a set, and the pod that uses the claim.
#[derive(Clone, Copy)]
pub(crate) struct Holders<'a> {
    pub set: &'a Obj,
    pub pod_name: &'a str,
    /// Empty: it was not made yet.
    pub pod_uid: &'a str,
    pub scaled_down: bool,
    pub retention: Retention,
}

impl Holders<'_> {
    fn is_set(&self, owner: &Owner) -> bool {
        owner.api_version == "apps/v1" && owner.kind == "StatefulSet" && owner.name == self.set.name()
    }

    fn is_pod(&self, owner: &Owner) -> bool {
        owner.api_version == "v1" && owner.kind == "Pod" && owner.name == self.pod_name
    }

    /// Another pod of this name owns it: it goes, and must be gone before there is a pod again.
    pub fn pod_is_stale(&self, claim: &Obj) -> bool {
        pod_is_stale(self, &owners::owners_of(claim))
    }

    /// Another controller, or an earlier set or pod of the same name, answers for it. Where claims are retained that is nobody's
    /// business.
    pub fn has_unexpected_controller(&self, claim: &Obj) -> bool {
        unexpected_controller(self, &owners::owners_of(claim))
    }

    /// Claims in a state nobody here made are left alone.
    pub fn are_up_to_date(&self, claim: &Obj) -> bool {
        let owners = owners::owners_of(claim);
        let mut of_set = owners.iter().filter(|owner| self.is_set(owner));
        let set_is_stale = of_set.next().is_some_and(|owner| owner.uid != self.set.uid());
        if set_is_stale || pod_is_stale(self, &owners) {
            return true;
        }
        let has = |uid: &str| owners.iter().any(|owner| owner.uid == uid);
        let (has_set, has_pod) = (has(self.set.uid()), has(self.pod_uid));
        if unexpected_controller(self, &owners) {
            return !has_set && !has_pod;
        }
        let is_ours = |owner: &Owner| owner.uid == self.set.uid() || owner.uid == self.pod_uid;
        if owners.iter().any(|owner| is_ours(owner) && !owner.controller) {
            return false;
        }
        (has_set, has_pod) == self.wanted()
    }

    /// Of the set and the pod, who should own it.
    fn wanted(&self) -> (bool, bool) {
        let Retention { deletes_with_set, deletes_when_scaled } = self.retention;
        let of_pod = deletes_when_scaled && self.scaled_down;
        (deletes_with_set && !of_pod, of_pod)
    }

    /// The claim with the owners it should have.
    pub fn updated(&self, claim: &Obj) -> Value {
        let owners = owners::owners_of(claim);
        let mut tree = runtime::tree(claim);
        let metadata = tree.map_at(&["metadata"]);
        let references = metadata.get("ownerReferences").and_then(Value::as_list).unwrap_or_default();
        let others =
            references.iter().zip(&owners).filter(|(_, owner)| !self.is_set(owner) && !self.is_pod(owner));
        let mut kept: Vec<Value> = others.map(|(reference, _)| reference.clone()).collect();
        if !unexpected_controller(self, &owners) {
            let (of_set, of_pod) = self.wanted();
            if of_set {
                kept.push(owners::controller_ref("apps/v1", "StatefulSet", self.set));
            }
            if of_pod {
                kept.push(self.pod_reference());
            }
        }
        if kept.is_empty() {
            metadata.remove("ownerReferences");
        } else {
            metadata.set("ownerReferences", Value::List(kept));
        }
        tree
    }

    fn pod_reference(&self) -> Value {
        let mut reference = object::Map::default();
        reference.set("apiVersion", "v1");
        reference.set("kind", "Pod");
        reference.set("name", self.pod_name.to_owned());
        reference.set("uid", self.pod_uid.to_owned());
        reference.set("controller", true);
        reference.set("blockOwnerDeletion", true);
        Value::Map(reference)
    }
}

fn pod_is_stale(holders: &Holders<'_>, owners: &[Owner]) -> bool {
    let first = owners.iter().find(|owner| holders.is_pod(owner));
    first.is_some_and(|owner| owner.uid != holders.pod_uid)
}

fn unexpected_controller(holders: &Holders<'_>, owners: &[Owner]) -> bool {
    !holders.retention.is_retain()
        && owners.iter().any(|owner| {
            if holders.is_set(owner) {
                owner.uid != holders.set.uid()
            } else if holders.is_pod(owner) {
                owner.uid != holders.pod_uid
            } else {
                owner.controller
            }
        })
}
