//! Cases about admission: webhooks and policies of every form, and one request of each kind there is.
//!
//! ```text
//! config   webhooks and policies with rules, selectors and conditions by chance (always the same) ─┐
//! data/admission.jsonl  a tour: creates, updates, patches, deletes, subresources, connects ────────┴─ rules, policies, mutations
//! behaviours  what a webhook may answer, right and wrong, for both failure policies
//! params      parameters of policies in every form
//! ```
//! What is configured counts for the whole cluster, so these cases run only when asked for. Every scenario waits until the server
//! heeds what it configured, and until it no longer does.

mod behaviours;
mod chance;
mod config;
mod params;
mod steps;

use crate::case::Scenario;
use crate::generate::written;

pub const RESOURCE: &str = "admission";

const TOUR: &str = include_str!("../../data/admission.jsonl");
/// Scenarios of webhooks, of validating and of mutating policies.
const ROUNDS: [u64; 3] = [11, 7, 4];

pub fn all() -> Vec<Scenario> {
    let tour = written::read(TOUR).expect("the embedded cases can be read: a test of this crate says so");
    let tour = tour.into_iter().flat_map(|scenario| scenario.steps).collect::<Vec<_>>();
    let [webhooks, validating, mutating] = ROUNDS;
    let mut scenarios = Vec::new();
    for number in 0..webhooks {
        scenarios.push(steps::scenario(&format!("rules {number:02}"), config::webhooks(number), &tour));
    }
    for number in 0..validating {
        scenarios.push(steps::scenario(&format!("policies {number:02}"), config::validating(number), &tour));
    }
    for number in 0..mutating {
        scenarios.push(steps::scenario(&format!("mutations {number:02}"), config::mutating(number), &tour));
    }
    scenarios.extend(behaviours::all());
    scenarios.extend(params::all());
    scenarios
}
