//! The status of a ReplicaSet or a ReplicationController: what was counted, and whether counting up or down failed.

use object::{Map, Value};

use crate::condition::Condition;

/// Fields in upstream's order; 0 is absent on the wire, `terminating` is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetStatus {
    pub replicas: i64,
    pub fully_labeled: i64,
    pub ready: i64,
    pub available: i64,
    /// ReplicationControllers do not have it.
    pub terminating: Option<i64>,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
}

/// What a look at the pods gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub active: i64,
    pub fully_labeled: i64,
    pub ready: i64,
    pub available: i64,
    pub terminating: Option<i64>,
}

pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

impl SetStatus {
    pub fn read(status: Option<&Value>) -> SetStatus {
        let Some(status) = status else { return SetStatus::default() };
        let int = |name: &str| status.get(name).and_then(Value::as_int);
        SetStatus {
            replicas: int("replicas").unwrap_or(0),
            fully_labeled: int("fullyLabeledReplicas").unwrap_or(0),
            ready: int("readyReplicas").unwrap_or(0),
            available: int("availableReplicas").unwrap_or(0),
            terminating: int("terminatingReplicas"),
            observed_generation: int("observedGeneration").unwrap_or(0),
            conditions: Condition::read_all(status),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut status = Map::default();
        status.set("replicas", self.replicas);
        for (name, count) in [
            ("fullyLabeledReplicas", self.fully_labeled),
            ("readyReplicas", self.ready),
            ("availableReplicas", self.available),
        ] {
            if count != 0 {
                status.set(name, count);
            }
        }
        if let Some(terminating) = self.terminating {
            status.set("terminatingReplicas", terminating);
        }
        if self.observed_generation != 0 {
            status.set("observedGeneration", self.observed_generation);
        }
        Condition::write_all(&self.conditions, &mut status);
        Value::Map(status)
    }

    /// The status after a look at the pods. `failed`: why pods could not be made or deleted; `wanted`: how many there should be.
    /// A failure already told of keeps its first reason.
    pub fn after(
        &self,
        counted: Counted,
        generation: i64,
        failed: Option<&str>,
        wanted: i64,
        now: i64,
    ) -> SetStatus {
        let mut conditions = self.conditions.clone();
        let told = conditions.iter().any(|c| c.kind == REPLICA_FAILURE);
        match failed {
            Some(message) if !told => {
                let reason = match counted.active.cmp(&wanted) {
                    std::cmp::Ordering::Less => "FailedCreate",
                    std::cmp::Ordering::Greater => "FailedDelete",
                    std::cmp::Ordering::Equal => "",
                };
                conditions.push(Condition::new(REPLICA_FAILURE, "True", reason, message.to_owned(), now));
            }
            None if told => conditions.retain(|c| c.kind != REPLICA_FAILURE),
            _ => {}
        }
        SetStatus {
            replicas: counted.active,
            fully_labeled: counted.fully_labeled,
            ready: counted.ready,
            available: counted.available,
            terminating: counted.terminating,
            observed_generation: generation,
            conditions,
        }
    }
}
