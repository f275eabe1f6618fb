//! The rules of storage classes: a provisioner, its parameters, and that both stay.

use object::Value;

use crate::check::{Errors, Path, entries, items, member, text, texts};
use crate::checked::Write;

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    // An update is judged as a whole class first.
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
    for (i, term) in topologies.iter().enumerate() {
        let at = list.index(i);
        let expressions = items(term, "matchLabelExpressions");
        for (j, expression) in expressions.iter().enumerate() {
            let parent = at.child("matchLabelExpressions");
            let at = parent.index(j);
            let values: Vec<&str> = texts(expression, "values").collect();
            if values.is_empty() {
                errors.required(&at.child("values"), "");
            }
            for (k, value) in values.iter().enumerate() {
                if values[..k].contains(value) {
                    errors.duplicate(&at.child("values").index(k), *value);
                }
            }
            let key = text(expression, "key");
            errors.qualified(&at.child("key"), key);
            if expressions[..j].iter().any(|e| text(e, "key") == key) {
                errors.duplicate(&at.child("key"), key);
            }
        }
        // Upstream compares with a list that begins with an empty term for each: one without expressions is always there.
        let blank = if expressions.is_empty() { topologies.len() } else { 0 };
        let before = topologies[..i].iter().filter(|before| same_term(before, term)).count();
        for _ in 0..blank + before {
            errors.duplicate(&at.child("matchLabelExpressions"), "");
        }
    }
}

/// Two terms with the same values for the same keys, in any order.
fn same_term(a: &Value, b: &Value) -> bool {
    let sorted = |term: &Value| {
        let mut all: Vec<(String, Vec<String>)> = items(term, "matchLabelExpressions")
            .iter()
            .map(|e| {
                let mut values: Vec<String> = texts(e, "values").map(str::to_owned).collect();
                values.sort();
                values.dedup();
                (text(e, "key").to_owned(), values)
            })
            .collect();
        all.sort();
        all
    };
    sorted(a) == sorted(b)
}
