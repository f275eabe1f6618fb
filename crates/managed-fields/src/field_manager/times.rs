//! A write that changes nothing but the times of its managers changes nothing.

use object::{Map, Value};

use super::managed_fields;

/// Whether `new` is `old` but for the times of managers; if so it gets those of `old`. Both are canonical.
pub fn keep_times_of_unchanged(old: &Value, new: &mut Value) -> bool {
    let same = {
        let (Some(Value::List(old_fields)), Some(Value::List(new_fields))) =
            (managed_fields(old), managed_fields(new))
        else {
            return false;
        };
        old_fields.len() == new_fields.len()
            && old_fields.iter().zip(new_fields).all(|(old, new)| equal_but(old, new, &["time"]))
            && equal_but(old, new, &["metadata", "managedFields"])
    };
    if same && let Some(old) = managed_fields(old) {
        new.map_at(&["metadata"]).set("managedFields", old.clone());
    }
    same
}

/// Whether two values are the same, whatever they have at a path.
fn equal_but(old: &Value, new: &Value, path: &[&str]) -> bool {
    let (Value::Map(old), Value::Map(new)) = (old, new) else { return old == new };
    let [name, below @ ..] = path else { return old == new };
    let others = |map: &'_ Map| map.len() - usize::from(map.contains(name));
    if others(old) != others(new) {
        return false;
    }
    let unequal = |(member, value): (&catalog::Name, &Value)| {
        member.as_str() != *name && new.get(member) != Some(value)
    };
    if old.iter().any(unequal) {
        return false;
    }
    below.is_empty()
        || match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => equal_but(old, new, below),
            (None, None) => true,
            _ => false,
        }
}
