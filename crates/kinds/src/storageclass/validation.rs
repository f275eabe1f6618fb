//! The rules of storage classes: a provisioner, its parameters, and that both stay.

use std::collections::BTreeMap;

use object::Value;

use crate::check::{Errors, Path, Seen, entries, items, member, text, texts};
use crate::write::Write;

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    // An update is validated as a whole class first.
    write.check_whole_metadata(errors);
    let class = write.new;
    check_provisioner(text(class, "provisioner"), &Path::Root("provisioner"), errors);
    check_parameters(class, errors);
    let policy = text(class, "reclaimPolicy");
    if !policy.is_empty() {
        errors.one_of(&Path::Root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let mode = Path::Root("volumeBindingMode");
    match member(class, "volumeBindingMode").and_then(Value::as_str) {
        None => errors.required(&mode, ""),
        Some(chosen) => errors.one_of(&mode, chosen, &["Immediate", "WaitForFirstConsumer"]),
    }
    check_topologies(class, errors);
    if let Some(old) = write.old {
        write.check_metadata(errors);
        for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            errors.immutable(&Path::Root(name), class.get(name), old.get(name));
        }
    }
}

pub(crate) fn check_provisioner(provisioner: &str, at: &Path<'_>, errors: &mut Errors) {
    match provisioner {
        "" => errors.required(at, ""),
        _ => errors.qualified(at, &provisioner.to_lowercase()),
    }
}

pub(crate) fn check_parameters(class: &Value, errors: &mut Errors) {
    let at = Path::Root("parameters");
    if entries(class, "parameters").count() > PARAMETERS_MAX {
        return errors.too_long(&at, PARAMETERS_MAX);
    }
    let mut bytes = 0;
    for (key, value) in entries(class, "parameters") {
        if key.is_empty() {
            errors.invalid(&at, key, "field can not be empty.");
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > PARAMETERS_MAX_BYTES {
        errors.too_long(&at, PARAMETERS_MAX_BYTES);
    }
}

fn check_topologies(class: &Value, errors: &mut Errors) {
    let list = Path::Root("allowedTopologies");
    let topologies = items(class, "allowedTopologies");
    // How often a term was met.
    let mut terms: BTreeMap<Vec<(&str, Vec<&str>)>, usize> = BTreeMap::new();
    for (i, term) in topologies.iter().enumerate() {
        let at = list.index(i);
        let expressions = items(term, "matchLabelExpressions");
        let mut keys = Seen::default();
        for (j, expression) in expressions.iter().enumerate() {
            let parent = at.child("matchLabelExpressions");
            let at = parent.index(j);
            let values: Vec<&str> = texts(expression, "values").collect();
            if values.is_empty() {
                errors.required(&at.child("values"), "");
            }
            let mut seen = Seen::default();
            for (k, value) in values.iter().enumerate() {
                if seen.again(value) {
                    errors.duplicate(&at.child("values").index(k), *value);
                }
            }
            let key = text(expression, "key");
            errors.qualified(&at.child("key"), key);
            if keys.again(key) {
                errors.duplicate(&at.child("key"), key);
            }
        }
        // Upstream compares with a list that begins with an empty term for each: one without expressions is always there.
        let blank = if expressions.is_empty() { topologies.len() } else { 0 };
        let before = terms.entry(in_order(term)).or_default();
        for _ in 0..blank + *before {
            if errors.is_full() {
                break;
            }
            errors.duplicate(&at.child("matchLabelExpressions"), "");
        }
        *before += 1;
    }
}

/// A term such that one with the same values for the same keys, in any order, is equal to it.
fn in_order(term: &Value) -> Vec<(&str, Vec<&str>)> {
    let one = |e| {
        let mut values: Vec<&str> = texts(e, "values").collect();
        values.sort_unstable();
        values.dedup();
        (text(e, "key"), values)
    };
    let mut all: Vec<(&str, Vec<&str>)> = items(term, "matchLabelExpressions").iter().map(one).collect();
    all.sort();
    all
}
