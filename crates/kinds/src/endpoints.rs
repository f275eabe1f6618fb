//! Endpoints.

mod validation;

use crate::generic::GenericKind;
use crate::rules::Rules;

pub(crate) static KIND: GenericKind = GenericKind::new(Rules::PLAIN, validation::check);
