//! Ingresses.

mod columns;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free),
    validation::check,
)
.with_warnings(warnings::warn)
.with_status_warnings(warnings::warn_status)
.with_printer(&columns::PRINTER);
