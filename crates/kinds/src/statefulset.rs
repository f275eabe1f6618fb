//! Stateful sets.

mod columns;
mod defaults;
mod validation;
mod warnings;

use crate::gates::DisabledFeature;
use crate::generic::GenericKind;
use crate::rules::{Generation, NameRule, Rules, StatusMeta};
use crate::scale::WORKLOAD;
use crate::workload::{self, POD_SPEC};

const DISABLED: &[DisabledFeature] = &[DisabledFeature::new(
    "MaxUnavailableStatefulSet",
    &["spec.updateStrategy.rollingUpdate.maxUnavailable"],
)];

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free).with_name(NameRule::Label),
    validation::check,
)
.with_scale(&WORKLOAD)
.with_blank(workload::without_replicas)
.with_defaults(defaults::apply)
.with_warnings(warnings::warn)
.with_printer(&columns::PRINTER)
.with_pod_spec_path(POD_SPEC)
.with_disabled_features(DISABLED);
