//! Network policies.

mod validation;

use crate::checked::Checked;
use crate::rules::{Generation, Rules};

pub(crate) static KIND: Checked =
    Checked::new(Rules::PLAIN.with_generation(Generation::Exactly("spec")), validation::check);
