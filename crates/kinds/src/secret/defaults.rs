//! Secrets: of no special type.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, fill, plain};

const SECRET: &[Default] = &[plain("type", Text("Opaque"))];

pub(crate) fn apply(secret: &mut Map) {
    fill(secret, SECRET);
}
