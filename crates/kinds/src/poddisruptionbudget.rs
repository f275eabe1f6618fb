//! Pod disruption budgets: one bound, and the pods it protects.

mod columns;

use object::Value;

use crate::check::internal::{Field, NULL, internal};
use crate::check::{Errors, Raw, member};
use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};
use crate::workload::{SPEC, STATUS, check_counts};
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free).without_metadata(),
    check,
)
.with_printer(&columns::PRINTER);

const BUDGET: [Field; 4] = [
    ("minAvailable", "MinAvailable", NULL),
    ("selector", "Selector", NULL),
    ("maxUnavailable", "MaxUnavailable", NULL),
    ("unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy", NULL),
];

fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.is_status() {
        errors.conditions(&STATUS.child("conditions"), write.status());
        let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        return check_counts(write.status(), &counts, errors);
    }
    let spec = write.spec();
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|name| member(spec, name).is_some()) {
        let shown = internal(Some(spec), &BUDGET);
        errors.invalid(&SPEC, Raw(&shown), "minAvailable and maxUnavailable cannot be both set");
    }
    for name in bounds {
        if let Some(bound) = member(spec, name) {
            errors.count_or_percent(&SPEC.child(name), Some(bound));
            errors.at_most_100_percent(&SPEC.child(name), Some(bound));
        }
    }
    let bad_values = write.old_spec().is_some_and(has_bad_selector);
    errors.label_selector_with(&SPEC.child("selector"), spec.get("selector"), bad_values);
    errors.one_of_member(&SPEC, spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]);
}

fn has_bad_selector(old: &Value) -> bool {
    let mut errors = Errors::default();
    errors.label_selector(&SPEC, old.get("selector"));
    !errors.is_empty()
}
