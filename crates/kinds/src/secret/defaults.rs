//! Secrets: of no special type, and their text is data as soon as they are read: who writes the one owns the other.

use object::Map;

use crate::defaults::fill::Literal::Text;
use crate::defaults::fill::{Default, fill, plain};

const SECRET: &[Default] = &[plain("type", Text("Opaque"))];

pub(crate) fn apply(secret: &mut Map) {
    fill(secret, SECRET);
    super::encode_text(secret);
}
