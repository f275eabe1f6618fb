//! Why a key was queued: kept through deduplication, for people who ask.

use client::Gvr;
use object::{Obj, Revision};

/// A change that asked for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub resource: Gvr,
    pub object: crate::Key,
    pub revision: Revision,
    /// What happened: `added`, `updated`, `terminating` (updated, and it has a deletion timestamp), `deleted`, `resync`.
    pub what: &'static str,
}

impl Cause {
    pub fn new(resource: &Gvr, obj: &Obj, what: &'static str) -> Cause {
        let what = if what == "updated" && obj.deleting() { "terminating" } else { what };
        Cause { resource: resource.clone(), object: crate::Key::of(obj), revision: obj.revision(), what }
    }
}

/// The first and the latest causes of a reconcile; those between are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    kept: Vec<Cause>,
    dropped: usize,
}

/// More are only counted.
const KEPT: usize = 8;

impl Causes {
    pub fn note(&mut self, cause: Option<Cause>) {
        let Some(cause) = cause else { return };
        if self.kept.len() == KEPT {
            // The first tells how it began; of the rest the latest tell most.
            self.kept.remove(1);
            self.dropped += 1;
        }
        self.kept.push(cause);
    }
    pub fn kept(&self) -> &[Cause] {
        &self.kept
    }
    pub fn dropped(&self) -> usize {
        self.dropped
    }
}
