//! Makes the cases: from the catalogue and the samples, always the same ones in the same order.
//!
//! ```text
//! data/minimal.jsonl ─┬─ life    every verb on one object of every stored resource, in order
//!                     ├─ fields  every field of every type with a value of a wrong type
//!                     ├─ apply   server-side apply of all that, and who manages the fields
//! data/rich.jsonl ────┼─ leaves  every value of an object taken away, broken or changed
//! data/cases.jsonl ───┴─ written scenarios by hand
//! data/admission.jsonl ── admission  webhooks and policies, and what they are asked; only when asked for
//! data/{schemas,definitions,custom,custom-cases}.jsonl ── custom  the same for custom resources, and their definitions
//! ```

pub mod admission;
mod apply;
mod custom;
mod fields;
mod leaves;
mod life;
mod path;
pub mod published;
pub mod written;

use catalog::Catalog;

use crate::case::Scenario;
use crate::kinds::{self, Target};

/// Every scenario there is.
pub fn all(catalog: &Catalog) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut walked = fields::Walked::default();
    let mut applied = fields::Walked::default();
    for sample in kinds::minimal() {
        let Some(resource) = sample.resource(catalog) else { continue };
        let target = Target::from(resource);
        scenarios.push(life::scenario(&sample, &target));
        scenarios.push(fields::scenario(&sample, resource, catalog.schema(), &mut walked));
        scenarios.push(leaves::scenario(&sample, &target));
        scenarios.push(apply::scenario(&sample, &target));
        scenarios.push(apply::fields::scenario(&sample, resource, catalog.schema(), &mut applied));
        scenarios.push(apply::leaves::scenario(&sample, &target));
    }
    for sample in kinds::rich() {
        if let Some(resource) = sample.resource(catalog) {
            scenarios.push(leaves::scenario(&sample, &Target::from(resource)));
            scenarios.push(apply::leaves::scenario(&sample, &Target::from(resource)));
        }
    }
    scenarios.extend(apply::versions::scenarios(catalog, &kinds::minimal()));
    scenarios.extend(apply::versions::scenarios(catalog, &kinds::rich()));
    scenarios.extend(written::built_in());
    scenarios.extend(custom::all());
    scenarios
}
