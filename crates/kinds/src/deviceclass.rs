//! Device classes: which devices they contain, and the configuration of their drivers.

use object::Value;

use crate::check::{Errors, items, member};
use crate::columns::NAME_AND_AGE;
use crate::devicerule::{CONFIG_MAX, configuration, each, selectors};
use crate::generic::GenericKind;
use crate::pod::validation::is_extended;
use crate::rules::{Generation, NameRule, Rules};
use crate::workload::SPEC;
use crate::write::Write;

pub(crate) static KIND: GenericKind = GenericKind::new(RULES, check).with_printer(&NAME_AND_AGE);
const RULES: Rules =
    Rules::PLAIN.with_name(NameRule::LongName).with_generation(Generation::SPEC).without_generate_name();

fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    if write.old.is_some() {
        write.check_metadata(errors);
    }
    let spec = write.spec();
    let stored = write.old_spec().is_some_and(|old| crate::same(spec.get("selectors"), old.get("selectors")));
    selectors(spec, stored, &SPEC, errors);
    let stored = write.old_spec().is_some_and(|old| crate::same(spec.get("config"), old.get("config")));
    each(items(spec, "config"), CONFIG_MAX, &SPEC.child("config"), errors, &|config, at, errors| {
        configuration(config, stored, at, errors);
    });
    let name = "extendedResourceName";
    if let Some(extended) = member(spec, name).and_then(Value::as_str).filter(|e| !is_extended(e)) {
        errors.invalid(&SPEC.child(name), extended, "must be a valid extended resource name");
    }
}
