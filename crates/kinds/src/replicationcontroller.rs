//! Replication controllers.

mod columns;
pub(crate) mod defaults;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::{Generation, NameRule, Rules, StatusMeta};
use crate::scale::REPLICATION_CONTROLLER;
use crate::workload::POD_SPEC;

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN
        .with_name(NameRule::LongName)
        .with_generation(Generation::SPEC)
        .with_status(StatusMeta::Free)
        .without_generate_name(),
    validation::check,
)
.with_scale(&REPLICATION_CONTROLLER)
.with_defaults(defaults::apply)
.with_warnings(warnings::warn)
.with_printer(&columns::PRINTER)
.with_pod_spec_path(POD_SPEC);
