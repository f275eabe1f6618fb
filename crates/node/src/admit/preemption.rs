//! Which pods a node ends so that a critical one fits, by kubelet's rules: as few as possible, and of those that were promised least.

use std::cmp::Reverse;
use std::fmt::Write;

use object::Value;

use crate::admit::Rejection;
use crate::container_runtime::Evicted;
use crate::pod::{Pod, Requests};

pub const REASON: &str = "Preempting";
pub const MESSAGE: &str = "Preempted in order to admit critical pod";
const DISRUPTION: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";
/// Pods of this priority are the system's own.
const SYSTEM_CRITICAL: i64 = 2_000_000_000;

/// How a pod stands among the others of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionRank {
    pub critical: bool,
    priority: Option<i64>,
    class: QosClass,
}

/// Of service; those that were promised less come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QosClass {
    BestEffort,
    Burstable,
    Guaranteed,
}

impl PreemptionRank {
    pub fn of(pod: &Pod<'_>) -> PreemptionRank {
        let priority = pod.tree.at(&["spec", "priority"]).and_then(Value::as_int);
        let mirror = pod.tree.at(&["metadata", "annotations", crate::static_pods::MIRROR]).is_some();
        let critical = priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL);
        let class = match pod.tree.str_at(&["status", "qosClass"]) {
            Some("Guaranteed") => QosClass::Guaranteed,
            Some("Burstable") => QosClass::Burstable,
            _ => QosClass::BestEffort,
        };
        PreemptionRank { critical: critical || mirror || pod.is_static(), priority, class }
    }

    /// Who comes first where several wait for the same room.
    pub fn room_order(&self) -> (Reverse<i64>, bool) {
        (Reverse(self.priority.unwrap_or(0)), self.class != QosClass::Guaranteed)
    }

    fn may_preempt(&self, other: &PreemptionRank) -> bool {
        let outranks = || self.priority.zip(other.priority).is_some_and(|(own, other)| own > other);
        self.critical && !other.critical || outranks()
    }
}

/// A pod that may have to go.
#[derive(Clone, Debug)]
pub struct Candidate<'a, K> {
    pub key: K,
    pub rank: PreemptionRank,
    pub requests: Requests,
    /// Huge pages and extended resources.
    pub scalars: Vec<(&'a str, i64)>,
}

impl<K> Candidate<'_, K> {
    fn amount(&self, resource: &str) -> i64 {
        match resource {
            "pods" => 1,
            "cpu" => self.requests.cpu_milli,
            "memory" => self.requests.memory,
            "ephemeral-storage" => self.requests.ephemeral_storage,
            other => self.scalars.iter().filter(|(name, _)| *name == other).map(|(_, amount)| amount).sum(),
        }
    }

    fn asks_no_more_than(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.requests.memory, one.requests.cpu_milli);
        of(self) <= of(other)
    }
}

/// What is missing of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub resource: String,
    pub amount: i64,
}

/// The keys of those that have to go. `Err`: all of them together would not be enough.
pub fn choose<K: Clone>(
    preemptor: &PreemptionRank,
    pods: &[Candidate<'_, K>],
    missing: &[Missing],
) -> Result<Vec<K>, Rejection> {
    let of = |class: QosClass| {
        let own = pods.iter().filter(|pod| pod.rank.class == class);
        own.filter(|pod| preemptor.may_preempt(&pod.rank)).collect::<Vec<_>>()
    };
    let (best_effort, burstable, guaranteed) =
        (of(QosClass::BestEffort), of(QosClass::Burstable), of(QosClass::Guaranteed));
    let all = [&*best_effort, &burstable, &guaranteed].concat();
    let unmet = left(missing, &all);
    if !unmet.is_empty() {
        return Err(impossible(&unmet));
    }
    // Each class gives only what the ones below it cannot.
    let from_guaranteed = nearest(guaranteed, left(missing, &[&*best_effort, &burstable].concat()))?;
    let from_burstable = nearest(burstable, left(missing, &[&*best_effort, &from_guaranteed].concat()))?;
    let from_best_effort =
        nearest(best_effort, left(missing, &[&*from_burstable, &from_guaranteed].concat()))?;
    let chosen = [from_best_effort, from_burstable, from_guaranteed].concat();
    Ok(chosen.into_iter().map(|pod| pod.key.clone()).collect())
}

/// Over and over the pod that comes closest to what is missing; of equals, the one that asks for less.
fn nearest<'a, 'b, K>(
    mut pods: Vec<&'b Candidate<'a, K>>,
    mut missing: Vec<Missing>,
) -> Result<Vec<&'b Candidate<'a, K>>, Rejection> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let mut best: Option<(usize, f64)> = None;
        for (at, pod) in pods.iter().enumerate() {
            let distance = distance(&missing, pod);
            let better = best.is_none_or(|(best, nearest)| {
                distance < nearest || distance == nearest && pod.asks_no_more_than(pods[best])
            });
            if better {
                best = Some((at, distance));
            }
        }
        let Some((best, _)) = best else { return Err(impossible(&missing)) };
        let pod = pods.swap_remove(best);
        missing = left(&missing, &[pod]);
        chosen.push(pod);
    }
    Ok(chosen)
}

