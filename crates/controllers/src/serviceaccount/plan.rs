//! The account to make, if any.

use object::Value;

pub const ACCOUNT: &str = "default";

/// Only in a namespace in use. What people make of an account that is there is theirs.
pub fn plan(namespace: Option<&Value>, there: bool) -> Option<Value> {
    let active = |namespace: &Value| namespace.str_at(&["status", "phase"]) == Some("Active");
    if there || !namespace.is_some_and(active) {
        return None;
    }
    let mut account = Value::map();
    account.map_at(&["metadata"]).set("name", ACCOUNT);
    Some(account)
}
