//! Makes the cases: from the catalogue and the samples, always the same ones in the same order.
//!
//! ```text
//! data/minimal.jsonl ─┬─ life    every verb on one object of every stored resource, in order
//!                     ├─ fields  every field of every type with a value of a wrong type
//! data/rich.jsonl ────┼─ leaves  every value of an object taken away, broken or changed
//! data/cases.jsonl ───┴─ written scenarios by hand
//! ```

mod fields;
mod leaves;
mod life;
mod path;
pub mod written;

use catalog::Catalog;

use crate::case::Scenario;
use crate::kinds;

/// Every scenario there is.
pub fn all(catalog: &Catalog) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut walked = fields::Walked::default();
    for sample in kinds::minimal() {
        let Some(resource) = sample.resource(catalog) else { continue };
        scenarios.push(life::scenario(&sample, resource));
        scenarios.push(fields::scenario(&sample, resource, catalog.schema(), &mut walked));
        scenarios.push(leaves::scenario(&sample, resource));
    }
    for sample in kinds::rich() {
        if let Some(resource) = sample.resource(catalog) {
            scenarios.push(leaves::scenario(&sample, resource));
        }
    }
    scenarios.extend(written::built_in());
    scenarios
}
