//! Resource quotas.

mod validation;

use crate::checked::Checked;
use crate::rules::{Rules, StatusMeta};

pub(crate) static KIND: Checked = Checked::new(Rules::PLAIN.with_status(StatusMeta::Free), validation::check);
