//! Storage classes.

mod columns;
mod defaults;
mod validation;
mod warnings;

pub(crate) use validation::{check_parameters, check_provisioner};

use crate::generic::GenericKind;
use crate::rules::Rules;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, validation::check)
    .with_defaults(defaults::apply)
    .with_warnings(warnings::warn)
    .with_printer(&columns::PRINTER);
