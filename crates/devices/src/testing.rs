//! Objects for tests, from JSON.

use object::Value;

pub(crate) fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).expect("tests write JSON")
}
