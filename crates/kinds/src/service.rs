//! Services.

pub(crate) mod columns;
mod defaults;
mod update;
mod validation;
pub(crate) mod warnings;

pub(crate) use validation::endpoint_ip;
pub use validation::service_address_errors;

use crate::generic::GenericKind;
use crate::rules::{NameRule, Rules, StatusMeta};

pub(crate) static KIND: GenericKind = GenericKind::new(
    Rules::PLAIN.with_status(StatusMeta::Free).with_name(NameRule::Label),
    validation::check,
)
.with_create(update::drop_on_create)
.with_update(update::drop_what_the_type_left)
.with_defaults(defaults::apply)
.with_warnings(warnings::warn)
.with_status_warnings(warnings::warn_status)
.with_printer(&columns::PRINTER);
