//! The status of a set: what was counted on its nodes.

use object::Value;

use super::plan::Snapshot;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub observed_generation: i64,
    pub collisions: Option<i64>,
    pub counted: Counted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub desired: i64,
    pub current: i64,
    pub misscheduled: i64,
    pub ready: i64,
    pub updated: i64,
    pub available: i64,
    pub unavailable: i64,
}

impl Status {
    pub fn read(status: Option<&Value>) -> Status {
        let int = |name: &str| status.and_then(|status| status.get(name)).and_then(Value::as_int);
        let count = |name: &str| int(name).unwrap_or(0);
        Status {
            observed_generation: count("observedGeneration"),
            collisions: int("collisionCount"),
            counted: Counted {
                desired: count("desiredNumberScheduled"),
                current: count("currentNumberScheduled"),
                misscheduled: count("numberMisscheduled"),
                ready: count("numberReady"),
                updated: count("updatedNumberScheduled"),
                available: count("numberAvailable"),
                unavailable: count("numberUnavailable"),
            },
        }
    }
}

impl Counted {
    /// Into the tree of the set it is of.
    pub fn write(&self, tree: &mut Value, observed_generation: Option<i64>) {
        let status = tree.map_at(&["status"]);
        for (name, count) in [
            ("currentNumberScheduled", self.current),
            ("numberMisscheduled", self.misscheduled),
            ("desiredNumberScheduled", self.desired),
            ("numberReady", self.ready),
            ("updatedNumberScheduled", self.updated),
            ("numberAvailable", self.available),
            ("numberUnavailable", self.unavailable),
        ] {
            status.set(name, count);
        }
        if let Some(generation) = observed_generation {
            status.set("observedGeneration", generation);
        }
    }
}

impl Snapshot<'_> {
    pub fn count(&self) -> Counted {
        let mut counted = Counted::default();
        for node in self.nodes {
            let oldest = self.pods.get(&node.name).and_then(|pods| pods.first());
            if !node.fit.run {
                counted.misscheduled += i64::from(oldest.is_some());
                continue;
            }
            counted.desired += 1;
            let Some(pod) = oldest else { continue };
            counted.current += 1;
            counted.ready += i64::from(pod.view.ready);
            counted.available += i64::from(self.is_available(pod));
            counted.updated += i64::from(pod.is_updated(self.set, self.hash));
        }
        counted.unavailable = counted.desired - counted.available;
        counted
    }
}
