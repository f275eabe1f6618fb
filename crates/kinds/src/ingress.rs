//! Ingresses.

mod validation;

use crate::generic::GenericKind;
use crate::rules::{Generation, Rules, StatusMeta};

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free),
    validation::check,
);
