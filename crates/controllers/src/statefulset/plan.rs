//! The decision of a reconcile: which pods to make, mend and delete, in which order, and what the status says.
//!
//! ```text
//! wanted pods, upwards ── claims of the others ── the others, downwards ── pods of an old revision, downwards
//! ```
//! One after the other each phase waits for the first pod that is not there, not ready or going. In parallel nothing waits, except that
//! one pod at a time is replaced for an update.

use std::collections::BTreeMap;

use kinds::pod::view::Phase as PodPhase;

use super::identity::{REVISION, pod_name};
use super::members::{ClaimState, Member, Members, Rules};
use super::set::UpdateStrategy;
use super::status::{SetStatus, is_running_and_ready};
use crate::pods::Pod;

/// So many steps at most in one phase; the rest follows at once.
pub(crate) const BURST: usize = 500;

/// What is known when the decision is made.
pub(crate) struct Snapshot<'a> {
    pub rules: Rules<'a>,
    pub members: &'a Members,
    /// Names of revisions: the one most pods have, and the one all shall have.
    pub current: &'a str,
    pub update: &'a str,
    pub collisions: i64,
    /// Unix seconds.
    pub now: i64,
}

#[derive(Clone)]
pub(crate) enum Step {
    /// Made again, if it is wanted, once it is gone.
    Delete(Pod),
    /// At the current revision, or at that of the update.
    Create { ordinal: i64, current: bool },
    /// Claims a waiting pod lacks; then what else is wrong with it: two steps for one pod would run at the same time.
    MakeClaims { pod: Pod, then_update: bool },
    /// Its identity, its volumes or the owners of its claims are not what they should be.
    Update(Pod),
    /// The owners of the claims of a pod that will go.
    FixClaims(Pod),
}

#[derive(Default)]
pub(crate) struct Plan {
    /// Each begins when all steps of the one before went well.
    pub phases: Vec<Vec<Step>>,
    /// After them all: the next pod to be replaced by one of the update's revision.
    pub outdated: Option<Pod>,
    /// Not everything there was to do fits into one reconcile.
    pub more: bool,
    /// As it is before `outdated` goes.
    pub status: SetStatus,
}

/// What a phase came to; the next one begins only if this one has `passed`.
#[derive(Default)]
struct Phase {
    steps: Vec<Step>,
    passed: bool,
    more: bool,
}

pub(crate) fn plan(seen: &Snapshot<'_>) -> Plan {
    let set = seen.rules.set;
    let status = SetStatus {
        observed_generation: set.generation,
        current_revision: seen.current.to_owned(),
        update_revision: seen.update.to_owned(),
        collisions: Some(seen.collisions),
        ..SetStatus::default()
    };
    let mut plan = Plan { status, ..Plan::default() };
    if seen.rules.obj.deleting() {
        plan.status.count(seen.members.pods(), set.min_ready_seconds, seen.now);
        return plan;
    }
    let (replicas, condemned) = seen.sorted();
    plan.status.count(
        replicas.values().chain(&condemned).map(|member| &member.pod),
        set.min_ready_seconds,
        seen.now,
    );
    for phase in
        [seen.replicas_phase(&replicas), seen.claims_phase(&condemned), seen.condemned_phase(&condemned)]
    {
        plan.more |= phase.more;
        plan.phases.push(phase.steps);
        if !phase.passed {
            return plan;
        }
    }
    plan.outdated = seen.outdated(&replicas).map(|member| member.pod.clone());
    plan
}

