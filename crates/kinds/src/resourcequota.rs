//! Resource quotas.

mod columns;
mod defaults;
pub mod usage;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::{Rules, StatusMeta};

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_status(StatusMeta::Free), validation::check)
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER);
