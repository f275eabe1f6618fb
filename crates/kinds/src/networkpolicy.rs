//! Network policies.

mod columns;
mod defaults;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::{Generation, Rules};

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_generation(Generation::Exactly("spec")), validation::check)
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER);
