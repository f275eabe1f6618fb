//! How many claims there are, and how many were made.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use object::{Obj, Value};
use parking_lot::Mutex;
use runtime::{Indexer, Tally, tree};

use super::plan;

const CREATES: &str = "resourceclaim_controller_creates_total";
const CREATES_HELP: &str =
    "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status and admin access";
const CLAIMS: &str = "resourceclaim_controller_resource_claims";
const CLAIMS_HELP: &str = "[ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).";
/// All claims under one value: they are counted when they change, not when somebody asks.
const ALL: &str = "all claims";

#[derive(Default)]
pub struct Metrics {
    /// Guards the counts by outcome and admin access; touched once for each creation.
    creates: Mutex<BTreeMap<(&'static str, bool), u64>>,
}

impl Metrics {
    /// Starts to count.
    pub fn follow(claims: &Indexer) {
        claims.add_index(ALL, |_| vec![String::new()]);
        claims.add_tally::<Counts>(ALL);
    }

    pub fn created(&self, well: bool, claim: &Value) {
        let status = if well { "success" } else { "failure" };
        *self.creates.lock().entry((status, plan::wants_admin_access(claim))).or_default() += 1;
    }

    pub fn render(&self, claims: &Indexer, out: &mut String) {
        let _ = writeln!(out, "# HELP {CREATES} {CREATES_HELP}\n# TYPE {CREATES} counter");
        for ((status, admin), count) in self.creates.lock().iter() {
            let _ = writeln!(out, "{CREATES}{{admin_access=\"{admin}\",status=\"{status}\"}} {count}");
        }
        let _ = writeln!(out, "# HELP {CLAIMS} {CLAIMS_HELP}\n# TYPE {CLAIMS} gauge");
        claims.tally(ALL, "", |counts: &Counts| {
            for ((admin, allocated, source), count) in &counts.0 {
                let _ = writeln!(
                    out,
                    "{CLAIMS}{{admin_access=\"{admin}\",allocated=\"{allocated}\",source=\"{source}\"}} {count}"
                );
            }
        });
    }
}

/// By admin access, allocation and source; what there is none of is not in it.
#[derive(Default)]
struct Counts(BTreeMap<(bool, bool, &'static str), u64>);

fn labels(claim: &Obj) -> (bool, bool, &'static str) {
    let claim = tree(claim);
    (plan::wants_admin_access(&claim), plan::is_allocated(&claim), plan::source(&claim))
}

impl Tally for Counts {
    fn add(&mut self, claim: &Obj) {
        *self.0.entry(labels(claim)).or_default() += 1;
    }
    fn remove(&mut self, claim: &Obj) {
        let labels = labels(claim);
        let left = self.0.get(&labels).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => drop(self.0.remove(&labels)),
            left => drop(self.0.insert(labels, left)),
        }
    }
}
