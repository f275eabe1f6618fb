//! Nodes.

mod columns;
mod defaults;
pub(crate) mod labels;
mod validation;
mod warnings;

use crate::gates::DisabledFeature;
use crate::generic::GenericKind;
use crate::rules::Rules;

const DISABLED: &[DisabledFeature] = &[
    DisabledFeature::new("DynamicKubeletConfig", &["spec.configSource"]),
    DisabledFeature::new("DynamicKubeletConfig", &["status.config"]),
];

/// A node may be created with a status: kubelets register that way.
pub(crate) static KIND: GenericKind =
    GenericKind::new(Rules { keep_status_on_update: true, ..Rules::PLAIN }, validation::check)
        .with_defaults(defaults::apply)
        .with_warnings(warnings::warn)
        .with_printer(&columns::PRINTER)
        .with_disabled_features(DISABLED);
