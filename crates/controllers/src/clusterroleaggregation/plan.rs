//! The rules an aggregated role should have.

use auth::rbac::{RoleForAggregation, aggregated_rules};
use object::Value;
use object::selector::LabelSelector;

/// What to apply; `None`: the role has these rules.
pub fn plan(role: &Value, candidates: &[(String, Value)], selectors: &[LabelSelector]) -> Option<Value> {
    let name = role.str_at(&["metadata", "name"]).unwrap_or_default();
    let candidates = candidates.iter().map(|(name, object)| RoleForAggregation { name, object });
    let rules: Vec<Value> =
        aggregated_rules(name, candidates, selectors).iter().map(|rule| rule.to_value()).collect();
    // What is empty may be null: to write it again would change nothing but who manages it.
    let present = role.get("rules").and_then(Value::as_list).unwrap_or_default();
    if present == rules {
        return None;
    }
    let mut config = Value::map();
    // What was deleted meanwhile is not made again.
    config.map_at(&["metadata"]).set("uid", role.str_at(&["metadata", "uid"]).unwrap_or_default());
    if !rules.is_empty() {
        config.make_map().set("rules", rules);
    }
    Some(config)
}
