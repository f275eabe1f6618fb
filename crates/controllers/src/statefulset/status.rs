//! The status of a StatefulSet: read, counted, written.

use object::{Map, Value};

use super::identity::REVISION;
use super::set::{StatefulSet, UpdateStrategy};
use crate::pods::Pod;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetStatus {
    pub observed_generation: i64,
    pub replicas: i64,
    pub ready: i64,
    pub available: i64,
    pub current: i64,
    pub updated: i64,
    pub current_revision: String,
    pub update_revision: String,
    pub collisions: Option<i64>,
}

impl SetStatus {
    pub fn read(status: Option<&Value>) -> SetStatus {
        let Some(status) = status else { return SetStatus::default() };
        let int = |name: &str| status.get(name).and_then(Value::as_int);
        let text = |name: &str| status.str_at(&[name]).unwrap_or("").to_owned();
        SetStatus {
            observed_generation: int("observedGeneration").unwrap_or(0),
            replicas: int("replicas").unwrap_or(0),
            ready: int("readyReplicas").unwrap_or(0),
            available: int("availableReplicas").unwrap_or(0),
            current: int("currentReplicas").unwrap_or(0),
            updated: int("updatedReplicas").unwrap_or(0),
            current_revision: text("currentRevision"),
            update_revision: text("updateRevision"),
            collisions: int("collisionCount"),
        }
    }

    /// Whole: conditions that somebody else wrote are lost, as upstream loses them.
    pub fn to_value(&self) -> Value {
        let mut status = Map::default();
        status.set("observedGeneration", self.observed_generation);
        status.set("replicas", self.replicas);
        for (name, count) in [
            ("readyReplicas", self.ready),
            ("currentReplicas", self.current),
            ("updatedReplicas", self.updated),
        ] {
            if count != 0 {
                status.set(name, count);
            }
        }
        status.set("currentRevision", self.current_revision.clone());
        status.set("updateRevision", self.update_revision.clone());
        if let Some(collisions) = self.collisions {
            status.set("collisionCount", collisions);
        }
        status.set("availableReplicas", self.available);
        Value::Map(status)
    }

    pub fn count<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>, min_ready_seconds: i64, now: i64) {
        for pod in pods {
            self.replicas += 1;
            if is_running_and_ready(pod) {
                self.ready += 1;
                self.available += i64::from(pod.view.is_available(min_ready_seconds, now));
            }
            if !pod.obj.deleting() {
                let revision = pod.obj.label(REVISION).unwrap_or("");
                self.current += i64::from(revision == self.current_revision);
                self.updated += i64::from(revision == self.update_revision);
            }
        }
    }

    /// A rolling update that reached every pod is over.
    pub fn complete(&mut self, set: &StatefulSet) {
        let rolling = matches!(set.update, UpdateStrategy::RollingUpdate { .. });
        let wanted = set.replicas as i64;
        if rolling && [self.updated, self.ready, self.replicas] == [wanted; 3] {
            self.current = self.updated;
            self.current_revision.clone_from(&self.update_revision);
        }
    }

    /// Does the stored status lack any of this? Collisions alone are no reason to write.
    pub fn differs_from(&self, stored: &SetStatus) -> bool {
        let counts = |s: &SetStatus| [s.replicas, s.ready, s.available, s.current, s.updated];
        self.observed_generation > stored.observed_generation
            || counts(self) != counts(stored)
            || self.current_revision != stored.current_revision
            || self.update_revision != stored.update_revision
    }
}

pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.view.phase == kinds::pod::view::Phase::Running && pod.view.ready
}
