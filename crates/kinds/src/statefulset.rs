//! Stateful sets.

mod validation;

use crate::checked::Checked;
use crate::rules::{Generation, NameRule, Rules, StatusMeta};
use crate::scale::WORKLOAD;
use crate::workload;

pub(crate) static KIND: Checked = Checked::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free).with_name(NameRule::Label),
    validation::check,
)
.with_scale(&WORKLOAD)
.with_blank(workload::without_replicas);
