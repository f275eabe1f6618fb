//! Priority classes.

mod columns;
mod defaults;
mod validation;

use crate::generic::GenericKind;
use crate::rules::{Generation, Rules};

pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules::PLAIN.with_generation(Generation::Once), validation::check)
        .with_undeletable(undeletable)
        .with_defaults(defaults::apply)
        .with_printer(&columns::PRINTER);

fn undeletable(name: &str) -> Option<&'static str> {
    matches!(name, "system-cluster-critical" | "system-node-critical")
        .then_some("this is a system priority class and cannot be deleted")
}
