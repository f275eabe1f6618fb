//! The rules of priority classes: system names and values are reserved, and the value is immutable.

use object::Value;

use crate::check::{Errors, Path, flag, int, member};
use crate::write::Write;

const USER_MAX: i64 = 1_000_000_000;
/// Name, value.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let class = write.new;
    let value = int(class, "value").unwrap_or(0);
    let policy = Path::Root("preemptionPolicy");
    if let Some(old) = write.old {
        if value != int(old, "value").unwrap_or(0) {
            errors.forbidden(&Path::Root("value"), "may not be changed in an update.");
        }
        return errors.immutable(&policy, class.get("preemptionPolicy"), old.get("preemptionPolicy"));
    }
    let name = class.str_at(&["metadata", "name"]).unwrap_or_default();
    if name.starts_with("system-") {
        if let Some(why) = unknown(name, value, flag(class, "globalDefault")) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            errors.forbidden(&Path::Root("metadata.name"), detail);
        }
    } else if value > USER_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_MAX}");
        errors.forbidden(&Path::Root("value"), detail);
    }
    if let Some(chosen) = member(class, "preemptionPolicy").and_then(Value::as_str) {
        errors.choice(&policy, chosen, &["PreemptLowerPriority", "Never"]);
    }
}

/// Why it is no system class.
fn unknown(name: &str, value: i64, default: bool) -> Option<String> {
    let Some((_, known)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if *known != value {
        return Some(format!("value of {name} PriorityClass must be {known}"));
    }
    default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
