//! JSON merge patch (RFC 7386): maps merge, null removes, everything else is replaced.

use super::discard_nulls;
use super::entries::Entries;
use crate::{Map, Status, Value, deep, discard};

/// Merges `patch` into `doc`. A patch that is not a map is rejected: an object cannot become a scalar.
///
/// Beyond the RFC, nulls are also left out of maps inside lists that the patch adds, as kube-apiserver does.
pub fn apply(doc: &mut Value, patch: Value) -> Result<(), Status> {
    let patch = match patch {
        Value::Map(patch) => patch,
        Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
        other => {
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.json_type()
            )));
        }
    };
    match doc {
        Value::Map(doc) => merge_maps(doc, patch),
        other => {
            let mut patch = Value::Map(patch);
            discard_nulls(&mut patch);
            *other = patch;
        }
    }
    Ok(())
}

fn merge_maps(doc: &mut Map, patch: Map) {
    // A name that occurs twice in the patch means its last value only.
    let patch = Entries::open(patch).close();
    let mut entries = Entries::open(std::mem::take(doc));
    for (name, value) in patch {
        match (entries.get_mut(&name), value) {
            (_, Value::Null) => {
                entries.remove(&name).into_iter().for_each(discard);
            }
            (Some(Value::Map(old)), Value::Map(new)) => deep(|| merge_maps(old, new)),
            (Some(slot @ Value::Map(_)), new) => *slot = new,
            (_, mut new) => {
                discard_nulls(&mut new);
                sort(&mut new);
                entries.set(name, new);
            }
        }
    }
    *doc = entries.close();
    sort_names(doc);
}

/// Go writes merged and added maps by name; refusals show them so, and name unknown fields in that order.
fn sort_names(map: &mut Map) {
    map.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
}

fn sort(value: &mut Value) {
    match value {
        Value::Map(map) => {
            sort_names(map);
            deep(|| map.iter_mut().for_each(|(_, value)| sort(value)));
        }
        Value::List(list) => deep(|| list.iter_mut().for_each(sort)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
