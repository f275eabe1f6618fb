//! Nodes.

mod columns;
mod defaults;
pub(crate) mod labels;
mod validation;
mod warnings;

use crate::generic::GenericKind;
use crate::rules::Rules;

/// A node may be born with a status: kubelets register that way.
pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules { keep_status_on_update: true, ..Rules::PLAIN }, validation::check)
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER);
