//! The pods of a set and what its plan has to know of each, kept between reconciles: only what changed is read and judged again.
//!
//! ```text
//! a pod changed ─────> it is read ──────────────┐
//! a claim changed ───> the pods of its ordinal ─┴─> judged ──> in its place among the members ──> plan
//! ```
//! The plan still goes through all members, in memory: a few comparisons for each, nothing read and nothing parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::Obj;
use runtime::Key;
use runtime::owners::{self, Verdict};

use super::identity::{
    claim_name, identity_matches, is_member, ordinal, parent_and_ordinal, pod_name, sets_of_claim,
    storage_matches,
};
use super::retention::Holders;
use super::set::StatefulSet;
use crate::claim::matches;
use crate::pods::Pod;

/// The names by which pods and claims that changed are kept.
const POD: &str = "pod/";
const CLAIM: &str = "claim/";

pub(crate) fn pod_part(name: &str) -> String {
    [POD, name].concat()
}

/// The set a pod may be of, and the part of it that changes with the pod: its controller, or of one without, whom it is named after.
pub(crate) fn part_of_pod(pod: &Obj) -> Option<(Key, String)> {
    let part_of = |set: &str| (Key::new(pod.namespace(), set), pod_part(pod.name()));
    match owners::controller_of(pod) {
        Some(owner) => (owner.kind == "StatefulSet").then(|| part_of(&owner.name)),
        None => parent_and_ordinal(pod.name()).map(|(set, _)| part_of(set)),
    }
}

/// The sets that may use a claim, and the part of each that changes with it.
pub(crate) fn parts_of_claim(claim: &Obj) -> impl Iterator<Item = (Key, String)> {
    let ordinal = ordinal(claim.name());
    let sets = sets_of_claim(claim.name());
    sets.filter_map(move |(_, set)| Some((Key::new(claim.namespace(), set), format!("{CLAIM}{}", ordinal?))))
}

pub(crate) struct Member {
    pub pod: Pod,
    /// Its identity or its volumes are not what they should be.
    pub is_wrong: bool,
    pub claims: ClaimState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimState {
    Right,
    WrongOwners,
    /// Or on its way out.
    Missing,
}

/// In the order of ordinals, then of names: two names may mean one ordinal. Names without one come first.
#[derive(Default)]
pub(crate) struct Members(BTreeMap<(Option<i64>, String), Member>);

impl Members {
    pub fn new(pods: impl IntoIterator<Item = Pod>, rules: &Rules<'_>) -> Members {
        let mut members = Members::default();
        pods.into_iter().for_each(|pod| members.insert(pod, rules));
        members
    }

    /// With their ordinals.
    pub fn iter(&self) -> impl Iterator<Item = (Option<i64>, &Member)> {
        self.0.iter().map(|((ordinal, _), member)| (*ordinal, member))
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.0.values().map(|member| &member.pod)
    }

    /// Looks at the parts that changed. `false`: a pod is to be adopted or let go, which is decided with all of them.
    pub fn update(
        &mut self,
        parts: &BTreeSet<String>,
        rules: &Rules<'_>,
        pod: &dyn Fn(&str) -> Option<Arc<Obj>>,
    ) -> bool {
        for part in parts {
            if let Some(ordinal) = part.strip_prefix(CLAIM).and_then(|ordinal| ordinal.parse().ok()) {
                self.judge_again(ordinal, rules);
            }
            let Some(name) = part.strip_prefix(POD) else { continue };
            self.0.remove(&(ordinal(name), name.to_owned()));
            let Some(pod) = pod(name) else { continue };
            match owners::verdict(rules.obj, &pod, rules.means(&pod)) {
                Verdict::Ours => self.insert(Pod::new(pod), rules),
                Verdict::NotOurs => {}
                Verdict::Adopt | Verdict::Release => return false,
            }
        }
        true
    }

    fn insert(&mut self, pod: Pod, rules: &Rules<'_>) {
        let place = (ordinal(pod.obj.name()), pod.obj.name().to_owned());
        let member = Member { is_wrong: rules.is_wrong(&pod), claims: rules.claims_of(&pod), pod };
        self.0.insert(place, member);
    }

    fn judge_again(&mut self, ordinal: i64, rules: &Rules<'_>) {
        let from = (Some(ordinal), String::new());
        for (_, member) in self.0.range_mut(from..).take_while(|((at, _), _)| *at == Some(ordinal)) {
            member.claims = rules.claims_of(&member.pod);
        }
    }
}

/// What pods are judged by.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub obj: &'a Obj,
    pub set: &'a StatefulSet,
    pub claim: &'a dyn Fn(&str) -> Option<Arc<Obj>>,
}

impl Rules<'_> {
    /// Is it one of the set's, if nobody else controls it?
    pub fn means(&self, pod: &Obj) -> bool {
        matches(&self.set.selector, pod) && is_member(self.obj, pod)
    }

    fn is_wrong(&self, pod: &Pod) -> bool {
        !identity_matches(self.obj, &pod.obj) || !storage_matches(self.obj, self.set, pod)
    }

    /// Does a claim of a pod that is not there belong to an earlier one still?
    pub fn has_stale_claim(&self, ordinal: i64) -> bool {
        if !self.set.retention.deletes_when_scaled {
            return false;
        }
        let pod_name = pod_name(self.obj.name(), ordinal);
        let holders = self.holders(&pod_name, "", ordinal);
        let mut claims = self.claims_at(ordinal).into_iter().flatten();
        claims.any(|claim| holders.pod_is_stale(&claim))
    }

    fn claims_of(&self, pod: &Pod) -> ClaimState {
        if self.set.claim_templates.is_empty() {
            return ClaimState::Right;
        }
        let Some(ordinal) = ordinal(pod.obj.name()) else { return ClaimState::Right };
        let holders = self.holders(pod.obj.name(), pod.obj.uid(), ordinal);
        let claims = self.claims_at(ordinal);
        if claims.iter().flatten().any(|claim| !holders.are_up_to_date(claim)) {
            ClaimState::WrongOwners
        } else if claims.iter().any(|claim| claim.as_ref().is_none_or(|claim| claim.deleting())) {
            ClaimState::Missing
        } else {
            ClaimState::Right
        }
    }

    fn holders<'a>(&'a self, pod_name: &'a str, pod_uid: &'a str, ordinal: i64) -> Holders<'a> {
        let scaled_down = !self.set.has_ordinal(ordinal);
        Holders { set: self.obj, pod_name, pod_uid, scaled_down, retention: self.set.retention }
    }

    fn claims_at(&self, ordinal: i64) -> Vec<Option<Arc<Obj>>> {
        let claim = |template: &String| (self.claim)(&claim_name(template, self.obj.name(), ordinal));
        self.set.claim_templates.iter().map(claim).collect()
    }
}
