//! The status of a Deployment: sums over its ReplicaSets, and conditions that tell how the rollout goes.

use object::{Map, Value, time};

use super::plan::Member;
use super::spec::Deployment;
use crate::condition::Condition;
use crate::replicaset::REPLICA_FAILURE;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub observed_generation: i64,
    pub replicas: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
    pub unavailable: i64,
    pub terminating: Option<i64>,
    pub collisions: Option<i64>,
    pub conditions: Vec<Condition>,
}

pub(crate) const PROGRESSING: &str = "Progressing";
pub(crate) const AVAILABLE: &str = "Available";

/// Reasons of `Progressing`.
pub(crate) mod reason {
    pub const CREATED: &str = "NewReplicaSetCreated";
    pub const CREATE_FAILED: &str = "ReplicaSetCreateError";
    pub const FOUND: &str = "FoundNewReplicaSet";
    pub const UPDATED: &str = "ReplicaSetUpdated";
    pub const AVAILABLE: &str = "NewReplicaSetAvailable";
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub const PAUSED: &str = "DeploymentPaused";
    pub const RESUMED: &str = "DeploymentResumed";
}

impl Status {
    pub fn read(status: Option<&Value>) -> Status {
        let Some(status) = status else { return Status::default() };
        let int = |name: &str| status.get(name).and_then(Value::as_int);
        let count = |name: &str| int(name).unwrap_or(0);
        Status {
            observed_generation: count("observedGeneration"),
            replicas: count("replicas"),
            updated: count("updatedReplicas"),
            ready: count("readyReplicas"),
            available: count("availableReplicas"),
            unavailable: count("unavailableReplicas"),
            terminating: int("terminatingReplicas"),
            collisions: int("collisionCount"),
            conditions: Condition::read_all(status),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut status = Map::default();
        for (name, count) in [
            ("observedGeneration", self.observed_generation),
            ("replicas", self.replicas),
            ("updatedReplicas", self.updated),
            ("readyReplicas", self.ready),
            ("availableReplicas", self.available),
            ("unavailableReplicas", self.unavailable),
        ] {
            if count != 0 {
                status.set(name, count);
            }
        }
        if let Some(terminating) = self.terminating {
            status.set("terminatingReplicas", terminating);
        }
        Condition::write_all(&self.conditions, &mut status);
        if let Some(collisions) = self.collisions {
            status.set("collisionCount", collisions);
        }
        Value::Map(status)
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Nothing changes while status and reason stay; the time of the last change stays with the status.
    pub fn set(&mut self, mut condition: Condition) {
        if let Some(there) = self.condition(&condition.kind) {
            if there.status == condition.status && there.reason == condition.reason {
                return;
            }
            if there.status == condition.status {
                condition.changed.clone_from(&there.changed);
            }
        }
        self.remove(&condition.kind.clone());
        self.conditions.push(condition);
    }

    pub fn remove(&mut self, kind: &str) {
        self.conditions.retain(|condition| condition.kind != kind);
    }

    /// All that is wanted is new, there and available, and nothing else is there.
    pub fn is_complete(&self, d: &Deployment) -> bool {
        self.updated == d.replicas
            && self.replicas == d.replicas
            && self.available == d.replicas
            && self.observed_generation >= d.generation
    }

    /// The sums, and whether enough pods are available. `self` is the status so far.
    pub fn counted(&self, d: &Deployment, members: &[Member], new: Option<usize>, now: i64) -> Status {
        let sum = |count: &dyn Fn(&Member) -> i64| members.iter().map(count).sum::<i64>();
        let available = sum(&|member| member.set.status.available);
        let wanted = sum(&|member| member.replicas);
        let mut status = Status {
            observed_generation: d.generation,
            replicas: sum(&|member| member.set.status.replicas),
            updated: new.map_or(0, |new| members[new].set.status.replicas),
            ready: sum(&|member| member.set.status.ready),
            available,
            unavailable: (wanted - available).max(0),
            terminating: terminating(members),
            collisions: self.collisions,
            conditions: self.conditions.clone(),
        };
        let enough = available >= d.replicas - d.max_unavailable();
        status.set(if enough {
            let message = "Deployment has minimum availability.";
            condition(AVAILABLE, "True", "MinimumReplicasAvailable", message.to_owned(), now)
        } else {
            let message = "Deployment does not have minimum availability.";
            condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message.to_owned(), now)
        });
        status
    }

    /// The sums during a rollout: also whether it goes on, is done, or is stuck. `self` is the status so far.
    pub fn rolled(&self, d: &Deployment, members: &[Member], new: Option<usize>, now_nanos: i128) -> Status {
        let now = (now_nanos / 1_000_000_000) as i64;
        let mut next = self.counted(d, members, new, now);
        let current = self.condition(PROGRESSING);
        match d.progress_deadline_seconds {
            None => next.remove(PROGRESSING),
            Some(deadline) => {
                let done = current.is_some_and(|c| c.reason == reason::AVAILABLE);
                // What was complete and only lost or regained a pod is no rollout.
                if !(done && next.replicas == next.updated) {
                    let about = match new {
                        Some(new) => format!("ReplicaSet \"{}\"", members[new].set.name),
                        None => format!("Deployment \"{}\"", d.name),
                    };
                    self.progress(&mut next, d, deadline, &about, now_nanos);
                }
            }
        }
        match failure(members, new) {
            Some(failure) => next.set(failure),
            None => next.remove(REPLICA_FAILURE),
        }
        next
    }

    fn progress(&self, next: &mut Status, d: &Deployment, deadline: i64, about: &str, now_nanos: i128) {
        let now = (now_nanos / 1_000_000_000) as i64;
        if next.is_complete(d) {
            let message = format!("{about} has successfully progressed.");
            next.set(condition(PROGRESSING, "True", reason::AVAILABLE, message, now));
        } else if self.progressed_to(next) {
            let message = format!("{about} is progressing.");
            let mut condition = condition(PROGRESSING, "True", reason::UPDATED, message, now);
            // The time of the last progress moves on though the reason stays.
            if let Some(current) = self.condition(PROGRESSING) {
                if current.status == "True" {
                    condition.changed.clone_from(&current.changed);
                }
                next.remove(PROGRESSING);
            }
            next.set(condition);
        } else if next.condition(PROGRESSING).is_some_and(|c| c.is_over(deadline, now_nanos)) {
            let message = format!("{about} has timed out progressing.");
            next.set(condition(PROGRESSING, "False", reason::TIMED_OUT, message, now));
        }
    }

    /// More new pods, fewer old ones, more ready or available ones.
    fn progressed_to(&self, next: &Status) -> bool {
        next.updated > self.updated
            || next.replicas - next.updated < self.replicas - self.updated
            || next.ready > self.ready
            || next.available > self.available
    }

    /// How long until the rollout may be found stuck; `None`: it is not waited for.
    ///
    /// Differs from kube-controller-manager: a finished rollout that lost a pod is not looked at again and again; it
    /// cannot time out.
    pub fn until_deadline(&self, d: &Deployment, now_nanos: i128) -> Option<std::time::Duration> {
        let deadline = d.progress_deadline_seconds?;
        let current = self.condition(PROGRESSING)?;
        let is_over =
            [reason::TIMED_OUT, reason::AVAILABLE, reason::PAUSED].contains(&current.reason.as_str());
        if is_over || self.is_complete(d) {
            return None;
        }
        let due = i128::from(current.updated_seconds() + deadline) * 1_000_000_000;
        let wait =
            std::time::Duration::from_nanos(u64::try_from((due - now_nanos).max(0)).unwrap_or(u64::MAX));
        // A second more: times in conditions are whole seconds.
        Some(wait.saturating_add(std::time::Duration::from_secs(1)))
    }
}

/// A condition of a Deployment, told now.
pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: String, now: i64) -> Condition {
    Condition::new(kind, status, reason, message, now).with_update()
}

impl Condition {
    fn updated_seconds(&self) -> i64 {
        time::parse(&self.updated).map_or(0, |(seconds, _)| seconds)
    }

    /// No progress for longer than the deadline; a finished rollout is never over.
    fn is_over(&self, deadline: i64, now_nanos: i128) -> bool {
        match self.reason.as_str() {
            reason::AVAILABLE => false,
            reason::TIMED_OUT => true,
            _ => i128::from(self.updated_seconds() + deadline) * 1_000_000_000 < now_nanos,
        }
    }
}

/// Unknown while a ReplicaSet that was looked at does not tell its own.
fn terminating(members: &[Member]) -> Option<i64> {
    let told = members
        .iter()
        .filter(|m| m.set.status.observed_generation != 0 || m.set.status.terminating.is_some());
    told.map(|member| member.set.status.terminating).sum()
}

/// The new ReplicaSet's failure before those of old ones.
fn failure(members: &[Member], new: Option<usize>) -> Option<Condition> {
    let first = new.map(|new| &members[new]);
    let told = first.into_iter().chain(members).flat_map(|member| &member.set.status.conditions);
    let failed = told.into_iter().find(|condition| condition.kind == REPLICA_FAILURE);
    failed.map(|condition| condition.clone().with_update())
}
