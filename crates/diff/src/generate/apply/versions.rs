//! One object applied in two versions of its kind.

use catalog::Catalog;

use super::Applies;
use crate::case::{Scenario, Step};
use crate::kinds::{Sample, Target};

/// Of every two samples whose objects are stored in one place.
pub fn scenarios(catalog: &Catalog, samples: &[Sample]) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let served = |sample: &Sample| {
        let resource = sample.resource(catalog)?;
        Some((resource.storage.as_ref()?.id, Target::from(resource)))
    };
    for first in samples {
        for second in samples.iter().filter(|second| second.resource != first.resource) {
            let (Some((stored, one)), Some((other, two))) = (served(first), served(second)) else { continue };
            if stored == other {
                scenarios.push(Scenario {
                    name: format!("{} {}apply as {}", first.resource, label(first), second.resource),
                    resource: first.resource.clone(),
                    custom: false,
                    steps: steps((first, &one), (second, &two)),
                });
            }
        }
    }
    scenarios
}

fn label(sample: &Sample) -> String {
    if sample.label.is_empty() { String::new() } else { format!("{} ", sample.label) }
}

fn steps((first, one): (&Sample, &Target), (second, two): (&Sample, &Target)) -> Vec<Step> {
    let word = if first.label.is_empty() { "v" } else { "v-rich" };
    let mut in_one = Applies::new(first, one, word);
    let mut in_two = Applies::new(second, two, word);
    let mut steps = Vec::new();
    let mut round = |one: &mut Applies<'_>, two: &mut Applies<'_>, what: &str| {
        steps.append(&mut one.steps);
        steps.append(&mut two.steps);
        one.get(format!("get in the first version, {what}"));
        two.get(format!("get in the second version, {what}"));
        steps.append(&mut one.steps);
        steps.append(&mut two.steps);
    };
    in_one.apply("first version", "one", &in_one.labelled(&[("a", "1")]));
    round(&mut in_one, &mut in_two, "created");
    in_two.apply("second version, same manager", "one", &in_two.labelled(&[("a", "1"), ("b", "1")]));
    round(&mut in_one, &mut in_two, "same manager");
    in_two.apply("second version again", "one", &in_two.labelled(&[("a", "1"), ("b", "1")]));
    round(&mut in_one, &mut in_two, "again");
    in_one.apply("back in the first version", "one", &in_one.labelled(&[("a", "1")]));
    round(&mut in_one, &mut in_two, "back");
    in_two.apply("second version, another manager", "two", &in_two.bare(&[("a", "2")]));
    in_two.apply("second version, forced", "two&force=true", &in_two.labelled(&[("a", "2")]));
    round(&mut in_one, &mut in_two, "forced");
    in_one.apply("first version, a conflict", "one", &in_one.labelled(&[("a", "1")]));
    in_one.merge("patched in the first version", "patcher", r#"{"metadata":{"labels":{"a":"3"}}}"#);
    round(&mut in_one, &mut in_two, "patched in the first");
    in_two.merge("patched in the second version", "patcher", r#"{"metadata":{"labels":{"a":"4"}}}"#);
    round(&mut in_one, &mut in_two, "patched in the second");
    in_two.apply("second version after patches", "two&dryRun=All", &in_two.labelled(&[("a", "2")]));
    in_two.apply("second gives up", "two", &in_two.bare(&[]));
    round(&mut in_one, &mut in_two, "given up");
    in_one.apply("first gives up", "one", &in_one.bare(&[]));
    round(&mut in_one, &mut in_two, "given up by both");
    steps
}
