//! Cron jobs.

mod columns;
mod defaults;
mod next;
mod schedule;
#[cfg(test)]
mod tests;
mod validation;
mod warnings;

pub use schedule::{Schedule, When};

use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};

const POD_SPEC: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free),
    validation::check,
)
.with_defaults(defaults::apply)
.with_warnings(warnings::warn)
.with_printer(&columns::PRINTER)
.with_pod_spec_path(POD_SPEC);