impl Snapshot<'_> {
    /// The pods that are wanted by their place, and the others from the highest ordinal down. A name without an ordinal is neither.
    fn sorted(&self) -> (BTreeMap<usize, &Member>, Vec<&Member>) {
        let (mut replicas, mut condemned) = (BTreeMap::new(), Vec::new());
        for (ordinal, member) in self.members.iter() {
            let Some(ordinal) = ordinal else { continue };
            match self.rules.set.index_of(ordinal) {
                Some(index) => {
                    replicas.insert(index, member);
                }
                None => condemned.push((ordinal, member)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        (replicas, condemned.into_iter().map(|(_, member)| member).collect())
    }

    fn replicas_phase(&self, replicas: &BTreeMap<usize, &Member>) -> Phase {
        let set = self.rules.set;
        let ordered = !set.parallel;
        let mut phase = Phase::default();
        for index in 0..set.replicas {
            if phase.steps.len() >= BURST {
                phase.more = true;
                return phase;
            }
            let Some(Member { pod, is_wrong, claims }) = replicas.get(&index).copied() else {
                let ordinal = set.ordinal_at(index);
                // One that waits for its claims to go is asked for again when they are gone.
                if !self.rules.has_stale_claim(ordinal) {
                    phase.steps.push(Step::Create { ordinal, current: self.begins_as_current(index) });
                }
                if ordered {
                    return phase;
                }
                continue;
            };
            if pod.view.is_terminal() {
                if !pod.obj.deleting() {
                    phase.steps.push(Step::Delete(pod.clone()));
                }
                if ordered {
                    return phase;
                }
                continue;
            }
            let makes_claims = pod.view.phase == PodPhase::Pending && *claims != ClaimState::Right;
            let is_waited_for =
                ordered && (pod.obj.deleting() || !is_running_and_ready(pod) || !self.is_available(pod));
            if makes_claims {
                let then_update = *is_wrong && !is_waited_for;
                phase.steps.push(Step::MakeClaims { pod: pod.clone(), then_update });
            } else if !is_waited_for && (*is_wrong || *claims == ClaimState::WrongOwners) {
                phase.steps.push(Step::Update(pod.clone()));
            }
            if is_waited_for {
                return phase;
            }
        }
        phase.passed = true;
        phase
    }

    fn claims_phase(&self, condemned: &[&Member]) -> Phase {
        let wrong = condemned.iter().filter(|member| member.claims == ClaimState::WrongOwners);
        bounded(wrong.map(|member| Step::FixClaims(member.pod.clone())))
    }

    fn condemned_phase(&self, condemned: &[&Member]) -> Phase {
        let pods = || condemned.iter().map(|member| &member.pod);
        if self.rules.set.parallel {
            let there = pods().filter(|pod| !pod.obj.deleting());
            return bounded(there.map(|pod| Step::Delete(pod.clone())));
        }
        let Some(highest) = pods().next() else { return Phase { passed: true, ..Phase::default() } };
        // All wanted pods are available here, or this phase would not have begun.
        let is_unavailable = |pod: &&Pod| pod.obj.deleting() || !self.is_available(pod);
        let first_unavailable = pods().rev().find(is_unavailable);
        let is_first = first_unavailable.is_some_and(|first| first.obj.uid() == highest.obj.uid());
        let is_well = is_running_and_ready(highest) && self.is_available(highest);
        let goes = !highest.obj.deleting() && (is_well || is_first);
        Phase { steps: goes.then(|| Step::Delete(highest.clone())).into_iter().collect(), ..Phase::default() }
    }

    /// The highest pod of another revision, if all above it are available.
    fn outdated<'a>(&self, replicas: &BTreeMap<usize, &'a Member>) -> Option<&'a Member> {
        let UpdateStrategy::RollingUpdate { partition } = self.rules.set.update else { return None };
        for index in (partition.unwrap_or(0)..self.rules.set.replicas).rev() {
            let member = replicas.get(&index).copied()?;
            let pod = &member.pod;
            if pod.obj.label(REVISION) != Some(self.update) && !pod.obj.deleting() {
                return Some(member);
            }
            if pod.obj.deleting() || !self.is_available(pod) {
                return None;
            }
        }
        None
    }

    /// Is a pod of this place made at the current revision, not yet at the update's?
    fn begins_as_current(&self, index: usize) -> bool {
        match self.rules.set.update {
            UpdateStrategy::OnDelete => false,
            UpdateStrategy::RollingUpdate { partition: Some(partition) } => index < partition,
            UpdateStrategy::RollingUpdate { partition: None } => {
                (index as i64) < self.rules.set.status.current
            }
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.view.is_available(self.rules.set.min_ready_seconds, self.now)
    }
}

/// All of a phase that nothing holds up.
fn bounded(steps: impl Iterator<Item = Step>) -> Phase {
    let mut steps: Vec<Step> = steps.take(BURST + 1).collect();
    let more = steps.len() > BURST;
    steps.truncate(BURST);
    Phase { steps, passed: !more, more }
}

impl Plan {
    /// For people who ask what a reconcile did.
    pub fn describe(&self, set: &str) -> String {
        let of = |step: &Step| match step {
            Step::Delete(pod) => format!("delete {}", pod.obj.name()),
            Step::Create { ordinal, .. } => format!("create {}", pod_name(set, *ordinal)),
            Step::MakeClaims { pod, then_update: false } => format!("make claims of {}", pod.obj.name()),
            Step::MakeClaims { pod, .. } => format!("make claims of and update {}", pod.obj.name()),
            Step::Update(pod) => format!("update {}", pod.obj.name()),
            Step::FixClaims(pod) => format!("fix claims of {}", pod.obj.name()),
        };
        const SHOWN: usize = 10;
        let all = || self.phases.iter().flatten();
        let mut said: Vec<String> = all().take(SHOWN).map(of).collect();
        if all().count() > SHOWN {
            said.push(format!("{} more", all().count() - SHOWN));
        }
        said.extend(self.outdated.iter().map(|pod| format!("replace {}", pod.obj.name())));
        if said.is_empty() { "nothing but the status".to_owned() } else { said.join(", ") }
    }
}
