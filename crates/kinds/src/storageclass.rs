//! Storage classes.

mod validation;

pub(crate) use validation::{check_parameters, check_provisioner};

use crate::checked::Checked;
use crate::rules::Rules;

pub(crate) static KIND: Checked = Checked::new(Rules::PLAIN, validation::check);
