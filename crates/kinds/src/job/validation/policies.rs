//! A job's policies: of failure, of success, of replacing pods.

use object::Value;

use super::{indexes, is_indexed};
use crate::check::internal::{Field, Go, NULL, internal};
use crate::check::{Errors, Path, Raw, Seen, int, items, member, text};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const INDEXES_MAX_BYTES: usize = 64 * 1024;
const SUCCESS: &[Field] = &[("rules", "Rules", Go::List(SUCCESS_RULE))];
const SUCCESS_RULE: &[Field] =
    &[("succeededIndexes", "SucceededIndexes", NULL), ("succeededCount", "SucceededCount", NULL)];
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

pub(super) fn check(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(policy) = member(spec, "podFailurePolicy") {
        let at = at.child("podFailurePolicy");
        let rules = items(policy, "rules");
        if rules.len() > RULES_MAX {
            errors.too_many(&at.child("rules"), rules.len(), RULES_MAX);
        }
        for (i, rule) in rules.iter().enumerate() {
            check_failure_rule(spec, rule, &at.child("rules").index(i), errors);
        }
    }
    if let Some(policy) = member(spec, "successPolicy") {
        let at = at.child("successPolicy");
        if is_indexed(spec) {
            check_success(spec, policy, &at, errors);
        } else {
            errors.invalid(&at, Raw(&internal(Some(policy), SUCCESS)), "requires indexed completion mode");
        }
    }
    let only_failed = member(spec, "podFailurePolicy").is_some();
    let policies: &[&str] = if only_failed { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    errors.one_of_member(at, spec, "podReplacementPolicy", policies);
}

/// As Go prints a list of strings with `%q`.
fn listed(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|v| object::quote(v)).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn check_failure_rule(spec: &Value, rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let action_at = at.child("action");
    match text(rule, "action") {
        "" => errors.required(&action_at, &listed(&ACTIONS)),
        "FailIndex" => {
            if int(spec, "backoffLimitPerIndex").is_none() {
                errors.invalid(&action_at, "FailIndex", "requires the backoffLimitPerIndex to be set");
            }
        }
        other => errors.one_of(&action_at, other, &ACTIONS),
    }
    let codes = member(rule, "onExitCodes");
    if let Some(codes) = codes {
        check_exit_codes(spec, codes, &at.child("onExitCodes"), errors);
    }
    let patterns = items(rule, "onPodConditions");
    check_patterns(patterns, &at.child("onPodConditions"), errors);
    match (codes.is_some(), patterns.is_empty()) {
        (true, false) => {
            errors.invalid(at, Raw(""), "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (false, true) => {
            errors.invalid(at, Raw(""), "specifying one of OnExitCodes and OnPodConditions is required");
        }
        _ => {}
    }
}

fn check_patterns(patterns: &[Value], at: &Path<'_>, errors: &mut Errors) {
    if patterns.len() > PATTERNS_MAX {
        errors.too_many(at, patterns.len(), PATTERNS_MAX);
    }
    let states = ["False", "True", "Unknown"];
    for (i, pattern) in patterns.iter().enumerate() {
        let at = at.index(i);
        errors.qualified(&at.child("type"), text(pattern, "type"));
        match text(pattern, "status") {
            "" => errors.required(&at.child("status"), &listed(&states)),
            other => errors.one_of(&at.child("status"), other, &states),
        }
    }
}

fn check_exit_codes(spec: &Value, codes: &Value, at: &Path<'_>, errors: &mut Errors) {
    let operator = text(codes, "operator");
    match operator {
        "" => errors.required(&at.child("operator"), &listed(&["In", "NotIn"])),
        other => errors.one_of(&at.child("operator"), other, &["In", "NotIn"]),
    }
    if let Some(name) = member(codes, "containerName").and_then(Value::as_str) {
        let named = |list: &str| {
            spec.at(&["template", "spec"])
                .is_some_and(|s| items(s, list).iter().any(|c| text(c, "name") == name))
        };
        if !named("containers") && !named("initContainers") {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&at.child("containerName"), name, detail);
        }
    }
    let at = at.child("values");
    let values: Vec<i64> = items(codes, "values").iter().map(|v| v.as_int().unwrap_or(0)).collect();
    if values.is_empty() {
        errors.invalid(&at, codes.get("values"), "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(&at, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = Seen::default();
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&at.index(i), *value, "must not be 0 for the In operator");
        }
        if seen.again(value) {
            errors.duplicate(&at.index(i), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&at, codes.get("values"), "must be ordered");
    }
}

fn check_success(spec: &Value, policy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rules = items(policy, "rules");
    let at = at.child("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&at, detail);
    }
    if rules.len() > RULES_MAX {
        errors.too_many(&at, rules.len(), RULES_MAX);
    }
    let completions = int(spec, "completions").unwrap_or(0);
    for (i, rule) in rules.iter().enumerate() {
        let at = at.index(i);
        let wanted = member(rule, "succeededIndexes").and_then(Value::as_str);
        let count = int(rule, "succeededCount");
        if wanted.is_none() && count.is_none() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.required(&at, detail);
        }
        let mut total = 0;
        if let Some(wanted) = wanted {
            let at = at.child("succeededIndexes");
            if wanted.len() > INDEXES_MAX_BYTES {
                errors.too_long(&at, INDEXES_MAX_BYTES);
            }
            match indexes::count(wanted, completions) {
                Ok(count) => total = count,
                Err(error) => {
                    errors.invalid(&at, wanted, format!("error parsing succeededIndexes: {error}"));
                }
            }
        }
        let Some(count) = count else { continue };
        errors.nonnegative(&at, rule, "succeededCount");
        let at = at.child("succeededCount");
        if count > completions {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.invalid(&at, count, detail);
        }
        if wanted.is_some() && count > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.invalid(&at, count, detail);
        }
    }
}
