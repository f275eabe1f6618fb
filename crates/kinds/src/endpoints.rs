//! Endpoints.

mod columns;
mod defaults;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::Rules;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, validation::check)
    .with_defaults(defaults::apply)
    .with_warnings(warnings::warn)
    .with_printer(&columns::PRINTER);
