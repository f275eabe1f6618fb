//! Hints by zone, for `service.kubernetes.io/topology-mode: Auto`: each zone gets endpoints as its nodes have CPU.
//!
//! ```text
//! nodes ── CPU of each zone ── so many endpoints for each zone ──┐
//!                                                                ├─ 1. everybody serves the own zone
//! endpoints of a service and family, slice by slice ─────────────┘  2. zones with too many lend some to those with too few
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::Draft;
use super::hints::Distribution;
use super::plan::Plan;
use super::slice::{Endpoint, Hints, SliceView};
use crate::services::Family;

/// How much more than its share an endpoint may get.
const OVERLOAD: f64 = 0.2;

/// Each zone's part of all CPU; at least two zones.
pub type Ratios = BTreeMap<String, f64>;
/// How many endpoints serve each zone.
pub type Counts = BTreeMap<String, usize>;

/// What is known of one service's hints, between reconciles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hinted {
    /// People were told that there are hints.
    pub on: bool,
    pub zones: BTreeMap<Family, Counts>,
    /// Families whose endpoints, so many are ready, could not be shared out among the zones.
    pub denied: BTreeMap<Family, usize>,
}

impl Hinted {
    /// Have the zones changed so much that the service must be looked at again?
    pub fn needs_reconcile(&self, ratios: Option<&Ratios>) -> bool {
        // Differs from kube-controller-manager: it forgets services it could not serve until something else touches them.
        let possible = |ready: &usize| allocations(ratios, *ready).is_ok();
        self.zones.values().any(|counts| is_overloaded(counts, ratios)) || self.denied.values().any(possible)
    }

    pub fn remove(&mut self, family: Family) {
        self.zones.remove(&family);
        self.denied.remove(&family);
        self.on = false;
    }
}

/// What people are told of a service's hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Enabled(Family),
    Disabled(Family, String),
}

impl News {
    pub fn reason(&self) -> &'static str {
        match self {
            News::Enabled(_) => "TopologyAwareHintsEnabled",
            News::Disabled(..) => "TopologyAwareHintsDisabled",
        }
    }
    pub fn message(&self) -> String {
        match self {
            News::Enabled(family) => {
                format!("Topology Aware Hints has been enabled, addressType: {}", family.as_str())
            }
            News::Disabled(family, why) => format!("{why}, addressType: {}", family.as_str()),
        }
    }
}

/// Gives the endpoints of all slices that stay their hints, or takes them from all.
pub fn hint(
    plan: &mut Plan,
    slices: &[Arc<SliceView>],
    there: &[usize],
    family: Family,
    ratios: Option<&Ratios>,
    hinted: &mut Hinted,
) {
    let was_on = hinted.on;
    let ready = |endpoints: &[Endpoint]| endpoints.iter().filter(|e| is_ready(e)).count();
    let untouched = plan.untouched(there);
    let total = untouched.iter().map(|i| ready(&slices[*i].endpoints)).sum::<usize>()
        + plan.drafts().map(|draft| ready(&draft.endpoints)).sum::<usize>();
    let result = allocations(ratios, total).map(|allocations| {
        let counts = keep(plan, slices, &untouched, family, &allocations);
        assign(plan, counts, &allocations)
    });
    match result {
        Ok(Some(counts)) => {
            hinted.denied.remove(&family);
            hinted.zones.insert(family, counts);
            hinted.on = true;
            if !was_on {
                plan.notes.news.push(News::Enabled(family));
            }
        }
        Ok(None) => {
            deny(plan, slices, there, family, hinted, "One or more endpoints do not have a zone specified");
        }
        Err(why) => {
            deny(plan, slices, there, family, hinted, &why);
            hinted.denied.insert(family, total);
        }
    }
}

fn deny(
    plan: &mut Plan,
    slices: &[Arc<SliceView>],
    there: &[usize],
    family: Family,
    hinted: &mut Hinted,
    why: &str,
) {
    hinted.remove(family);
    plan.notes.news.push(News::Disabled(family, why.to_owned()));
    super::plan::distribute(plan, slices, there, family, Distribution::Cluster);
}

/// How many endpoints a zone should have.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    pub minimum: usize,
    pub maximum: usize,
    pub desired: f64,
}

/// For each zone; or why that cannot be.
pub fn allocations(
    ratios: Option<&Ratios>,
    endpoints: usize,
) -> Result<BTreeMap<String, Allocation>, String> {
    let Some(ratios) = ratios else {
        return Err(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
                .to_owned(),
        );
    };
    let (zones, refused) =
        (ratios.len(), |why: &str| Err(format!("{why} ({endpoints} endpoints, {} zones)", ratios.len())));
    if zones > endpoints {
        return refused("Insufficient number of endpoints");
    }
    let mut allocations = BTreeMap::new();
    let mut least = 0;
    for (zone, ratio) in ratios {
        let desired = ratio * endpoints as f64;
        let minimum = least_of(desired);
        least += minimum;
        allocations.insert(
            zone.clone(),
            Allocation { minimum, maximum: minimum, desired: desired.max(minimum as f64) },
        );
    }
    if least > endpoints {
        return refused(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold",
        );
    }
    for allocation in allocations.values_mut() {
        allocation.maximum += endpoints - least;
    }
    Ok(allocations)
}

