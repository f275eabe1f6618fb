//! Owner references: complete, at most one controller, nothing twice.

use std::collections::BTreeMap;

use object::{FieldError, Value, quote};

use super::{meta, shown};

const FIELD: &str = "metadata.ownerReferences";

pub(super) fn check_owner_references(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(list) = meta(new, "ownerReferences") else { return };
    let mut controller: Option<String> = None;
    for owner in list.as_list().unwrap_or_default() {
        check_one(owner, errors);
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                errors.push(FieldError::invalid(FIELD, shown(list), detail));
            }
            None => controller = Some(this),
        }
    }
}

/// Drops duplicate owner references. Returns the warning the client gets.
pub fn dedup_owner_references(object: &mut Value, after_admission: bool) -> Option<String> {
    let metadata = object.as_map_mut()?.get_mut("metadata")?.as_map_mut()?;
    let Some(Value::List(owners)) = metadata.get_mut("ownerReferences") else { return None };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice: Vec<String> = Vec::new();
    // Those of one key differ by two flags at most: there are never many of them.
    let mut places: BTreeMap<[String; 4], Vec<usize>> = BTreeMap::new();
    for owner in owners.drain(..) {
        let key = ["uid", "name", "kind", "apiVersion"].map(|member| text(&owner, member).to_owned());
        let alike = places.entry(key).or_default();
        if alike.iter().any(|at| crate::same(Some(&kept[*at]), Some(&owner))) {
            twice.push(text(&owner, "uid").to_owned());
        } else {
            alike.push(kept.len());
            kept.push(owner);
        }
    }
    *owners = kept;
    let when = if after_admission { " after mutating admission happens" } else { "" };
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

fn check_one(owner: &Value, errors: &mut Vec<FieldError>) {
    let api_version = text(owner, "apiVersion");
    // More than one slash names nothing.
    let (group, version) = match api_version.split_once('/') {
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some((group, version)) => (group, version),
        None => ("", api_version),
    };
    if version.is_empty() {
        let detail = "version must not be empty";
        errors.push(FieldError::invalid(format!("{FIELD}.apiVersion"), quote(api_version), detail));
    }
    for member in ["kind", "name", "uid"] {
        if text(owner, member).is_empty() {
            errors.push(FieldError::invalid(format!("{FIELD}.{member}"), "\"\"", "must not be empty"));
        }
    }
    if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid(FIELD, shown(owner), detail));
    }
}

fn text<'a>(owner: &'a Value, member: &str) -> &'a str {
    owner.get(member).and_then(Value::as_str).unwrap_or_default()
}