/// The parts of what is missing that a pod does not give, each squared.
fn distance<K>(missing: &[Missing], pod: &Candidate<'_, K>) -> f64 {
    let part = |missing: &Missing| {
        let left = missing.amount - pod.amount(&missing.resource);
        if left > 0 { (left as f64 / missing.amount as f64).powi(2) } else { 0.0 }
    };
    missing.iter().map(part).sum()
}

fn left<K>(missing: &[Missing], gone: &[&Candidate<'_, K>]) -> Vec<Missing> {
    let rest = missing.iter().map(|missing| {
        let given = gone.iter().fold(0_i64, |sum, pod| sum.saturating_add(pod.amount(&missing.resource)));
        Missing { resource: missing.resource.clone(), amount: missing.amount.saturating_sub(given) }
    });
    rest.filter(|missing| missing.amount > 0).collect()
}

fn impossible(unmet: &[Missing]) -> Rejection {
    let mut list = String::new();
    for Missing { resource, amount } in unmet {
        let _ = write!(list, "(res: {resource}, q: {amount}), ");
    }
    Rejection {
        reason: "UnexpectedAdmissionError".to_owned(),
        message: format!(
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [{list}]"
        ),
    }
}

/// What a pod is told that has to go.
pub fn evicted(pod: &Pod<'_>) -> Evicted {
    Evicted {
        reason: REASON.into(),
        message: MESSAGE.to_owned(),
        // Containers have a moment, whatever the pod says.
        grace_seconds: pod.grace_seconds.max(1),
        disruption: Some(DISRUPTION.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(
        key: &'static str,
        class: QosClass,
        cpu_milli: i64,
        memory: i64,
    ) -> Candidate<'static, &'static str> {
        let rank = PreemptionRank { critical: false, priority: Some(0), class };
        let requests = Requests { cpu_milli, memory, ..Requests::default() };
        Candidate { key, rank, requests, scalars: Vec::new() }
    }

    fn missing(all: &[(&str, i64)]) -> Vec<Missing> {
        all.iter()
            .map(|(resource, amount)| Missing { resource: (*resource).to_owned(), amount: *amount })
            .collect()
    }

    const CRITICAL: PreemptionRank =
        PreemptionRank { critical: true, priority: Some(SYSTEM_CRITICAL), class: QosClass::BestEffort };

    #[test]
    fn as_few_as_possible_go_and_of_those_that_were_promised_least() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let pods = [
            pod("idle", BestEffort, 0, 0),
            pod("small", Burstable, 100, 100),
            pod("tiny", Burstable, 50, 100),
            pod("big", Burstable, 500, 100),
            pod("sure", Guaranteed, 1000, 1000),
        ];
        for (wanted, gone) in [
            (&[("pods", 1)][..], &["idle"][..]),
            (&[("pods", 2)], &["idle", "tiny"]),
            (&[("cpu", 50)], &["tiny"]),
            (&[("cpu", 60)], &["small"]),
            (&[("cpu", 200)], &["big"]),
            (&[("cpu", 600)], &["big", "small"]),
            (&[("cpu", 700)], &["sure"]),
            (&[("cpu", 1100)], &["small", "sure"]),
            (&[("memory", 300), ("cpu", 1)], &["tiny", "small", "big"]),
        ] {
            let chosen = choose(&CRITICAL, &pods, &missing(wanted)).unwrap();
            assert_eq!(chosen, gone, "{wanted:?}");
        }
    }

    #[test]
    fn critical_pods_stay_unless_they_are_outranked() {
        let mut other = pod("other", QosClass::Burstable, 100, 0);
        (other.rank.critical, other.rank.priority) = (true, CRITICAL.priority);
        let refused = choose(&CRITICAL, std::slice::from_ref(&other), &missing(&[("cpu", 50)])).unwrap_err();
        assert_eq!(refused.reason, "UnexpectedAdmissionError");
        assert!(
            refused.message.ends_with("found to reclaim resources: [(res: cpu, q: 50), ]"),
            "{refused:?}"
        );
        other.rank.priority = Some(1);
        assert_eq!(
            choose(&CRITICAL, &[other], &missing(&[("cpu", 50)])),
            Ok(vec!["other"]),
            "its priority is less"
        );
        let few = [pod("a", QosClass::Burstable, 100, 0), pod("b", QosClass::Guaranteed, 100, 0)];
        let refused = choose(&CRITICAL, &few, &missing(&[("cpu", 250), ("memory", 1)])).unwrap_err();
        assert!(refused.message.ends_with("[(res: cpu, q: 50), (res: memory, q: 1), ]"), "{refused:?}");
    }

    #[test]
    fn extended_resources_count() {
        let mut with = pod("with", QosClass::Burstable, 100, 100);
        with.scalars = vec![("example.com/gpu", 2)];
        let pods = [pod("without", QosClass::Burstable, 100, 100), with];
        assert_eq!(choose(&CRITICAL, &pods, &missing(&[("example.com/gpu", 1)])), Ok(vec!["with"]));
    }
    #[test]
    fn containers_have_a_moment() {
        let tree = codec::json::parse(br#"{"spec":{"terminationGracePeriodSeconds":0}}"#, None).unwrap();
        assert_eq!(evicted(&Pod::read(&tree)).grace_seconds, 1);
    }
}