/// With fewer than these, each would have too much to do.
fn least_of(desired: f64) -> usize {
    (desired * (1.0 / (1.0 + OVERLOAD))).ceil() as usize
}

/// Has a zone too few endpoints for its CPU?
pub fn is_overloaded(counts: &Counts, ratios: Option<&Ratios>) -> bool {
    if counts.is_empty() {
        return false;
    }
    let Some(ratios) = ratios else { return true };
    let total = counts.values().sum::<usize>() as f64;
    ratios.iter().any(|(zone, ratio)| counts.get(zone).is_none_or(|count| *count < least_of(total * ratio)))
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.ready == Some(true)
}

/// Counts the hints of slices that may stay as they are; the others are to be written too.
fn keep(
    plan: &mut Plan,
    slices: &[Arc<SliceView>],
    untouched: &[usize],
    family: Family,
    allocations: &BTreeMap<String, Allocation>,
) -> Counts {
    let mut counts = Counts::new();
    for i in untouched.iter().copied() {
        match kept(&slices[i].endpoints, &counts, allocations) {
            Some(more) => more.into_iter().for_each(|(zone, n)| *counts.entry(zone).or_default() += n),
            None => plan.update.push((i, Draft::of(&slices[i], family))),
        }
    }
    counts
}

/// `None`: an endpoint lacks hints, or a zone has more than it needs.
fn kept(
    endpoints: &[Endpoint],
    counts: &Counts,
    allocations: &BTreeMap<String, Allocation>,
) -> Option<Counts> {
    let mut more = Counts::new();
    for endpoint in endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        if endpoint.hints.zones.is_empty() {
            return None;
        }
        for zone in &endpoint.hints.zones {
            *more.entry(zone.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, n): (&String, &usize)| {
        let before = counts.get(zone).copied().unwrap_or(0);
        allocations.get(zone).is_some_and(|allocation| n + before <= allocation.maximum)
    };
    more.iter().all(fits).then_some(more)
}

/// Hints for all endpoints that are written. `None`: one of them is in no zone.
fn assign(plan: &mut Plan, mut counts: Counts, allocations: &BTreeMap<String, Allocation>) -> Option<Counts> {
    let only = |zone: &str| Hints { zones: vec![zone.to_owned()], nodes: Vec::new() };
    for endpoint in plan.drafts_mut().flat_map(|draft| &mut draft.endpoints) {
        if !is_ready(endpoint) {
            endpoint.hints = Hints::default();
            continue;
        }
        let zone = endpoint.zone.as_deref().filter(|zone| !zone.is_empty())?;
        endpoint.hints = only(zone);
        *counts.entry(zone.to_owned()).or_default() += 1;
    }
    let (mut giving, mut receiving) = exchange(allocations, &counts);
    for endpoint in plan.drafts_mut().flat_map(|draft| &mut draft.endpoints).filter(|e| is_ready(e)) {
        let Some(from) = endpoint.zone.clone() else { continue };
        let Some((to, _)) = receiving.iter().next() else { break };
        let to = to.clone();
        if take_one(&mut giving, &from) {
            take_one(&mut receiving, &to);
            endpoint.hints = only(&to);
            take_one(&mut counts, &from);
            *counts.entry(to).or_default() += 1;
        }
    }
    Some(counts)
}

/// Zones with nothing left are not there.
fn take_one(counts: &mut Counts, zone: &str) -> bool {
    let Some(count) = counts.get_mut(zone) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(zone);
    }
    true
}

/// How many endpoints zones lend, and how many others get.
pub fn exchange(allocations: &BTreeMap<String, Allocation>, counts: &Counts) -> (Counts, Counts) {
    let mut surplus: BTreeMap<&str, f64> = BTreeMap::new();
    let mut need: BTreeMap<&str, f64> = BTreeMap::new();
    for (zone, allocation) in allocations {
        let more = counts.get(zone).copied().unwrap_or(0) as f64 - allocation.desired;
        if more > 0.0 {
            surplus.insert(zone, more);
        } else if more < 0.0 {
            need.insert(zone, -more);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((from, has)), Some((to, lacks))) = (most(&surplus), most(&need)) {
        // Halves are rounded, but not on both sides.
        if (has < 1.0 && lacks < 1.0) || has < 0.5 || lacks < 0.5 {
            break;
        }
        *giving.entry(from.to_owned()).or_default() += 1;
        *receiving.entry(to.to_owned()).or_default() += 1;
        surplus.insert(from, has - 1.0);
        need.insert(to, lacks - 1.0);
    }
    (giving, receiving)
}

fn most<'a>(zones: &BTreeMap<&'a str, f64>) -> Option<(&'a str, f64)> {
    let better = |best: Option<(&'a str, f64)>, (zone, n): (&&'a str, &f64)| match best {
        Some((_, most)) if *n <= most => best,
        _ if *n > 0.0 => Some((*zone, *n)),
        _ => best,
    };
    zones.iter().fold(None, better)
}
