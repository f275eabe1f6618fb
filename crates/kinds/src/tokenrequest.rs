//! Token requests: the body of `serviceaccounts/token`, answered and never stored.

mod defaults;

use crate::generic::GenericKind;
use crate::rules::Rules;

pub(crate) static KIND: GenericKind = GenericKind::plain(Rules::PLAIN).with_defaults(defaults::apply);
