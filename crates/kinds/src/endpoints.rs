//! Endpoints.

mod validation;

use crate::checked::Checked;
use crate::rules::Rules;

pub(crate) static KIND: Checked = Checked::new(Rules::PLAIN, validation::check);
