//! Leases: a holder, for a time.

mod columns;

use object::{Value, validate_text};

use crate::check::{Errors, int, member, text};
use crate::gates::DisabledFeature;
use crate::generic::GenericKind;
use crate::rules::{Finalizers, Rules};
use crate::workload::SPEC;
use crate::write::Write;

const DISABLED: &[DisabledFeature] = &[
    DisabledFeature::new("CoordinatedLeaderElection", &["spec.strategy"]),
    DisabledFeature::new("CoordinatedLeaderElection", &["spec.preferredHolder"]),
];

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_finalizers(Finalizers::Qualified), check)
        .with_printer(&columns::PRINTER)
        .with_disabled_features(DISABLED);

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let spec = write.spec();
    if let Some(seconds) = int(spec, "leaseDurationSeconds").filter(|s| *s <= 0) {
        errors.invalid(&SPEC.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    errors.nonnegative(&SPEC, spec, "leaseTransitions");
    if let Some(strategy) = member(spec, "strategy").and_then(Value::as_str) {
        let at = SPEC.child("strategy");
        match strategy.contains('/') {
            true => errors.each(&at.child("strategy"), strategy, validate_text::qualified_name(strategy)),
            false => errors.one_of(&at.child("strategy"), strategy, &["OldestEmulationVersion"]),
        }
    }
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.forbidden(&SPEC.child("preferredHolder"), detail);
    }
}
