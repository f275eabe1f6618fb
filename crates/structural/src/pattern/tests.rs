//! Sharing.

use super::*;

#[test]
fn the_same_text_is_one_pattern() {
    assert!(Arc::ptr_eq(&Pattern::shared("^same$"), &Pattern::shared("^same$")));
}
