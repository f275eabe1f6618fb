//! Ingresses.

mod validation;

use crate::checked::Checked;
use crate::rules::{Generation, Rules, StatusMeta};

pub(crate) static KIND: Checked = Checked::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free),
    validation::check,
);
