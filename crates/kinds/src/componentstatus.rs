//! Component statuses: made for the answer, never stored.

mod columns;

use crate::generic::GenericKind;
use crate::rules::Rules;

pub(crate) static KIND: GenericKind = GenericKind::plain(Rules::PLAIN).with_printer(&columns::PRINTER);
