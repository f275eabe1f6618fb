//! Replica sets.

mod columns;
mod defaults;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};
use crate::scale::WORKLOAD;
use crate::workload::{self, POD_SPEC};

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free),
    validation::check,
)
.with_scale(&WORKLOAD)
.with_blank(workload::without_replicas)
.with_defaults(defaults::apply)
.with_warnings(warnings::warn)
.with_printer(&columns::PRINTER)
.with_pod_spec_path(POD_SPEC);
