//! Services.

mod validation;

pub(crate) use validation::endpoint_ip;

use crate::checked::Checked;
use crate::rules::{NameRule, Rules, StatusMeta};

pub(crate) static KIND: Checked =
    Checked::new(Rules::PLAIN.with_status(StatusMeta::Free).with_name(NameRule::Label), validation::check);
