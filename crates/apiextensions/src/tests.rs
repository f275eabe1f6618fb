//! What the tests of this crate share.

use object::Value;

/// 2026-01-01T00:00:00Z.
pub(crate) const AT: i64 = 1_767_225_600;
pub(crate) const LATER: i64 = AT + 3600;

pub(crate) fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).expect("the test writes JSON")
}

pub(crate) fn text(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).expect("JSON is text")
}
