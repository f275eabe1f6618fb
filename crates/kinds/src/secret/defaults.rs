//! Secrets: of no special type.

use object::Map;

use super::fill::Literal::Text;
use super::fill::{Default, fill, plain};

const SECRET: &[Default] = &[plain("type", Text("Opaque"))];

pub(crate) fn apply(secret: &mut Map) {
    fill(secret, SECRET);
}
