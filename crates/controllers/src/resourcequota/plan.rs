//! What the status of a quota should say.

use kinds::resourcequota::usage::{List, Quota};
use object::Value;

/// The quota with another status; `None`: it has this one.
pub fn plan(quota: Quota, used: List) -> Option<Value> {
    let mut settled = quota.clone();
    settled.settle(used);
    (settled.hard != quota.hard || settled.used != quota.used).then(|| settled.into_tree())
}

/// For people.
pub fn shown(quota: &Value) -> String {
    kinds::resourcequota::usage::show(&Quota::of(quota.clone()).used)
}
