//! The status of a set: what was counted on its nodes.

use object::Value;

use super::plan::Snapshot;
use super::pods::Pod;
use super::world::Share;

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

    /// Adds what a node counts, or takes it back.
    pub fn change(&mut self, by: &Counted, sign: i64) {
        self.desired += sign * by.desired;
        self.current += sign * by.current;
        self.misscheduled += sign * by.misscheduled;
        self.ready += sign * by.ready;
        self.updated += sign * by.updated;
        self.available += sign * by.available;
        self.unavailable += sign * by.unavailable;
    }
}

impl Snapshot<'_> {
    /// What one node adds to the counts.
    pub fn share(&self, node: &str) -> Share {
        let pods = self.pods.get(node).map(Vec::as_slice).unwrap_or_default();
        let present = || pods.iter().filter(|pod| !pod.goes());
        let is_due = |pod: &Pod| pod.view.ready && !self.is_available(pod);
        let mut share = Share {
            counted: Counted::default(),
            outdated: present().any(|pod| !pod.is_updated(self.set, self.hash)),
            waits: pods.iter().any(is_due) || present().count() > 1,
        };
        let Some(fit) = self.nodes.get(node) else { return share };
        let (oldest, counted) = (pods.first(), &mut share.counted);
        if !fit.run {
            counted.misscheduled = i64::from(oldest.is_some());
            return share;
        }
        counted.desired = 1;
        if let Some(pod) = oldest {
            counted.current = 1;
            counted.ready = i64::from(pod.view.ready);
            counted.available = i64::from(self.is_available(pod));
            counted.updated = i64::from(pod.is_updated(self.set, self.hash));
        }
        counted.unavailable = counted.desired - counted.available;
        share
    }
}
