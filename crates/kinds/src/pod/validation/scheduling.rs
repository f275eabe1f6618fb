//! Tolerations, and the taint effects they match.

use object::{Value, validate_text};

use crate::check::{Errors, Path, member, text};

pub(crate) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `compare`: the stored object already uses `Lt` or `Gt`, which v1.36 does not offer yet.
pub(crate) fn tolerations(tolerations: &[Value], at: &Path<'_>, compare: bool, errors: &mut Errors) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let at = at.index(i);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        let operator_at = at.child("operator");
        if !key.is_empty() {
            errors.qualified(&at.child("key"), key);
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&operator_at, operator, detail);
        }
        if member(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.child("effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let problems = validate_text::label_value(value);
                if !problems.is_empty() {
                    errors.invalid(&operator_at, value, problems.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&operator_at, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" if compare => check_number(value, &at.child("value"), errors),
            "Lt" | "Gt" => errors.not_supported(&operator_at, operator, &["Equal", "Exists", "Lt", "Gt"]),
            other => errors.not_supported(&operator_at, other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors.one_of(&at.child("effect"), effect, &EFFECTS);
        }
    }
}

/// The effect of a taint; required.
pub(crate) fn taint_effect(effect: &str, at: &Path<'_>, errors: &mut Errors) {
    errors.choice(at, effect, &EFFECTS);
}

pub(super) fn compares(tolerations: &[Value]) -> bool {
    tolerations.iter().any(|t| matches!(text(t, "operator"), "Lt" | "Gt"))
}

fn check_number(value: &str, at: &Path<'_>, errors: &mut Errors) {
    if value.is_empty() {
        errors.invalid(at, value, "must be non-empty");
    } else {
        let digits = value.strip_prefix('-').unwrap_or(value);
        let canonical = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && (value == "0" || !digits.starts_with('0'));
        if !canonical {
            errors.invalid(at, value, "must be a valid decimal integer in canonical form");
        }
    }
    if let Err(error) = value.parse::<i64>() {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        errors.invalid(at, value, format!("strconv.ParseInt: parsing {}: {why}", object::quote(value)));
    }
}
